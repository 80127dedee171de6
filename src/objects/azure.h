/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_OBJECTS_AZURE_H
#define CBX_OBJECTS_AZURE_H

/*
 * Azure Blob: requests with the account's key (SharedKey), or with a signature that an operator was given for a
 * container (SAS); links are service SAS of one blob, which only the key can make.
 */
#include "objects/sign.h"

#define CBX_AZURE_VERSION "2021-06-08"

/* Take key or signature from a secret: either of them, or a connection string that has one. */
int cbx_azure_secret(const char *secret, struct cbx_objects *ret, struct cbx_err *err);

/* false: there is no key to sign a link with. */
bool cbx_azure_link(const struct cbx_objects *o, const char *key, time_t now, uint64_t seconds, struct cbx_buf *url);

struct cbx_azure_request {
	const char *method, *key;
	const char *query; /* canonical: sorted, escaped */
	const char *md5;   /* of the body, in base64; NULL: there is none */
	uint64_t length;
	const char *date;	  /* RFC 1123 */
	const char *content_type; /* of the blob, NULL: none */
	bool whole;		  /* the body is all of the blob */
};
void cbx_azure_url(const struct cbx_objects *o, const struct cbx_azure_request *q, struct cbx_buf *url);
/* The headers that begin with x-ms-, sorted, a line for each; and Authorization's value, "" with a SAS. */
void cbx_azure_sign(const struct cbx_objects *o, const struct cbx_azure_request *q, struct cbx_buf *headers,
		    struct cbx_buf *authorization);

#endif
