/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the registry of an npm package is that of its scope, where npm's configuration of the user has
 * one: what is private is never asked for in public. What logs in belongs to an address ("//host/path/:_authToken=…"),
 * and goes to no other.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "installer/installer.h"

#define NPM	 "https://registry.npmjs.org/"
#define LINE_MAX 4096

struct reading {
	const char *scope; /* "@scope"; "": it has none */
	bool chosen;	   /* the policy's registry */
	bool of_scope;	   /* it was found */
	struct cbx_index *to;
	size_t matched; /* of the address of what logs in */
};

/* "${NAME}" is a variable of the environment. */
static char *expand(const char *text)
{
	_cleanup_buf_ struct cbx_buf out = { 0 };

	for (const char *end; *text; text = end) {
		_cleanup_free_ char *name = NULL;
		const char *value;

		end = cbx_starts_with(text, "${") ? strchr(text, '}') : NULL;
		if (!end) {
			cbx_buf_addc(&out, *text);
			end = text + 1;
			continue;
		}
		name = strndup(text + 2, (size_t)(end++ - text) - 2);
		value = name ? getenv(name) : NULL;
		cbx_buf_adds(&out, value ? value : "");
	}
	return cbx_xstrdup(cbx_buf_str(&out));
}

static void set(char **to, char **value)
{
	free(*to);
	*to = take_ptr(value);
}

/* "//host/path/" of a registry: as much of it as the key has. */
static void log_in(struct reading *r, const char *key, const char *what, const char *kind, const char *value)
{
	const char *address = r->to->url ? strstr(r->to->url, "//") : NULL;
	size_t n = strlen(key) - strlen(what);

	if (!address || n < r->matched || strncmp(address, key, n) != 0 || (key[n - 1] != '/' && address[n] != '/'))
		return;
	r->matched = n;
	free(r->to->authorization);
	r->to->authorization = cbx_xasprintf("%s %s", kind, value);
}

/* logins: what follows from the registry, which the first reading finds. */
static void take(struct reading *r, bool logins, const char *key, char **value)
{
	size_t n = strlen(r->scope);

	if (!logins && !r->chosen && n && strncmp(key, r->scope, n) == 0 && strcmp(key + n, ":registry") == 0) {
		r->of_scope = true;
		set(&r->to->url, value);
	} else if (!logins && !r->chosen && !r->of_scope && strcmp(key, "registry") == 0) {
		set(&r->to->url, value);
	} else if (!logins && strcmp(key, "cafile") == 0 && (*value)[0] == '/') {
		set(&r->to->ca, value);
	} else if (logins && cbx_starts_with(key, "//") && cbx_ends_with(key, ":_authToken")) {
		log_in(r, key, ":_authToken", "Bearer", *value);
	} else if (logins && cbx_starts_with(key, "//") && cbx_ends_with(key, ":_auth")) {
		log_in(r, key, ":_auth", "Basic", *value);
	}
}

static void read_file(struct reading *r, bool logins, const char *path)
{
	_cleanup_fclose_ FILE *f = path[0] == '/' ? fopen(path, "re") : NULL;
	char line[LINE_MAX];

	while (f && fgets(line, sizeof(line), f)) {
		size_t n = strcspn(line, "\n"), eq = strcspn(line, "=\n");
		_cleanup_free_ char *key = NULL, *raw = NULL, *value = NULL;

		if (line[0] == '#' || line[0] == ';' || eq >= n)
			continue;
		key = cbx_index_trimmed(line, eq);
		raw = cbx_index_trimmed(line + eq + 1, n - eq - 1);
		if (!key || !raw)
			continue;
		n = strlen(raw);
		if (n > 1 && raw[0] == '"' && raw[n - 1] == '"') {
			raw[n - 1] = '\0';
			memmove(raw, raw + 1, n - 1);
		}
		value = expand(raw);
		take(r, logins, key, &value);
	}
	explicit_bzero(line, sizeof(line));
}

static const char *variable(const char *lower, const char *upper)
{
	const char *v = getenv(lower);

	return v && v[0] ? v : getenv(upper);
}

static void read_all(struct reading *r, bool logins)
{
	const char *home = getenv("HOME"), *named = variable("npm_config_userconfig", "NPM_CONFIG_USERCONFIG"),
		   *url = variable("npm_config_registry", "NPM_CONFIG_REGISTRY"),
		   *ca = variable("npm_config_cafile", "NPM_CONFIG_CAFILE");
	_cleanup_free_ char *own = cbx_xasprintf("%s/.npmrc", home ? home : "");
	_cleanup_free_ char *value = NULL, *file = NULL;

	read_file(r, logins, "/etc/npmrc");
	read_file(r, logins, named && named[0] ? named : own);
	if (url && url[0]) {
		value = cbx_xstrdup(url);
		take(r, logins, "registry", &value);
	}
	if (ca && ca[0]) {
		file = cbx_xstrdup(ca);
		take(r, logins, "cafile", &file);
	}
}

int cbx_registry_find(const char *wanted, const char *package, struct cbx_index *ret, struct cbx_err *err)
{
	const char *slash = package[0] == '@' ? strchr(package, '/') : NULL;
	_cleanup_free_ char *scope = cbx_xasprintf("%.*s", slash ? (int)(slash - package) : 0, package);
	struct reading r = { .scope = scope, .chosen = wanted, .to = ret };
	int code;

	*ret = (struct cbx_index){ .config = "~/.npmrc", .url = wanted ? cbx_xstrdup(wanted) : NULL };
	read_all(&r, false);
	if (!ret->url)
		ret->url = cbx_xstrdup(NPM);
	code = cbx_index_complete(
		ret,
		"the registry is not an address of http or https; correct packages.registry of the policy, "
		"or npm's configuration",
		err);
	if (code >= 0)
		read_all(&r, true);
	return code;
}

char *cbx_registry_page(const struct cbx_index *registry, const char *package)
{
	const char *slash = strchr(package, '/');

	return slash ? cbx_xasprintf("%s%.*s%%2f%s", registry->url, (int)(slash - package), package, slash + 1)
		     : cbx_xasprintf("%s%s", registry->url, package);
}
