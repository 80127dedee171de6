/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/environment.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/limits.h"

bool cbx_variable_name_valid(const char *name)
{
	size_t n = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");

	return n > 0 && n < 100 && !name[n] && !(name[0] >= '0' && name[0] <= '9') && strncmp(name, "CODEBOX_", 8) != 0;
}

static int too_many(struct cbx_err *err)
{
	return cbx_refuse(err, "invalid_argument", E2BIG,
			  "environment: more than %d variables, or %zu bytes of them; put data into a file",
			  CBX_VARIABLES_MAX, CBX_ENVIRONMENT_MAX);
}

int cbx_environment_check(const cJSON *obj, const cJSON **ret_bad, struct cbx_err *err)
{
	size_t n = 0, bytes = 0;
	const cJSON *v;

	if (ret_bad)
		*ret_bad = obj;
	if (!cJSON_IsObject(obj))
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "environment: wrong type; give an object of strings, as in {\"NAME\": \"value\"}");
	cJSON_ArrayForEach(v, obj) {
		if (ret_bad)
			*ret_bad = v;
		if (strncmp(v->string, "CODEBOX_", 8) == 0)
			return cbx_refuse(
				err, "invalid_argument", EINVAL,
				"environment: %.80s: names that begin with CODEBOX_ are codebox's own; choose another",
				v->string);
		if (!cbx_variable_name_valid(v->string))
			return cbx_refuse(err, "invalid_argument", EINVAL,
					  "environment: \"%.80s\" is not a name; use letters, digits and \"_\", not a "
					  "digit first, "
					  "at most 99",
					  v->string);
		if (!cJSON_IsString(v))
			return cbx_refuse(err, "invalid_argument", EINVAL, "environment: %s: wrong type; give a string",
					  v->string);
		bytes += strlen(v->string) + strlen(v->valuestring) + 2;
		if (++n > CBX_VARIABLES_MAX || bytes > CBX_ENVIRONMENT_MAX)
			return too_many(err);
	}
	return 0;
}

int cbx_environment_fits(const struct cbx_environment *env, struct cbx_err *err)
{
	size_t bytes = 0;

	for (size_t i = 0; i < env->n; i++)
		bytes += strlen(env->all[i].name) + strlen(env->all[i].value) + 2;
	return env->n > CBX_VARIABLES_MAX || bytes > CBX_ENVIRONMENT_MAX ? too_many(err) : 0;
}

void cbx_environment_set(struct cbx_environment *env, const char *name, const char *value)
{
	size_t i = 0;

	while (i < env->n && strcmp(env->all[i].name, name) < 0)
		i++;
	if (i == env->n || strcmp(env->all[i].name, name) != 0) {
		env->all = cbx_xrealloc(env->all, (env->n + 1) * sizeof(*env->all));
		memmove(&env->all[i + 1], &env->all[i], (env->n - i) * sizeof(*env->all));
		env->n++;
		env->all[i] = (struct cbx_variable){ cbx_xstrdup(name), NULL };
	}
	free(env->all[i].value);
	env->all[i].value = cbx_xstrdup(value);
}

const char *cbx_environment_get(const struct cbx_environment *env, const char *name)
{
	for (size_t i = 0; i < env->n; i++)
		if (strcmp(env->all[i].name, name) == 0)
			return env->all[i].value;
	return NULL;
}

void cbx_environment_release(struct cbx_environment *env)
{
	for (size_t i = 0; i < env->n; i++) {
		free(env->all[i].name);
		free(env->all[i].value);
	}
	free(env->all);
	memset(env, 0, sizeof(*env));
}
