/* SPDX-License-Identifier: Apache-2.0 */
/* The request to init: the environment is that of the session's interpreter, without what is between it and us. */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "command/state.h"
#include "policy/environment.h"

static void add_word(struct cbx_buf *b, const char *text)
{
	cbx_buf_add(b, text, strlen(text) + 1);
}

static int add_arguments(struct cbx_buf *b, const cJSON *argv, struct cbx_err *err)
{
	const cJSON *v;
	int n = 0;

	cJSON_ArrayForEach(v, argv) {
		if (!cJSON_IsString(v))
			return cbx_refuse(err, "invalid_argument", EINVAL,
					  "argv: one of them is not a string; give a program and its arguments as "
					  "strings");
		add_word(b, v->valuestring);
		n++;
	}
	if (n == 0)
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "argv: it is empty; give a program and its arguments");
	if (n >= CBX_INIT_WORDS_MAX)
		return cbx_refuse(err, "invalid_argument", E2BIG, "argv: %d strings are too many; give up to %d", n,
				  CBX_INIT_WORDS_MAX - 1);
	return 0;
}

static bool overridden(const cJSON *environment, const char *variable, size_t n)
{
	const cJSON *v;

	cJSON_ArrayForEach(v, environment)
		if (strncmp(v->string, variable, n) == 0 && !v->string[n])
			return true;
	return false;
}

static void add_environment(struct cbx_buf *b, const struct cbx_buf *spawn, const cJSON *environment)
{
	const char *p = spawn->data, *end = p + spawn->len;
	const cJSON *v;

	while (p < end && *p)
		p += strlen(p) + 1;
	for (p++; p < end && *p; p += strlen(p) + 1)
		if (strncmp(p, "CODEBOX_", 8) != 0 && !overridden(environment, p, strcspn(p, "=")))
			add_word(b, p);
	cJSON_ArrayForEach(v, environment) {
		cbx_buf_addf(b, "%s=%s", v->string, v->valuestring);
		cbx_buf_addc(b, '\0');
	}
}

int cbx_command_words(const struct cbx_commands *all, const struct cbx_command_spec *spec, struct cbx_buf *ret,
		      struct cbx_err *err)
{
	const size_t most = CBX_INIT_MESSAGE_MAX - sizeof(struct cbx_init_header);
	const char *directory = spec->directory || spec->ours ? spec->directory : all->directory;
	const cJSON *bad;
	int r = add_arguments(ret, spec->argv, err);

	if (r >= 0 && spec->environment)
		r = cbx_environment_check(spec->environment, &bad, err);
	if (r < 0)
		return r;
	add_environment(ret, all->spawn, spec->environment);
	if (directory && directory[0]) {
		cbx_buf_addc(ret, '\0');
		add_word(ret, directory);
	}
	if (ret->len > most)
		return cbx_refuse(err, "invalid_argument", E2BIG,
				  "argv and environment: %zu bytes are too many; give up to %zu, and more in a file",
				  ret->len, most);
	return 0;
}
