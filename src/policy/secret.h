/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_POLICY_SECRET_H
#define CBX_POLICY_SECRET_H

/*
 * A policy never has a password or a key: it names the environment variable, the file or the credential of systemd that
 * has it, and codeboxd reads that at its start (daemon/secrets.c).
 */
#include <stdbool.h>

#include "base/err.h"
#include "base/json.h"

enum cbx_secret_kind { CBX_SECRET_NONE, CBX_SECRET_ENVIRONMENT, CBX_SECRET_FILE, CBX_SECRET_CREDENTIAL };

struct cbx_secret_ref {
	enum cbx_secret_kind kind;
	char *name; /* of the variable, file or credential; NULL: none */
};

/* "environment", "file" or "credential"; NONE: it is none of these. */
enum cbx_secret_kind cbx_secret_kind(const char *word);
/* {"environment": NAME}, {"file": PATH} or {"credential": NAME}; false: it is none of these. */
bool cbx_secret_ref_parse(const cJSON *v, struct cbx_secret_ref *ret);
/* Likewise one member of an object that has others, too. */
bool cbx_secret_ref_member(const cJSON *m, struct cbx_secret_ref *ret);
void cbx_secret_ref_copy(struct cbx_secret_ref *to, const struct cbx_secret_ref *from);
void cbx_secret_ref_release(struct cbx_secret_ref *s);
/* Adds it to an object, as `key`; nothing for none. */
void cbx_secret_ref_to_json(const struct cbx_secret_ref *s, cJSON *obj, const char *key);
void cbx_secret_ref_add_member(const struct cbx_secret_ref *s, cJSON *obj); /* as a member of it */

#endif
