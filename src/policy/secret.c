/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/secret.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"

static const struct {
	const char *name;
	enum cbx_secret_kind kind;
} kinds[] = { { "environment", CBX_SECRET_ENVIRONMENT },
	      { "file", CBX_SECRET_FILE },
	      { "credential", CBX_SECRET_CREDENTIAL } };

static bool name_valid(enum cbx_secret_kind kind, const char *s)
{
	static const char variable[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

	if (kind == CBX_SECRET_FILE)
		return cbx_path_clean(s) && s[1];
	if (kind == CBX_SECRET_ENVIRONMENT)
		return s[0] && !(s[0] >= '0' && s[0] <= '9') && strlen(s) < 100 && !s[strspn(s, variable)];
	return cbx_name_valid(s);
}

enum cbx_secret_kind cbx_secret_kind(const char *word)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (strcmp(word, kinds[i].name) == 0)
			return kinds[i].kind;
	return CBX_SECRET_NONE;
}

bool cbx_secret_ref_member(const cJSON *m, struct cbx_secret_ref *ret)
{
	enum cbx_secret_kind kind = cbx_secret_kind(m->string);

	if (!kind || !cJSON_IsString(m) || !name_valid(kind, m->valuestring))
		return false;
	ret->kind = kind;
	ret->name = cbx_xstrdup(m->valuestring);
	return true;
}

bool cbx_secret_ref_parse(const cJSON *v, struct cbx_secret_ref *ret)
{
	return cJSON_IsObject(v) && v->child && !v->child->next && cbx_secret_ref_member(v->child, ret);
}

void cbx_secret_ref_copy(struct cbx_secret_ref *to, const struct cbx_secret_ref *from)
{
	to->kind = from->kind;
	to->name = from->name ? cbx_xstrdup(from->name) : NULL;
}

void cbx_secret_ref_release(struct cbx_secret_ref *s)
{
	free(take_ptr(&s->name));
	s->kind = CBX_SECRET_NONE;
}

void cbx_secret_ref_to_json(const struct cbx_secret_ref *s, cJSON *obj, const char *key)
{
	cJSON *o = s->kind ? cbx_json_new_obj() : NULL;

	if (!o)
		return;
	cbx_secret_ref_add_member(s, o);
	cbx_json_set(obj, key, o);
}

void cbx_secret_ref_add_member(const struct cbx_secret_ref *s, cJSON *obj)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (s->kind == kinds[i].kind)
			cbx_json_set_str(obj, kinds[i].name, s->name);
}
