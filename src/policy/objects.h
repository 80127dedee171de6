/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_POLICY_OBJECTS_H
#define CBX_POLICY_OBJECTS_H

/* The object store that artifacts are copied to: "store" of "artifacts" in a policy. */
#include "base/err.h"
#include "base/json.h"
#include "policy/secret.h"
#include "policy/servers.h"

struct cbx_object_store {
	cJSON *json; /* its canonical form, checked; what codebox-upload gets (objects/job.h). NULL: there is none */
	struct cbx_secret_ref secret;
};

/* Read its value, which replaces what was there. On failure *ret_bad is the node that is wrong, and messages begin with
 * the key. */
int cbx_object_store_parse(const cJSON *v, struct cbx_object_store *s, const cJSON **ret_bad, struct cbx_err *err);
/* One member of a policy's "artifacts" without its secret: ret->json alone. */
int cbx_object_store_parse_place(const cJSON *v, struct cbx_object_store *s, const cJSON **ret_bad,
				 struct cbx_err *err);
void cbx_object_store_copy(struct cbx_object_store *to, const struct cbx_object_store *from);
void cbx_object_store_release(struct cbx_object_store *s);
void cbx_object_store_to_json(const struct cbx_object_store *s, cJSON *group); /* adds it */
void cbx_object_store_schema(cJSON *properties);			       /* likewise */

/* ---- objects-request.c ---- */

/* What a request's connection string of Azure Storage says, for a container (NULL: CodeBoxMCP's usual one): what
 * codebox-upload gets, and *ret_secret, malloc'd. Errors: "invalid_argument", and "server_not_allowed" for a store that
 * the policy does not name. */
int cbx_object_store_of_string(const struct cbx_servers *allowed, const char *text, const char *container, cJSON **ret,
			       char **ret_secret, struct cbx_err *err);

#endif
