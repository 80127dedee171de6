/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_IMAGE_REFERENCE_H
#define CBX_IMAGE_REFERENCE_H

/* The name of an image in a registry: [HOST[:PORT]/]PATH[:TAG][@sha256:DIGEST]. Without a host it is Docker Hub's. */
#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

struct cbx_reference {
	char host[256];	      /* that is asked: registry-1.docker.io for Docker Hub */
	char named[256];      /* that users name: docker.io */
	char repository[256]; /* library/python */
	char tag[129];	      /* "latest" if neither tag nor digest is given, else maybe "" */
	char digest[72];      /* or "" */
	bool loopback;	      /* the host is this machine */
};

int cbx_reference_parse(const char *text, struct cbx_reference *ret, struct cbx_err *err);
/* All of it: "docker.io/library/python:3.12"; owned by the caller. */
char *cbx_reference_print(const struct cbx_reference *ref);
/* The name that its image gets: "python-3.12", "python" for the latest. */
void cbx_reference_image_name(const struct cbx_reference *ref, char out[CBX_NAME_MAX + 1]);

#endif
