/* SPDX-License-Identifier: Apache-2.0 */
/* Both files of tenants, and what a client shows for a token. What is taken for tokens is the same when it is printed
 * and read again; a text that is none gets nobody in. */
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "fuzz.h"
#include "tenant/tenant.h"

static void judge_tokens(const char *text, size_t size)
{
	struct cbx_tokens one, two;
	struct cbx_buf out = { 0 };
	struct cbx_err err = { 0 };

	if (cbx_tokens_parse(text, size, "tokens", &one, &err) < 0) {
		must(err.code && strncmp(err.msg, "tokens:", 7) == 0 && !one.all);
		return;
	}
	cbx_tokens_print(&one, &out);
	must(cbx_tokens_parse(out.data, out.len, "again", &two, &err) >= 0 && one.n == two.n);
	must(!one.n || memcmp(one.all, two.all, one.n * sizeof(*one.all)) == 0);
	for (size_t i = 0; i < one.n; i++)
		must(cbx_tokens_by_id(&one, one.all[i].id) == &one.all[i]);
	cbx_buf_release(&out);
	cbx_tokens_release(&one);
	cbx_tokens_release(&two);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cbx_tenants tenants;
	struct cbx_tenant *t;
	struct cbx_tokens tokens = { 0 };
	struct cbx_token like = { .tenant = "a", .scopes = CBX_SCOPES_ALL, .created = 1 };
	struct cbx_err err = { 0 };
	char *line = malloc(size + 1), text[CBX_TOKEN_TEXT + 1];

	must(line);
	memcpy(line, data, size);
	line[size] = '\0';
	cbx_tenants_init(&tenants);
	if (cbx_tenants_parse(&tenants, line, size, "tenants", "/nonexistent", &err) < 0)
		must(err.code && strncmp(err.msg, "tenants:", 8) == 0 && TAILQ_EMPTY(&tenants.list));
	TAILQ_FOREACH(t, &tenants.list, entry)
		must(cbx_name_valid(t->principal.tenant) && strcmp(t->principal.tenant, "local") != 0);
	cbx_tenants_release(&tenants);
	judge_tokens(line, size);
	must(cbx_tokens_make(&tokens, &like, text, &err) >= 0);
	must(cbx_tokens_check(&tokens, text, 1) == &tokens.all[0]);
	must(!cbx_tokens_check(&tokens, line, 1) || strcmp(line, text) == 0);
	cbx_tokens_release(&tokens);
	free(line);
	return 0;
}
