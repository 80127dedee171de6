/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: what a connection says becomes part of a connection string, in which some characters have a
 * meaning for drivers. So names of servers, databases and users have none of those; passwords are quoted (src/sql).
 */
#include "policy/sql.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"

static const char *const types[] = { "postgresql", "mysql", "sqlserver", "sqlite", NULL };
static const char *const tls_words[] = { "verify", "require", "off", NULL };

static bool word_of(const char *const *words, const char *text)
{
	for (; *words; words++)
		if (strcmp(*words, text) == 0)
			return true;
	return false;
}

static int wrong(const cJSON *node, const cJSON **ret_bad, struct cbx_err *err, const char *what)
{
	*ret_bad = node;
	return cbx_refuse(err, "invalid_policy", EINVAL, "%s", what);
}

/* ---- one connection ---- */

/* A directory of a unix socket for the kinds that take one, or the name or address of a host. */
static bool server_valid(const char *type, const char *s)
{
	static const char host[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:";

	if (s[0] == '/')
		return strcmp(type, "sqlserver") != 0 && cbx_path_clean(s) && cbx_plain(s) && !strpbrk(s, ";{}=") &&
		       strlen(s) <= 200;
	return s[0] && strlen(s) <= 253 && !s[strspn(s, host)];
}

static bool text_valid(const char *s)
{
	return s[0] && strlen(s) <= 128 && cbx_plain(s) && !strpbrk(s, ";{}='\"");
}

/* Of a file whose name drivers get. */
static bool path_valid(const char *s)
{
	return s[0] == '/' && cbx_path_clean(s) && cbx_plain(s) && !strpbrk(s, " ;{}='\"\\#") && strlen(s) <= 1000;
}

static int parse_secret(const cJSON *v, struct cbx_secret_ref *ret, const cJSON **ret_bad, struct cbx_err *err)
{
	static const char remedy[] =
		"password, string: name where it is, as in {\"environment\": \"SHOP_PASSWORD\"}, {\"file\": "
		"\"/etc/codebox/shop.password\"} or {\"credential\": \"shop\"}; a policy has no password itself";

	if (cbx_secret_ref_parse(v, ret))
		return 0;
	return wrong(v, ret_bad, err, remedy);
}

/* All that there is to say is in the string, which is read with the password. */
static int check_string(const cJSON *v, struct cbx_sql_connection *c, const cJSON **ret_bad, struct cbx_err *err)
{
	const cJSON *m;
	int r = 0;

	cJSON_ArrayForEach(m, v) {
		bool string = strcmp(m->string, "string") == 0;

		if (!string && strcmp(m->string, "password") != 0)
			return wrong(m, ret_bad, err, "beside \"string\" there is \"password\" only");
		if (r >= 0)
			r = parse_secret(m, string ? &c->string : &c->secret, ret_bad, err);
	}
	return r;
}

static int check_sqlite(const cJSON *v, struct cbx_sql_connection *c, const cJSON **ret_bad, struct cbx_err *err)
{
	const char *path = cbx_json_str(v, "database");
	const cJSON *m;

	cJSON_ArrayForEach(m, v)
		if (strcmp(m->string, "type") != 0 && strcmp(m->string, "database") != 0)
			return wrong(m, ret_bad, err,
				     "a database of SQLite has \"type\" and \"database\" only");
	if (!cbx_path_clean(path) || !path[1] || !cbx_plain(path) || strpbrk(path, ";{}=?#%") || strlen(path) > 1000)
		return wrong(v, ret_bad, err,
			     "database: give the absolute path of the file, without ; { } = ? # %");
	cbx_json_set_str(c->json, "database", path);
	return 0;
}

static const char *standard_tls(const char *server)
{
	bool local = server[0] == '/' || strcmp(server, "localhost") == 0 || strcmp(server, "127.0.0.1") == 0 ||
		     strcmp(server, "::1") == 0;

	return local ? "off" : "verify";
}

static int check_server(const cJSON *v, struct cbx_sql_connection *c, const cJSON **ret_bad, struct cbx_err *err)
{
	static const char *const known[] = { "type", "server", "port", "database", "user", "password", "tls", "ca", NULL };
	const char *server = cbx_json_str(v, "server"), *user = cbx_json_str(v, "user"), *tls = cbx_json_text(v, "tls");
	const cJSON *m, *port = cbx_json_member(v, "port");
	uint64_t number = 0;
	int r = 0;

	cJSON_ArrayForEach(m, v)
		if (!word_of(known, m->string))
			return wrong(m, ret_bad, err,
				     "unknown key; accepted are: type, server, port, database, user, password, tls, ca");
	if (!server_valid(cbx_json_str(v, "type"), server))
		return wrong(v, ret_bad, err,
			     "server: give a host, an address, or the directory or path of a unix socket");
	if (!text_valid(cbx_json_str(v, "database")))
		return wrong(v, ret_bad, err, "database: give its name, without ; { } = and quotes");
	if (!text_valid(user))
		return wrong(v, ret_bad, err, "user: give a name, without ; { } = and quotes");
	if (port && cbx_json_get_u64(v, "port", 1, 65535, &number, err) <= 0)
		return wrong(port, ret_bad, err, "port: give a number from 1 to 65535");
	if (cbx_json_member(v, "tls") && (!tls || !word_of(tls_words, tls)))
		return wrong(v, ret_bad, err, "tls: give one of \"verify\", \"require\", \"off\"");
	cbx_json_set_str(c->json, "server", server);
	if (number)
		cbx_json_set_u64(c->json, "port", number);
	cbx_json_set_str(c->json, "database", cbx_json_str(v, "database"));
	cbx_json_set_str(c->json, "user", user);
	tls = tls ? tls : standard_tls(server);
	cbx_json_set_str(c->json, "tls", tls);
	m = cbx_json_member(v, "ca");
	if (m && !path_valid(cbx_json_str(v, "ca")))
		return wrong(m, ret_bad, err,
			     "ca: give the absolute path of a file of certificates (PEM), without spaces, ; { } = and quotes");
	if (m && strcmp(tls, "verify") != 0)
		return wrong(m, ret_bad, err, "ca: goes with \"tls\": \"verify\" only");
	if (m)
		cbx_json_set_str(c->json, "ca", m->valuestring);
	m = cbx_json_member(v, "password");
	if (m)
		r = parse_secret(m, &c->secret, ret_bad, err);
	return r;
}

int cbx_sql_connection_parse(const cJSON *v, struct cbx_sql_connection *c, const cJSON **ret_bad, struct cbx_err *err)
{
	const char *type = cbx_json_str(v, "type");

	if (!cbx_name_valid(v->string))
		return wrong(v, ret_bad, err,
			     "a connection has a name of letters, digits, \".\", \"_\" and \"-\"");
	memcpy(c->name, v->string, strlen(v->string) + 1);
	if (cJSON_HasObjectItem(v, "string")) {
		c->json = cbx_json_new_obj();
		return check_string(v, c, ret_bad, err);
	}
	if (!cJSON_IsObject(v) || !word_of(types, type))
		return wrong(v, ret_bad, err,
			     "type: give one of \"postgresql\", \"mysql\" (MariaDB, too), \"sqlserver\", \"sqlite\"");
	c->json = cbx_json_new_obj();
	cbx_json_set_str(c->json, "type", type);
	return strcmp(type, "sqlite") == 0 ? check_sqlite(v, c, ret_bad, err) : check_server(v, c, ret_bad, err);
}

static void release_connections(struct cbx_sql_rules *rules)
{
	for (size_t i = 0; i < rules->n; i++) {
		cJSON_Delete(rules->all[i].json);
		cbx_secret_ref_release(&rules->all[i].secret);
		cbx_secret_ref_release(&rules->all[i].string);
	}
	free(take_ptr(&rules->all));
	rules->n = 0;
}

int cbx_sql_connections_parse(const cJSON *v, struct cbx_sql_rules *rules, const cJSON **ret_bad, struct cbx_err *err)
{
	const cJSON *m;
	int r = 0;

	*ret_bad = v;
	if (!cJSON_IsObject(v))
		return cbx_refuse(err, "invalid_policy", EINVAL,
				  "connections: give an object, whose members are connections");
	if (cJSON_GetArraySize(v) > CBX_SQL_CONNECTIONS_MAX)
		return cbx_refuse(err, "invalid_policy", EINVAL, "connections: too many; up to %d are allowed",
				  CBX_SQL_CONNECTIONS_MAX);
	release_connections(rules);
	rules->all = cbx_xcalloc((size_t)cJSON_GetArraySize(v) + 1, sizeof(*rules->all));
	cJSON_ArrayForEach(m, v)
		if (r >= 0 && cbx_sql_connection_parse(m, &rules->all[rules->n++], ret_bad, err) < 0)
			r = cbx_wrap(err, "connections: %.64s", m->string);
	return r;
}

/* ---- which of them ---- */

static void release_allow(struct cbx_sql_rules *rules)
{
	for (size_t i = 0; i < rules->nallow; i++)
		free(rules->allow[i]);
	free(take_ptr(&rules->allow));
	rules->nallow = 0;
}

int cbx_sql_allow_parse(const cJSON *v, struct cbx_sql_rules *rules, const cJSON **ret_bad, struct cbx_err *err)
{
	const cJSON *m;

	*ret_bad = v;
	if (!cJSON_IsArray(v) || cJSON_GetArraySize(v) > CBX_SQL_CONNECTIONS_MAX)
		return cbx_refuse(err, "invalid_policy", EINVAL, "allow: give a list of up to %d names of connections",
				  CBX_SQL_CONNECTIONS_MAX);
	release_allow(rules);
	rules->allow = cbx_xcalloc((size_t)cJSON_GetArraySize(v) + 1, sizeof(*rules->allow));
	cJSON_ArrayForEach(m, v) {
		*ret_bad = m;
		if (!cJSON_IsString(m) || !cbx_name_valid(m->valuestring))
			return cbx_refuse(err, "invalid_policy", EINVAL, "allow: give names of connections");
		rules->allow[rules->nallow++] = cbx_xstrdup(m->valuestring);
	}
	return 0;
}

void cbx_sql_rules_release(struct cbx_sql_rules *rules)
{
	release_connections(rules);
	release_allow(rules);
	cbx_servers_release(&rules->servers);
}

static bool allowed(const struct cbx_sql_rules *rules, const char *name)
{
	for (size_t i = 0; i < rules->nallow; i++)
		if (strcmp(rules->allow[i], name) == 0)
			return true;
	return !rules->allow;
}

const struct cbx_sql_connection *cbx_sql_rules_nth(const struct cbx_sql_rules *rules, size_t n)
{
	for (size_t i = 0; i < rules->n; i++)
		if (allowed(rules, rules->all[i].name) && !n--)
			return &rules->all[i];
	return NULL;
}

const struct cbx_sql_connection *cbx_sql_rules_find(const struct cbx_sql_rules *rules, const char *name)
{
	for (size_t i = 0; i < rules->n; i++)
		if (strcmp(rules->all[i].name, name) == 0)
			return allowed(rules, name) ? &rules->all[i] : NULL;
	return NULL;
}

void cbx_sql_rules_narrow(struct cbx_sql_rules *ret, const struct cbx_sql_rules *wide,
			  const struct cbx_sql_rules *narrow)
{
	const struct cbx_sql_connection *c;

	ret->all = cbx_xcalloc(wide->n + 1, sizeof(*ret->all));
	for (size_t i = 0; (c = cbx_sql_rules_nth(wide, i)); i++) {
		struct cbx_sql_connection *copy = &ret->all[ret->n];

		if (narrow->allow ? !allowed(narrow, c->name) : !cbx_sql_rules_find(narrow, c->name))
			continue;
		*copy = *c;
		copy->json = cJSON_Duplicate(c->json, 1);
		cbx_secret_ref_copy(&copy->secret, &c->secret);
		cbx_secret_ref_copy(&copy->string, &c->string);
		ret->n++;
	}
	cbx_servers_narrow(&ret->servers, &wide->servers, &narrow->servers);
}

/* ---- as JSON ---- */

static cJSON *names_of(char *const *names, size_t n)
{
	cJSON *list = cbx_json_new_arr();

	for (size_t i = 0; i < n; i++)
		cbx_json_push_str(list, names[i]);
	return list;
}

void cbx_sql_rules_to_json(const struct cbx_sql_rules *rules, cJSON *group)
{
	cJSON *connections = cbx_json_new_obj();

	for (size_t i = 0; i < rules->n; i++) {
		cJSON *o = cJSON_Duplicate(rules->all[i].json, 1);

		cbx_secret_ref_to_json(&rules->all[i].string, o, "string");
		cbx_secret_ref_to_json(&rules->all[i].secret, o, "password");
		cbx_json_set(connections, rules->all[i].name, o);
	}
	cbx_json_set(group, "connections", connections);
	if (rules->allow)
		cbx_json_set(group, "allow", names_of(rules->allow, rules->nallow));
	cbx_servers_to_json(&rules->servers, group, "servers");
}

/* clang-format off */
#define JSON(...) #__VA_ARGS__
#define PLACE JSON({"type":"object","description":"Where it is","minProperties":1,"maxProperties":1,"additionalProperties":false,\
"properties":{"environment":{"type":"string"},"file":{"type":"string"},"credential":{"type":"string"}}})
static const char connections_schema[] = JSON({"type":"object","maxProperties":64,
"description":"Databases that may be asked, by name; read-only",
"propertyNames":{"pattern":"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$"},
"additionalProperties":{"type":"object","anyOf":[{"required":["type","database"]},{"required":["string"]}],
"additionalProperties":false,"properties":{
"string":) PLACE JSON(,
"type":{"enum":["postgresql","mysql","sqlserver","sqlite"]},
"server":{"type":"string","description":"A host, an address, or a unix socket"},
"port":{"type":"integer","minimum":1,"maximum":65535},
"database":{"type":"string","description":"Its name; of SQLite the path of its file"},
"user":{"type":"string","description":"One who may only read"},
"password":) PLACE JSON(,
"tls":{"enum":["verify","require","off"]},
"ca":{"type":"string","pattern":"^/","description":"A file of the authorities that its certificate may come from (PEM)"}}}});
static const char allow_schema[] = JSON({"type":"array","maxItems":64,
"description":"Connections that are in force; if omitted, all of this policy",
"items":{"type":"string","pattern":"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$"}});
static const char servers_schema[] = JSON({"type":"array","maxItems":64,
"description":"Servers that a request may name in a connection string; if omitted, none","items":{"type":"string"}});
/* clang-format on */

void cbx_sql_rules_schema(cJSON *properties)
{
	cbx_json_set(properties, "connections", cJSON_Parse(connections_schema));
	cbx_json_set(properties, "allow", cJSON_Parse(allow_schema));
	cbx_json_set(properties, "servers", cJSON_Parse(servers_schema));
}
