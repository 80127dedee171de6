/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: what the user has configured for uv and for pip is read as these read it, files first, then the
 * environment, uv's before pip's; of each setting what comes last counts. Values may have passwords, so no message has
 * one.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "installer/config.h"
#include "installer/index.h"
#include "packages/toml.h"

#define WORDS  " \t\r\n"
#define DIRS   "/etc/xdg" /* where XDG_CONFIG_DIRS says nothing */
#define UNREAD ": it cannot be read; correct it, or set packages.index of the policy"

/* ---- settings ---- */

static void set(char **to, const char *value, size_t n)
{
	free(*to);
	*to = strndup(value, n);
}

static void set_text(char **to, const char *value)
{
	set(to, value, strlen(value));
}

static void places_release(struct cbx_places *p)
{
	for (size_t i = 0; i < p->n; i++) {
		free(p->all[i].at);
		free(p->all[i].user);
	}
	*p = (struct cbx_places){ 0 };
}

static int add_place(struct cbx_places *p, const char *at, size_t n, const char *what, struct cbx_err *err)
{
	if (p->n == CBX_INDEXES_MAX)
		return cbx_refuse(err, "index_refused", E2BIG,
				  "%s names more than %d indexes; set packages.index of the policy", what,
				  CBX_INDEXES_MAX);
	p->all[p->n++] = (struct cbx_place){ .at = strndup(at, n) };
	return 0;
}

/* A list in one string; what was there before is forgotten. */
static int set_places(struct cbx_places *p, const char *value, const char *between, const char *what,
		      struct cbx_err *err)
{
	int r = 0;

	places_release(p);
	for (size_t n; r >= 0 && *(value += strspn(value, between)); value += n) {
		n = strcspn(value, between);
		r = add_place(p, value, n, what, err);
	}
	return r;
}

static bool is_true(const char *value)
{
	static const char *const words[] = { "1", "true", "yes", "on", "y", "t" };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strcasecmp(value, words[i]) == 0)
			return true;
	return false;
}

static void overlay_text(char **to, char **from)
{
	if (!*from)
		return;
	free(*to);
	*to = take_ptr(from);
}

static void overlay_places(struct cbx_places *to, struct cbx_places *from)
{
	if (!from->n)
		return;
	places_release(to);
	*to = *from;
	*from = (struct cbx_places){ 0 };
}

/* `over` counts, where it says anything; nothing is left of it. */
static void overlay(struct cbx_index_config *to, struct cbx_index_config *over)
{
	if (over->index.at) {
		free(to->index.at);
		free(to->index.user);
		to->index = over->index;
		over->index = (struct cbx_place){ 0 };
	}
	overlay_places(&to->extra, &over->extra);
	overlay_places(&to->links, &over->links);
	overlay_text(&to->ca, &over->ca);
	overlay_text(&to->client, &over->client);
	overlay_text(&to->proxy, &over->proxy);
	overlay_text(&to->http_proxy, &over->http_proxy);
	overlay_text(&to->https_proxy, &over->https_proxy);
	overlay_text(&to->no_proxy, &over->no_proxy);
	if (over->no_index)
		to->no_index = over->no_index;
	if (over->offline)
		to->offline = over->offline;
	cbx_index_config_release(over);
}

void cbx_index_config_release(struct cbx_index_config *c)
{
	free(c->index.at);
	free(c->index.user);
	places_release(&c->extra);
	places_release(&c->links);
	free(c->ca);
	free(c->client);
	free(c->proxy);
	free(c->http_proxy);
	free(c->https_proxy);
	free(c->no_proxy);
	*c = (struct cbx_index_config){ 0 };
}

/* A file that is not there says nothing, nor does one of somebody else's home. */
static int read_file(const char *path, struct cbx_buf *ret, struct cbx_err *err)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == EACCES))
		return 0;
	if (fd < 0 || cbx_read_whole(fd, CBX_INDEX_CONFIG_MAX, ret) < 0 || memchr(ret->data, '\0', ret->len))
		return cbx_refuse(err, "index_refused", EINVAL, "%s" UNREAD, path);
	return ret->len > 0;
}

/* ---- pip ---- */

static int take_pip(struct cbx_index_config *c, const char *key, const char *value, const char *what,
		    struct cbx_err *err)
{
	if (!value[0])
		return 0;
	if (strcmp(key, "index-url") == 0)
		set_text(&c->index.at, value);
	else if (strcmp(key, "extra-index-url") == 0)
		return set_places(&c->extra, value, WORDS, what, err);
	else if (strcmp(key, "find-links") == 0)
		return set_places(&c->links, value, WORDS, what, err);
	else if (strcmp(key, "no-index") == 0)
		c->no_index = is_true(value) ? CBX_SET_YES : CBX_SET_NO;
	else if (strcmp(key, "cert") == 0)
		set_text(&c->ca, value);
	else if (strcmp(key, "client-cert") == 0)
		set_text(&c->client, value);
	else if (strcmp(key, "proxy") == 0)
		set_text(&c->proxy, value);
	return 0;
}

/* "Index_URL" is "index-url" to pip. */
static void as_key(char *key)
{
	size_t dashes = strspn(key, "-");

	memmove(key, key + dashes, strlen(key + dashes) + 1);
	for (; *key; key++)
		*key = *key == '_' ? '-' : *key >= 'A' && *key <= 'Z' ? (char)(*key | 32) : *key;
}

/* One section: lines "key = value", continued by those that are indented. */
static int read_section(struct cbx_index_config *c, const char *text, const char *section, const char *path,
			struct cbx_err *err)
{
	_cleanup_free_ char *key = NULL;
	_cleanup_buf_ struct cbx_buf value = { 0 };
	bool ours = false;
	int r = 0;

	for (const char *p = text; r >= 0; p += *p == '\n') {
		size_t n = strcspn(p, "\n"), eq = strcspn(p, "=:\n");
		_cleanup_free_ char *bare = cbx_index_trimmed(p, n);
		bool more = key && *p && strchr(" \t", *p);

		if (!*p || (bare && !more && !strchr("#;", bare[0]))) { /* what came before has ended */
			r = key ? take_pip(c, key, cbx_buf_str(&value), path, err) : 0;
			free(take_ptr(&key));
			value.len = 0;
		}
		if (!*p)
			break;
		p += n;
		if (!bare || strchr("#;", bare[0]))
			continue;
		if (more) {
			cbx_buf_addf(&value, "%s%s", value.len ? " " : "", bare);
		} else if (bare[0] == '[') {
			ours = cbx_starts_with(bare, section);
		} else if (ours && eq < n) {
			_cleanup_free_ char *first = cbx_index_trimmed(p - n + eq + 1, n - eq - 1);

			key = cbx_index_trimmed(p - n, eq);
			if (key)
				as_key(key);
			cbx_buf_adds(&value, first ? first : "");
		}
	}
	return r;
}

static int read_pip(struct cbx_index_config *c, const char *path, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	struct cbx_index_config file = { 0 };
	int r = read_file(path, &text, err);

	if (r > 0)
		r = read_section(&file, cbx_buf_str(&text), "[global]", path, err);
	if (r >= 0 && text.len)
		r = read_section(&file, cbx_buf_str(&text), "[install]", path, err);
	cbx_buf_wipe(&text);
	overlay(c, &file);
	return r;
}

/* ---- uv ---- */

struct uv {
	struct cbx_index_config *to;
	const char *path;
	unsigned table; /* the [[index]] that is being read */
	struct cbx_place at;
	char *name;
	bool is_default, is_explicit, flat;
};

/* UV_INDEX_<NAME>_USERNAME and _PASSWORD */
static char *login(const char *name)
{
	static const char *const parts[] = { "USERNAME", "PASSWORD" };
	const char *values[ARRAY_SIZE(parts)];

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		_cleanup_free_ char *variable = cbx_xasprintf("UV_INDEX_%s_%s", name, parts[i]);

		for (char *p = variable; *p; p++)
			*p = *p >= 'a' && *p <= 'z'						 ? (char)(*p & ~32)
			     : (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') || *p == '_' ? *p
												 : '_';
		values[i] = getenv(variable);
	}
	return values[0] || values[1] ? cbx_xasprintf("%s:%s", values[0] ? values[0] : "", values[1] ? values[1] : "")
				      : NULL;
}

/* An [[index]] is complete. */
static int end_index(struct uv *u, struct cbx_err *err)
{
	int r = 0;

	if (u->at.at && u->name)
		u->at.user = login(u->name);
	if (u->at.at && u->is_default && !u->flat) {
		free(u->to->index.at);
		free(u->to->index.user);
		u->to->index = u->at;
		u->at = (struct cbx_place){ 0 };
	} else if (u->at.at && !u->is_explicit) { /* else it is for projects that name it */
		struct cbx_places *p = u->flat ? &u->to->links : &u->to->extra;

		r = add_place(p, u->at.at, strlen(u->at.at), u->path, err);
		if (r >= 0)
			p->all[p->n - 1].user = take_ptr(&u->at.user);
	}
	free(u->at.at);
	free(u->at.user);
	free(u->name);
	*u = (struct uv){ .to = u->to, .path = u->path, .table = u->table };
	return r;
}

static int take_index(struct uv *u, const char *key, const struct cbx_toml_event *e, struct cbx_err *err)
{
	int r = e->tables == u->table ? 0 : end_index(u, err);

	u->table = e->tables;
	if (strcmp(key, "url") == 0)
		set_text(&u->at.at, e->text);
	else if (strcmp(key, "name") == 0)
		set_text(&u->name, e->text);
	else if (strcmp(key, "default") == 0)
		u->is_default = strcmp(e->text, "true") == 0;
	else if (strcmp(key, "explicit") == 0)
		u->is_explicit = strcmp(e->text, "true") == 0;
	else if (strcmp(key, "format") == 0)
		u->flat = strcmp(e->text, "flat") == 0;
	return r;
}

static void add_exempt(char **to, const char *host)
{
	char *all = *to ? cbx_xasprintf("%s,%s", *to, host) : cbx_xstrdup(host);

	free(*to);
	*to = all;
}

static int take_uv(void *arg, const struct cbx_toml_event *e, struct cbx_err *err)
{
	struct uv *u = arg;
	const char *key = cbx_starts_with(e->key, "pip.") ? e->key + strlen("pip.") : e->key;

	if (e->what == CBX_TOML_MEMBER && strcmp(key, "index") == 0)
		return cbx_refuse(err, "index_refused", EINVAL, "write each index as a table: [[index]]");
	if (!e->text)
		return 0;
	if (cbx_starts_with(key, "index."))
		return take_index(u, key + strlen("index."), e, err);
	if (strcmp(key, "index-url") == 0)
		set_text(&u->to->index.at, e->text);
	else if (strcmp(key, "extra-index-url") == 0)
		return add_place(&u->to->extra, e->text, strlen(e->text), u->path, err);
	else if (strcmp(key, "find-links") == 0)
		return add_place(&u->to->links, e->text, strlen(e->text), u->path, err);
	else if (strcmp(key, "http-proxy") == 0)
		set_text(&u->to->http_proxy, e->text);
	else if (strcmp(key, "https-proxy") == 0)
		set_text(&u->to->https_proxy, e->text);
	else if (strcmp(key, "no-proxy") == 0)
		add_exempt(&u->to->no_proxy, e->text);
	else if (strcmp(key, "no-index") == 0)
		u->to->no_index = strcmp(e->text, "true") == 0 ? CBX_SET_YES : CBX_SET_NO;
	else if (strcmp(key, "offline") == 0)
		u->to->offline = strcmp(e->text, "true") == 0 ? CBX_SET_YES : CBX_SET_NO;
	return 0;
}

/* Directories of links count from that of the file. */
static void from_directory(struct cbx_places *links, const char *path)
{
	for (size_t i = 0; i < links->n; i++) {
		char *at = links->all[i].at;

		if (strchr("/~", at[0]) || strstr(at, "://"))
			continue;
		links->all[i].at = cbx_xasprintf("%.*s/%s", (int)(strrchr(path, '/') - path), path,
						 at + 2 * (size_t)cbx_starts_with(at, "./"));
		free(at);
	}
}

static int read_uv(struct cbx_index_config *c, const char *path, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	struct cbx_index_config file = { 0 };
	struct uv u = { .to = &file, .path = path };
	int r = read_file(path, &text, err);

	if (r > 0)
		r = cbx_toml_read(path, 1, cbx_buf_str(&text), take_uv, &u, err);
	if (r >= 0)
		r = end_index(&u, err);
	from_directory(&file.links, path);
	cbx_buf_wipe(&text);
	overlay(c, &file);
	return r < 0 ? cbx_wrap(err, "uv's configuration") : 0;
}

/* ---- where it is ---- */

static const char *variable(const char *name)
{
	const char *v = getenv(name);

	return v && v[0] ? v : NULL;
}

typedef int (*read_fn)(struct cbx_index_config *c, const char *path, struct cbx_err *err);

/* Below each directory of the machine's configuration, the most important one last. */
static int read_below_all(struct cbx_index_config *c, read_fn fn, const char *name, struct cbx_err *err)
{
	const char *dirs = variable("XDG_CONFIG_DIRS"), *end;
	int r = 0;

	dirs = dirs ? dirs : DIRS;
	end = dirs + strlen(dirs);
	while (r >= 0 && end > dirs) {
		const char *colon = memrchr(dirs, ':', (size_t)(end - dirs)), *p = colon ? colon + 1 : dirs;
		_cleanup_free_ char *path = cbx_xasprintf("%.*s/%s", (int)(end - p), p, name);

		r = path[0] == '/' && end > p ? fn(c, path, err) : 0;
		end = colon ? colon : dirs;
	}
	return r;
}

static int read_of_user(struct cbx_index_config *c, read_fn fn, const char *name, struct cbx_err *err)
{
	const char *home = variable("HOME"), *config = variable("XDG_CONFIG_HOME");
	_cleanup_free_ char *path =
		config ? cbx_xasprintf("%s/%s", config, name) : cbx_xasprintf("%s/.config/%s", home ? home : "", name);

	return path[0] == '/' ? fn(c, path, err) : 0;
}

static int read_files_of_uv(struct cbx_index_config *c, struct cbx_err *err)
{
	const char *file = variable("UV_CONFIG_FILE"), *none = variable("UV_NO_CONFIG");
	int r;

	if (file && file[0] == '/')
		return read_uv(c, file, err);
	if (none && is_true(none))
		return 0;
	r = read_below_all(c, read_uv, "uv/uv.toml", err);
	if (r >= 0)
		r = read_uv(c, "/etc/uv/uv.toml", err);
	return r < 0 ? r : read_of_user(c, read_uv, "uv/uv.toml", err);
}

static int read_files_of_pip(struct cbx_index_config *c, struct cbx_err *err)
{
	const char *home = variable("HOME"), *file = variable("PIP_CONFIG_FILE");
	_cleanup_free_ char *legacy = cbx_xasprintf("%s/.pip/pip.conf", home ? home : "");
	int r = 0;

	if (file && strcmp(file, "/dev/null") == 0) /* as pip has it: none of them */
		return 0;
	r = read_below_all(c, read_pip, "pip/pip.conf", err);
	if (r >= 0)
		r = read_pip(c, "/etc/pip.conf", err);
	if (r >= 0)
		r = read_pip(c, legacy, err);
	if (r >= 0)
		r = read_of_user(c, read_pip, "pip/pip.conf", err);
	return r >= 0 && file && file[0] == '/' ? read_pip(c, file, err) : r;
}

/* "name=https://…", of which the name says who logs in. */
static void take_name(struct cbx_place *p)
{
	char *eq = p->at ? strchr(p->at, '=') : NULL, *address = p->at ? strstr(p->at, "://") : NULL;

	if (!eq || !address || eq > address)
		return;
	*eq = '\0';
	free(p->user);
	p->user = login(p->at);
	memmove(p->at, eq + 1, strlen(eq + 1) + 1);
}

static int read_environment_of_uv(struct cbx_index_config *c, struct cbx_err *err)
{
	static const char name[] = "the environment of codeboxd";
	const char *index = variable("UV_DEFAULT_INDEX"), *extra = variable("UV_INDEX"),
		   *links = variable("UV_FIND_LINKS"), *none = variable("UV_NO_INDEX"),
		   *offline = variable("UV_OFFLINE");
	struct cbx_index_config own = { 0 };
	int r = 0;

	index = index ? index : variable("UV_INDEX_URL");
	extra = extra ? extra : variable("UV_EXTRA_INDEX_URL");
	if (index)
		set_text(&own.index.at, index);
	if (extra)
		r = set_places(&own.extra, extra, WORDS, name, err);
	if (r >= 0 && links)
		r = set_places(&own.links, links, "," WORDS, name, err);
	if (none)
		own.no_index = is_true(none) ? CBX_SET_YES : CBX_SET_NO;
	if (offline)
		own.offline = is_true(offline) ? CBX_SET_YES : CBX_SET_NO;
	take_name(&own.index);
	for (size_t i = 0; i < own.extra.n; i++)
		take_name(&own.extra.all[i]);
	overlay(c, &own);
	return r;
}

static int read_environment_of_pip(struct cbx_index_config *c, struct cbx_err *err)
{
	static const char *const keys[] = { "index-url", "extra-index-url", "find-links", "no-index",
					    "cert",	 "client-cert",	    "proxy" };
	struct cbx_index_config own = { 0 };
	int r = 0;

	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(keys); i++) {
		_cleanup_free_ char *name = cbx_xasprintf("PIP_%s", keys[i]);
		const char *value;

		for (char *p = name; *p; p++)
			*p = *p == '-' ? '_' : *p >= 'a' && *p <= 'z' ? (char)(*p & ~32) : *p;
		value = variable(name);
		r = value ? take_pip(&own, keys[i], value, "the environment of codeboxd", err) : 0;
	}
	overlay(c, &own);
	return r;
}

/* What is not pip's or uv's own counts where they say nothing. */
static void read_certificates(struct cbx_index_config *c)
{
	static const char *const names[] = { "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR" };

	for (size_t i = 0; i < ARRAY_SIZE(names) && !c->ca; i++) {
		const char *v = variable(names[i]);

		if (v && v[0] == '/')
			set_text(&c->ca, v);
	}
}

/* "~/x" is below the home. */
static int complete_path(char **path, const char *what, struct cbx_err *err)
{
	const char *home = variable("HOME");
	char *p = *path;

	if (p && cbx_starts_with(p, "~/") && home) {
		*path = cbx_xasprintf("%s%s", home, p + 1);
		free(p);
	} else if (p && cbx_starts_with(p, "file:///")) {
		memmove(p, p + strlen("file://"), strlen(p + strlen("file://")) + 1);
	}
	if (!*path || ((*path)[0] == '/' && cbx_plain(*path)))
		return 0;
	return cbx_refuse(err, "index_refused", EINVAL, "%s", what);
}

int cbx_index_config_read(struct cbx_index_config *ret, struct cbx_err *err)
{
	int r;

	*ret = (struct cbx_index_config){ 0 };
	r = read_files_of_uv(ret, err);
	if (r >= 0)
		r = read_files_of_pip(ret, err);
	if (r >= 0)
		r = read_environment_of_uv(ret, err);
	if (r >= 0)
		r = read_environment_of_pip(ret, err);
	if (r >= 0)
		read_certificates(ret);
	if (r >= 0)
		r = complete_path(&ret->ca, "cert of pip's configuration is not an absolute path; correct it", err);
	if (r >= 0)
		r = complete_path(&ret->client,
				  "client-cert of pip's configuration is not an absolute path; correct it", err);
	if (r >= 0 && !cbx_proxy_plain(ret->proxy))
		r = cbx_refuse(err, "index_refused", EINVAL,
			       "proxy of pip's configuration is not an address; correct it");
	if (r >= 0 && (!cbx_proxy_plain(ret->http_proxy) || !cbx_proxy_plain(ret->https_proxy)))
		r = cbx_refuse(err, "index_refused", EINVAL,
			       "http-proxy or https-proxy of uv's configuration is not an address; correct it");
	if (r < 0)
		cbx_index_config_release(ret);
	return r;
}

int cbx_index_config_links(struct cbx_index_config *c, struct cbx_err *err)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < c->links.n; i++)
		r = complete_path(
			&c->links.all[i].at,
			"find-links of pip's or uv's configuration names what is not a directory by its absolute "
			"path: pages of links are not read; name an index instead (extra-index-url), or set "
			"packages.index of the policy",
			err);
	return r;
}
