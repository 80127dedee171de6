/* SPDX-License-Identifier: Apache-2.0 */
/* What of a rule of "network" is about secrets: where they are, and in which header they go. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "policy/network.h"

#define REFUSE(b, at, ...)                                                                                             \
	(*(b)->node = (at), cbx_refuse((b)->err, "invalid_argument", EINVAL, "network: " __VA_ARGS__))

/* ---- reading ---- */

static bool header_valid(const char *s)
{
	/* Those that say where a request ends, whom it is for, or that are for one hop. */
	static const char *const never[] = { "Host",
					     "Content-Length",
					     "Transfer-Encoding",
					     "Connection",
					     "Upgrade",
					     "TE",
					     "Trailer",
					     "Keep-Alive",
					     "Expect",
					     "Proxy-Connection",
					     "Proxy-Authorization",
					     "HTTP2-Settings",
					     "Accept-Encoding" };
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_");

	for (size_t i = 0; i < ARRAY_SIZE(never); i++)
		if (strcasecmp(s, never[i]) == 0)
			return false;
	return n && n < 64 && !s[n];
}

static bool value_valid(const char *s)
{
	const char *at = strstr(s, "{}");

	for (const char *p = s; *p; p++)
		if (*p < ' ' || *p > '~')
			return false;
	return at && !strstr(at + 1, "{}") && strlen(s) < 128;
}

static int set_place(const struct cbx_net_bad *b, const cJSON *v, struct cbx_net_secret *s)
{
	static const char *const hints[] = { "", "the name of a variable of codeboxd's environment",
					     "the absolute path of a file",
					     "the name of a credential of codeboxd's service" };

	if (s->place.kind)
		return REFUSE(b, v, "secrets: %s: a secret is in one place; give environment, file or credential",
			      v->string);
	if (!cbx_secret_ref_member(v, &s->place))
		return REFUSE(b, v, "secrets: %s: give %s", v->string, hints[cbx_secret_kind(v->string)]);
	return 0;
}

static int parse_member(const struct cbx_net_bad *b, const cJSON *v, struct cbx_net_secret *s)
{
	const char *text = cJSON_IsString(v) ? v->valuestring : "";

	if (cbx_secret_kind(v->string))
		return set_place(b, v, s);
	if (strcmp(v->string, "header") == 0) {
		if (!header_valid(text))
			return REFUSE(b, v,
				      "secrets: header: give the name of a header, such as \"Authorization\"; not one "
				      "that says how the request is sent");
		s->header = cbx_xstrdup(text);
		return 0;
	}
	if (strcmp(v->string, "value") != 0)
		return REFUSE(
			b, v,
			"secrets: unknown key \"%.80s\"; accepted are: header, value, environment, file, credential",
			v->string);
	if (!value_valid(text))
		return REFUSE(b, v,
			      "secrets: value: give what the header says, with {} where the secret goes, as in "
			      "\"Bearer {}\"; the secret itself does not belong here");
	s->value = cbx_xstrdup(text);
	return 0;
}

static int parse_secret(const struct cbx_net_bad *b, const cJSON *v, struct cbx_net_rule *r)
{
	struct cbx_net_secret *s = &r->secrets[r->nsecrets - 1];
	const cJSON *m;
	int n;

	if (!cJSON_IsObject(v))
		return REFUSE(b, v,
			      "secrets: give objects, as in {\"header\": \"X-Api-Key\", \"environment\": \"API_KEY\"}");
	cJSON_ArrayForEach(m, v)
		if ((n = parse_member(b, m, s)) < 0)
			return n;
	if (!s->header || !s->place.kind)
		return REFUSE(b, v, "secrets: give a header, and environment, file or credential");
	for (size_t i = 0; i + 1 < r->nsecrets; i++)
		if (strcasecmp(r->secrets[i].header, s->header) == 0)
			return REFUSE(b, v, "secrets: there are two for the header %s", s->header);
	if (!s->value)
		s->value = cbx_xstrdup("{}");
	return 0;
}

int cbx_net_secrets_parse(const struct cbx_net_bad *b, const cJSON *list, struct cbx_net_rule *r)
{
	const cJSON *v;
	int n;

	if (!cJSON_IsArray(list) || !list->child)
		return REFUSE(
			b, list,
			"secrets: give a list, as in [{\"header\": \"X-Api-Key\", \"environment\": \"API_KEY\"}]");
	cJSON_ArrayForEach(v, list) {
		if (r->nsecrets == CBX_NETWORK_SECRETS_MAX)
			return REFUSE(b, v, "secrets: too many; up to %d are allowed", CBX_NETWORK_SECRETS_MAX);
		r->secrets = cbx_xrealloc(r->secrets, (r->nsecrets + 1) * sizeof(*r->secrets));
		memset(&r->secrets[r->nsecrets++], 0, sizeof(*r->secrets));
		n = parse_secret(b, v, r);
		if (n < 0)
			return n;
	}
	return 0;
}

/* ---- others ---- */

void cbx_net_secrets_release(struct cbx_net_rule *r)
{
	for (size_t i = 0; i < r->nsecrets; i++) {
		free(r->secrets[i].header);
		free(r->secrets[i].value);
		cbx_secret_ref_release(&r->secrets[i].place);
	}
	free(r->secrets);
}

void cbx_net_secrets_copy(struct cbx_net_rule *to, const struct cbx_net_rule *from)
{
	to->nsecrets = from->nsecrets;
	to->secrets = from->nsecrets ? cbx_xcalloc(from->nsecrets, sizeof(*to->secrets)) : NULL;
	for (size_t i = 0; i < from->nsecrets; i++) {
		const struct cbx_net_secret *s = &from->secrets[i];

		to->secrets[i].header = cbx_xstrdup(s->header);
		to->secrets[i].value = cbx_xstrdup(s->value);
		cbx_secret_ref_copy(&to->secrets[i].place, &s->place);
	}
}

bool cbx_net_secrets_equal(const struct cbx_net_rule *a, const struct cbx_net_rule *b)
{
	if (a->nsecrets != b->nsecrets)
		return false;
	for (size_t i = 0; i < a->nsecrets; i++) {
		const struct cbx_net_secret *s = &a->secrets[i], *t = &b->secrets[i];

		if (strcasecmp(s->header, t->header) != 0 || strcmp(s->value, t->value) != 0 ||
		    s->place.kind != t->place.kind || strcmp(s->place.name, t->place.name) != 0)
			return false;
	}
	return true;
}

cJSON *cbx_net_secrets_to_json(const struct cbx_net_rule *r)
{
	cJSON *list = cbx_json_new_arr();

	for (size_t i = 0; i < r->nsecrets; i++) {
		cJSON *o = cbx_json_new_obj();

		cbx_json_set_str(o, "header", r->secrets[i].header);
		cbx_json_set_str(o, "value", r->secrets[i].value);
		cbx_secret_ref_add_member(&r->secrets[i].place, o);
		cbx_json_push(list, o);
	}
	return list;
}
