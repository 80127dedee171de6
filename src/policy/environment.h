/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_POLICY_ENVIRONMENT_H
#define CBX_POLICY_ENVIRONMENT_H

/* Environment variables that a policy or a request gives to a session's programs. */
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/json.h"

struct cbx_variable {
	char *name, *value;
};

/* Sorted by name. A zeroed struct is empty. */
struct cbx_environment {
	struct cbx_variable *all;
	size_t n;
};

/* A letter or "_", then letters, digits and "_", at most 99; names that begin with CODEBOX_ are codebox's own. */
bool cbx_variable_name_valid(const char *name);
/* An object of strings. Errors begin with "environment" and set *ret_bad (which may be NULL) to the member. */
int cbx_environment_check(const cJSON *obj, const cJSON **ret_bad, struct cbx_err *err);
/* Whether they are within the bounds for one object, which they may have outgrown together; likewise. */
int cbx_environment_fits(const struct cbx_environment *env, struct cbx_err *err);
/* Set or replace one. */
void cbx_environment_set(struct cbx_environment *env, const char *name, const char *value);
const char *cbx_environment_get(const struct cbx_environment *env, const char *name); /* NULL: it has none */
void cbx_environment_release(struct cbx_environment *env);

#endif
