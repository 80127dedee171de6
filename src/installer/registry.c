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
#include "installer/index.h"

#define NPM	 "https://registry.npmjs.org/"
#define LINE_MAX 4096

struct reading {
	const char *scope; /* "@scope"; "": it has none */
	bool chosen;	   /* the policy's registry */
	bool of_scope;	   /* it was found */
	struct cbx_index *to;
	char *https;	/* "https-proxy"; owned */
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

/* npm takes https-proxy before proxy, whatever the address; "null" and "false" are its words for none. */
static bool take_proxy(struct reading *r, const char *key, char **value)
{
	bool https = strcmp(key, "https-proxy") == 0;

	if (strcmp(key, "noproxy") == 0 || strcmp(key, "no-proxy") == 0) {
		set(&r->to->no_proxy, value);
		return true;
	}
	if (!https && strcmp(key, "proxy") != 0)
		return false;
	if (strcmp(*value, "null") == 0 || strcmp(*value, "false") == 0)
		free(take_ptr(value));
	set(https ? &r->https : &r->to->proxy, value);
	return true;
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
	} else if (!logins && take_proxy(r, key, value)) {
		return;
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

char *cbx_registry_file(void)
{
	const char *home = getenv("HOME"), *named = variable("npm_config_userconfig", "NPM_CONFIG_USERCONFIG");

	return named && named[0] ? cbx_xstrdup(named) : cbx_xasprintf("%s/.npmrc", home ? home : "");
}

static void read_all(struct reading *r, bool logins)
{
	static const char *const settings[][3] = {
		{ "registry", "npm_config_registry", "NPM_CONFIG_REGISTRY" },
		{ "cafile", "npm_config_cafile", "NPM_CONFIG_CAFILE" },
		{ "proxy", "npm_config_proxy", "NPM_CONFIG_PROXY" },
		{ "https-proxy", "npm_config_https_proxy", "NPM_CONFIG_HTTPS_PROXY" },
		{ "noproxy", "npm_config_noproxy", "NPM_CONFIG_NOPROXY" },
	};
	_cleanup_free_ char *own = cbx_registry_file();

	read_file(r, logins, "/etc/npmrc");
	read_file(r, logins, own);
	for (size_t i = 0; i < ARRAY_SIZE(settings); i++) {
		const char *v = variable(settings[i][1], settings[i][2]);
		_cleanup_free_ char *value = v && v[0] ? cbx_xstrdup(v) : NULL;

		if (value)
			take(r, logins, settings[i][0], &value);
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
	if (r.https) {
		free(ret->proxy);
		ret->proxy = r.https;
	}
	if (!ret->url)
		ret->url = cbx_xstrdup(NPM);
	code = cbx_index_complete(
		ret,
		"the registry is not an address of http or https; correct packages.registry of the policy, "
		"or npm's configuration",
		err);
	if (code >= 0 && !cbx_proxy_plain(ret->proxy))
		code = cbx_refuse(err, "index_refused", EINVAL,
				  "proxy or https-proxy of npm's configuration is not an address; correct it");
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
