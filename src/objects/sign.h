/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_OBJECTS_SIGN_H
#define CBX_OBJECTS_SIGN_H

/*
 * Names of objects, and signatures of requests for them: what codeboxd needs for links, and codebox-upload for all
 * else. S3: AWS Signature Version 4, with the bucket in the path. Azure: azure.h.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

#define CBX_OBJECT_KEY_MAX 1024 /* bytes of a name, which is what S3 takes */

/* A store, as the policy has it, and its secret; borrowed. It is not copied, and forgotten at its end. */
struct cbx_objects {
	bool azure;
	const char *endpoint, *region, *bucket, *prefix, *user;
	const char *secret, *sas; /* of S3 a secret; of Azure a key, or a shared access signature */
	char held[1200];	  /* what these are, if they were part of a text */
};
int cbx_objects_read(const cJSON *store, const char *secret, struct cbx_objects *ret, struct cbx_err *err);
void cbx_objects_forget(struct cbx_objects *o);
/* A link that is good for this number of seconds from `now` on; false: there is nothing to sign one with. */
bool cbx_objects_sign_link(const struct cbx_objects *o, const char *key, time_t now, uint64_t seconds,
			   struct cbx_buf *url);

/* "https://HOST/BUCKET": which one it is, told with what is in it. */
void cbx_objects_place(const cJSON *store, struct cbx_buf *out);
/* What an artifact is called there. Its path is hostile: its last part is used, without control characters. */
void cbx_objects_key(const cJSON *store, const char *tenant, const char *session, const char *id, const char *path,
		     struct cbx_buf *out);
/* Percent-encode all but letters, digits and -._~ and, with `slashes`, "/". */
void cbx_objects_escape(struct cbx_buf *out, const char *s, bool slashes);

/* A link that is good for this number of seconds from `now` on. */
void cbx_s3_link(const struct cbx_objects *o, const char *key, time_t now, uint64_t seconds, struct cbx_buf *url);

/* A request with its headers. The query is canonical: sorted, escaped, with "=" behind each name. */
struct cbx_s3_request {
	const char *method, *key, *query, *sha256; /* of the body, in hex */
	const char *content_type;		   /* NULL: none */
	time_t now;
};
void cbx_s3_url(const struct cbx_objects *o, const struct cbx_s3_request *q, struct cbx_buf *url);
void cbx_s3_sign(const struct cbx_objects *o, const struct cbx_s3_request *q, char ret_date[17],
		 struct cbx_buf *authorization);

#endif
