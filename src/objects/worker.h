/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_OBJECTS_WORKER_H
#define CBX_OBJECTS_WORKER_H

/* What the files of codebox-upload share. */
#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "objects/sign.h"
#include "sandbox/seccomp.h"

struct cbx_upload {
	int sock; /* of the job; its other end closed: the job is given up */
	int fd;	  /* the file */
	struct cbx_objects store;
	const char *key, *type;
	uint64_t size;
	uint64_t deadline;	  /* in ms of the monotonic clock */
	const char *certificates; /* a file; NULL: the system's */
	CURL *easy;
	unsigned failures; /* of requests that were made again */
	bool clearing;	   /* what was begun is removed: nobody waits for this */
};

/* One request, and its answer. The body is text, or a part of the file. */
struct cbx_request {
	const char *method, *query, *content_type;
	const char *text; /* NULL: of the file */
	uint64_t offset, length;
	bool whole;		  /* the body is all of an object */
	bool errors_in_body;	  /* a good status may have one there */
	char sha256[65], md5[25]; /* for S3, for Azure; set by cbx_upload_request() */
	/* The answer. */
	long status;
	uint64_t answer_length; /* Content-Length */
	char etag[200];
	struct cbx_buf body;
	/* Of transfer.c. */
	struct cbx_upload *upload;
	uint64_t sent;
	bool elsewhere;
};

/* Carries a request out, again where it failed in a way that passes. 0: its status is one of success. Otherwise err
 * says what the store said, and status is what it was, or 0. */
int cbx_upload_request(struct cbx_upload *u, struct cbx_request *q, struct cbx_err *err);

/* What is there no more is removed. */
int cbx_upload_remove(struct cbx_upload *u, struct cbx_err *err);
int cbx_s3_upload(struct cbx_upload *u, struct cbx_err *err);
int cbx_azure_upload(struct cbx_upload *u, struct cbx_err *err);

int cbx_upload_confine(const struct cbx_filter *filter, const char *certificates, struct cbx_err *err);

#endif
