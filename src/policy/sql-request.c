/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a connection string, as ODBC has them, is taken apart here and never given to a driver: what it
 * says becomes the members of a connection, which are held to what a policy's own are held to. Keys that could mean more
 * to a driver (files, libraries, options of programs) are not known, and refused. The server of a request's must be one
 * that the policy names, at a port that the policy names, in the one spelling that there is.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "policy/host.h"
#include "policy/sql.h"

#define PLACEHOLDER "your_password_here" /* in braces: where a template has the password */

static uint16_t standard_port(const char *type)
{
	return strcmp(type, "mysql") == 0 ? 3306 : strcmp(type, "sqlserver") == 0 ? 1433 : 5432;
}

/* ---- connection strings ---- */

static int refuse(struct cbx_err *err, const char *what)
{
	return cbx_refuse(err, "invalid_argument", EINVAL, "%s", what);
}

/* One "KEY=VALUE", the value in braces or not; *p: behind it. 0: there is none any more. */
static int next_pair(const char **p, struct cbx_buf *key, struct cbx_buf *value, struct cbx_err *err)
{
	static const char form[] = "give KEY=VALUE pairs with \";\" between them, as ODBC has them";
	const char *s = *p + strspn(*p, "; "), *equals = strchr(s, '='), *end;

	key->len = value->len = 0;
	if (!*s)
		return 0;
	if (!equals || equals == s || equals - s > 64)
		return refuse(err, form);
	for (end = equals; end > s && end[-1] == ' ';)
		end--;
	cbx_buf_add(key, s, (size_t)(end - s));
	s = equals + 1 + strspn(equals + 1, " ");
	if (*s != '{') {
		end = s + strcspn(s, ";{}");
		*p = end;
		while (end > s && end[-1] == ' ')
			end--;
		cbx_buf_add(value, s, (size_t)(end - s));
		return **p && **p != ';' ? refuse(err, form) : 1;
	}
	for (s++; *s && (*s != '}' || s[1] == '}'); s++) {
		cbx_buf_addc(value, *s);
		s += *s == '}';
	}
	if (!*s || (s[1] && !strchr("; ", s[1])))
		return refuse(err, form);
	*p = s + 1;
	return 1;
}

enum key { DRIVER, SERVER, PORT, DATABASE, USER, PASSWORD, ENCRYPT, TRUST, SSLMODE, IGNORED, UNKNOWN };

static enum key key_of(const char *name)
{
	static const struct {
		const char *name;
		enum key key;
	} keys[] = {
		{ "Driver", DRIVER },	      { "Server", SERVER },	  { "Servername", SERVER },
		{ "Host", SERVER },	      { "Data Source", SERVER },  { "Port", PORT },
		{ "Database", DATABASE },     { "Initial Catalog", DATABASE },
		{ "Uid", USER },	      { "User", USER },		  { "User ID", USER },
		{ "Pwd", PASSWORD },	      { "Password", PASSWORD },	  { "Encrypt", ENCRYPT },
		{ "TrustServerCertificate", TRUST }, { "SSLMode", SSLMODE }, { "Connection Timeout", IGNORED },
		{ "Connect Timeout", IGNORED }, { "LoginTimeout", IGNORED }, { "ApplicationIntent", IGNORED },
		{ "Persist Security Info", IGNORED }, { "MultipleActiveResultSets", IGNORED },
		{ "MultiSubnetFailover", IGNORED }, { "App", IGNORED }, { "Application Name", IGNORED },
	};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (strcasecmp(keys[i].name, name) == 0)
			return keys[i].key;
	return UNKNOWN;
}

static const char *type_of(const char *driver)
{
	static const struct {
		const char *part, *type;
	} types[] = { { "SQL Server", "sqlserver" }, { "FreeTDS", "sqlserver" }, { "PostgreSQL", "postgresql" },
		      { "MySQL", "mysql" }, { "MariaDB", "mysql" } };

	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (strcasestr(driver, types[i].part))
			return types[i].type;
	return NULL;
}

/* 1: yes, 0: no, else neither. */
static int says_yes(const char *word)
{
	static const char *const yes[] = { "yes", "true", "1", "mandatory", "strict" };
	static const char *const no[] = { "no", "false", "0", "optional" };

	for (size_t i = 0; i < ARRAY_SIZE(yes); i++)
		if (strcasecmp(yes[i], word) == 0)
			return 1;
	for (size_t i = 0; i < ARRAY_SIZE(no); i++)
		if (strcasecmp(no[i], word) == 0)
			return 0;
	return -1;
}

/* "tcp:HOST,PORT", as SQL Server has it, or "HOST", and the key Port. */
static int set_server(cJSON *o, const cJSON *said, const char *type, const struct cbx_sql_rules *rules,
		      struct cbx_err *err)
{
	/* rules NULL: there may be any. */
	const char *text = cbx_json_str(said, "server"), *number = cbx_json_text(said, "port"),
		   *comma = strrchr(text, ',');
	uint16_t port = standard_port(type);
	struct cbx_host host;

	if (!rules && text[0] == '/') { /* a unix socket */
		cbx_json_set_str(o, "server", text);
		return 0;
	}
	if (strncasecmp(text, "tcp:", 4) == 0)
		text += 4;
	if (comma)
		number = comma + 1 + strspn(comma + 1, " ");
	if (number && !cbx_port_parse(number, strlen(number), &port))
		return refuse(err, "Port: give a number from 1 to 65535");
	if (cbx_host_parse(text, comma ? (size_t)(comma - text) : strlen(text), &host))
		return refuse(err, "Server: give the name or address of a host, as in Server=db.example.org");
	if (rules && !cbx_servers_allow(&rules->servers, &host, port, standard_port(type)))
		return cbx_refuse(err, "server_not_allowed", EPERM,
				  "Server: the policy does not let requests name %s, port %u (sql.servers, "
				  "codebox-policy(5)); ask whoever runs codebox",
				  host.name, port);
	cbx_json_set_str(o, "server", host.name);
	cbx_json_set(o, "port", cJSON_CreateNumber(port));
	return 0;
}

static int set_tls(cJSON *o, const cJSON *said, struct cbx_err *err)
{
	const char *mode = cbx_json_text(said, "sslmode"), *encrypt = cbx_json_text(said, "encrypt"),
		   *trust = cbx_json_text(said, "trust");
	int trusts = trust ? says_yes(trust) : 0, encrypts = encrypt ? says_yes(encrypt) : 1;

	if (trusts < 0 || encrypts < 0)
		return refuse(err, "Encrypt, TrustServerCertificate: give yes or no");
	if (mode && strcmp(mode, "disable") != 0 && strcmp(mode, "require") != 0 && strcmp(mode, "verify-full") != 0)
		return refuse(err, "SSLMode: give one of disable, require, verify-full");
	if (mode)
		encrypts = strcmp(mode, "disable") != 0, trusts = strcmp(mode, "require") == 0;
	if (!encrypts)
		cbx_json_set_str(o, "tls", "off");
	else if (mode || encrypt || trust)
		cbx_json_set_str(o, "tls", trusts ? "require" : "verify");
	return 0;
}

/* ret_password NULL: there must be none. A password without braces may have ended early, so from there on no key is named. */
static int read_string(const char *text, cJSON *said, char **ret_password, struct cbx_err *err)
{
	static const char *const names[] = { "driver", "server", "port", "database", "user", "password", "encrypt",
					     "trust", "sslmode" };
	_cleanup_buf_ struct cbx_buf key = { 0 }, value = { 0 };
	bool seen = false;
	int r;

	if (strlen(text) > CBX_SQL_STRING_MAX || !cbx_plain(text) || !cbx_utf8_valid(text, strlen(text)))
		return cbx_refuse(err, "invalid_argument", EINVAL, "give up to %d bytes of text", CBX_SQL_STRING_MAX);
	while ((r = next_pair(&text, &key, &value, err)) > 0) {
		enum key k = key_of(cbx_buf_str(&key));

		if (k == UNKNOWN)
			return cbx_refuse(err, "invalid_argument", EINVAL, "\"%.64s\" is not accepted here; omit it",
					  seen ? "what follows the password" : cbx_buf_str(&key));
		if (k == PASSWORD && strcmp(cbx_buf_str(&value), PLACEHOLDER) != 0) {
			if (!ret_password)
				return refuse(err, "the password does not belong here; write Pwd={" PLACEHOLDER
						   "}, or nothing");
			if (*ret_password)
				return refuse(err, "it has the password twice; give it once");
			*ret_password = cbx_xstrdup(cbx_buf_str(&value));
			explicit_bzero(value.data, value.len);
			seen = true;
			continue;
		}
		if (k == IGNORED)
			continue;
		if (cbx_json_member(said, names[k]))
			return cbx_refuse(err, "invalid_argument", EINVAL, "it says %s twice; give it once", names[k]);
		cbx_json_set_str(said, names[k], cbx_buf_str(&value));
	}
	return r;
}

int cbx_sql_connection_of_string(const struct cbx_sql_rules *rules, const char *text, struct cbx_sql_connection *ret,
				 char **ret_password, struct cbx_err *err)
{
	_cleanup_json_ cJSON *said = cbx_json_new_obj(), *holder = cbx_json_new_obj();
	cJSON *o = cbx_json_new_obj();
	const cJSON *ignored;
	const char *type;
	int r;

	cbx_json_set(holder, "request", o);
	r = read_string(text, said, ret_password, err);
	if (r < 0)
		return r;
	type = type_of(cbx_json_str(said, "driver"));
	if (!type)
		return refuse(err, "Driver: name one of SQL Server, PostgreSQL, MySQL or MariaDB");
	cbx_json_set_str(o, "type", type);
	cbx_json_set_str(o, "database", cbx_json_str(said, "database"));
	cbx_json_set_str(o, "user", cbx_json_str(said, "user"));
	r = set_server(o, said, type, rules, err);
	if (r >= 0)
		r = set_tls(o, said, err);
	if (r < 0 || cbx_sql_connection_parse(o, ret, &ignored, err) >= 0)
		return r; /* what is read of the password is the caller's to wipe, in either case */
	cJSON_Delete(take_ptr(&ret->json));
	snprintf(err->kind, sizeof(err->kind), "invalid_argument"); /* a request's, not a policy's */
	return -EINVAL;
}
