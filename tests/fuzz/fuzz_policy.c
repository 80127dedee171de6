/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: any text as a policy, which may include itself or parts of itself. What is accepted has a
 * canonical form, which is accepted too and is its own canonical form: nothing of a policy's meaning depends on how it
 * was written.
 */
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "fuzz.h"
#include "policy/policy.h"

struct input {
	const char *text;
	size_t len;
};

/* An included file is the text from a place on that its name gives. */
static int included(void *arg, const char *name, struct cbx_buf *text, char **ret_label, struct cbx_err *err)
{
	const struct input *in = arg;
	size_t from = strlen(name) * 7;

	if (from > in->len)
		return cbx_refuse(err, "invalid_policy", ENOENT, "no such file");
	cbx_buf_add(text, in->text + from, in->len - from);
	*ret_label = cbx_xstrdup(name);
	return 0;
}

static char *canonical(const struct cbx_policy *p)
{
	cJSON *o = cbx_policy_to_json(p);
	char *text = cJSON_PrintUnformatted(o);

	cJSON_Delete(o);
	must(text);
	return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { (const char *)data, size };
	struct cbx_policy *one = NULL, *two = NULL;
	struct cbx_err err = { 0 };
	int r = cbx_policy_parse((const char *)data, size, "fuzz", "fuzz.json", included, &in, &one, &err);

	must(r < 0 ? err.code && err.msg[0] : one != NULL);
	if (r >= 0) {
		_cleanup_free_ char *first = canonical(one), *second = NULL;

		r = cbx_policy_parse(first, strlen(first), "fuzz", "again.json", NULL, NULL, &two, &err);
		if (r < 0)
			fprintf(stderr, "%s\n%s\n", first, err.msg);
		must(r >= 0);
		second = canonical(two);
		must(strcmp(first, second) == 0);
	}
	cbx_policy_free(one);
	cbx_policy_free(two);
	return 0;
}
