/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/servers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"

/* "HOST", "*.DOMAIN", each with ":PORT" or not; port 0: the usual one of the kind. *ret is without the "*". */
static bool read_server(const char *s, bool *suffix, struct cbx_host *ret, uint16_t *port)
{
	*suffix = cbx_starts_with(s, "*.");
	*port = 0;
	s += *suffix ? 2 : 0;
	return !cbx_host_parse_port(s, strlen(s), ret, port) && !(*suffix && ret->literal);
}

int cbx_servers_parse(const cJSON *v, struct cbx_servers *s, const cJSON **ret_bad, struct cbx_err *err)
{
	struct cbx_host host;
	uint16_t port;
	bool suffix;
	const cJSON *m;

	*ret_bad = v;
	if (!cJSON_IsArray(v) || cJSON_GetArraySize(v) > CBX_SQL_CONNECTIONS_MAX)
		return cbx_refuse(err, "invalid_policy", EINVAL, "%s: give a list of up to %d servers", v->string,
				  CBX_SQL_CONNECTIONS_MAX);
	cbx_servers_release(s);
	s->names = cbx_xcalloc((size_t)cJSON_GetArraySize(v) + 1, sizeof(*s->names));
	cJSON_ArrayForEach(m, v) {
		*ret_bad = m;
		if (!cJSON_IsString(m) || !read_server(m->valuestring, &suffix, &host, &port))
			return cbx_refuse(err, "invalid_policy", EINVAL,
					  "%s: give hosts such as \"db.example.org\", \"db.example.org:1433\" or "
					  "\"*.example.org\"",
					  v->string);
		s->names[s->n++] = cbx_xstrdup(m->valuestring);
	}
	return 0;
}

void cbx_servers_release(struct cbx_servers *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->names[i]);
	free(take_ptr(&s->names));
	s->n = 0;
}

/* Whether one names all that another one does; a suffix is a domain, without its own name. */
static bool within(const struct cbx_host *narrow, bool narrow_suffix, const struct cbx_host *wide, bool wide_suffix)
{
	size_t n = strlen(narrow->name), m = strlen(wide->name);

	if (strcmp(wide->name, narrow->name) == 0)
		return wide_suffix == narrow_suffix;
	return wide_suffix && !narrow->literal && n > m + 1 && narrow->name[n - m - 1] == '.' &&
	       strcmp(narrow->name + n - m, wide->name) == 0;
}

bool cbx_servers_allow(const struct cbx_servers *s, const struct cbx_host *host, uint16_t port, uint16_t usual)
{
	struct cbx_host named;
	uint16_t its;
	bool suffix;

	for (size_t i = 0; i < s->n; i++)
		if (read_server(s->names[i], &suffix, &named, &its) && (its ? its : usual) == port &&
		    within(host, false, &named, suffix))
			return true;
	return false;
}

static bool covered(const struct cbx_servers *s, const char *server)
{
	struct cbx_host narrow, wide;
	uint16_t port, its;
	bool suffix, wide_suffix;

	if (!read_server(server, &suffix, &narrow, &port))
		return false;
	for (size_t i = 0; i < s->n; i++)
		if (read_server(s->names[i], &wide_suffix, &wide, &its) && its == port &&
		    within(&narrow, suffix, &wide, wide_suffix))
			return true;
	return false;
}

void cbx_servers_narrow(struct cbx_servers *ret, const struct cbx_servers *a, const struct cbx_servers *b)
{
	const struct cbx_servers *both[] = { a, b };

	ret->names = cbx_xcalloc(a->n + b->n + 1, sizeof(*ret->names));
	for (size_t k = 0; k < 2; k++)
		for (size_t i = 0; i < both[k]->n; i++)
			if (covered(both[!k], both[k]->names[i]) && !covered(ret, both[k]->names[i]))
				ret->names[ret->n++] = cbx_xstrdup(both[k]->names[i]);
}

void cbx_servers_to_json(const struct cbx_servers *s, cJSON *group, const char *key)
{
	cJSON *list = s->n ? cbx_json_new_arr() : NULL;

	for (size_t i = 0; i < s->n; i++)
		cbx_json_push_str(list, s->names[i]);
	if (list)
		cbx_json_set(group, key, list);
}
