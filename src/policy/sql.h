/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_POLICY_SQL_H
#define CBX_POLICY_SQL_H

/* Databases that may be asked: "sql" in a policy. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "policy/secret.h"
#include "policy/servers.h"

struct cbx_sql_connection {
	char name[CBX_NAME_MAX + 1];
	cJSON *json; /* its canonical form, checked; what codebox-sql gets (sql/job.h), but for "password" */
	struct cbx_secret_ref secret;
	struct cbx_secret_ref string; /* instead: where its connection string is; json is empty then */
};

struct cbx_sql_rules {
	struct cbx_sql_connection *all;
	size_t n;
	char **allow; /* names of those in force; NULL: all that there are */
	size_t nallow;
	struct cbx_servers servers; /* that requests may name */
};

/* Read the values of "connections" and "allow", which replace what was there. On failure *ret_bad is the node that is
 * wrong, and messages begin with the key. */
int cbx_sql_connections_parse(const cJSON *v, struct cbx_sql_rules *rules, const cJSON **ret_bad, struct cbx_err *err);
int cbx_sql_allow_parse(const cJSON *v, struct cbx_sql_rules *rules, const cJSON **ret_bad, struct cbx_err *err);
void cbx_sql_rules_release(struct cbx_sql_rules *rules);
void cbx_sql_rules_to_json(const struct cbx_sql_rules *rules, cJSON *group); /* adds to it */
void cbx_sql_rules_schema(cJSON *properties);				     /* likewise */
/* The connections of `wide` that both name: a policy that names none allows none. */
void cbx_sql_rules_narrow(struct cbx_sql_rules *ret, const struct cbx_sql_rules *wide,
			  const struct cbx_sql_rules *narrow);
/* One that is in force, or NULL. */
const struct cbx_sql_connection *cbx_sql_rules_find(const struct cbx_sql_rules *rules, const char *name);
/* The i-th of those in force, or NULL. */
const struct cbx_sql_connection *cbx_sql_rules_nth(const struct cbx_sql_rules *rules, size_t i);

/* One member of "connections"; messages begin with its key. */
int cbx_sql_connection_parse(const cJSON *v, struct cbx_sql_connection *c, const cJSON **ret_bad, struct cbx_err *err);

/* ---- sql-request.c ---- */

/* What a connection string says. rules: it is a request's, whose server the policy must name; NULL: the policy's own.
 * *ret_password, malloc'd: what it has, or NULL; without ret_password it must not have one. Errors: "invalid_argument",
 * which names the key, and "server_not_allowed". ret->json is the caller's. */
int cbx_sql_connection_of_string(const struct cbx_sql_rules *rules, const char *text, struct cbx_sql_connection *ret,
				 char **ret_password, struct cbx_err *err);

#endif
