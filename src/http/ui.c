/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the page is a client of the REST interface like any other, and has no door of its own. Its files
 * hold nothing of anybody, so they need no token; all that the page shows, it asks for with the token that was typed
 * into it, which it keeps in memory and sends in the Authorization header. No cookie exists that a browser would add to
 * what other pages have it send: there is nothing to be forged. Where no token is asked for, the gate refuses requests
 * of other origins (gate.c).
 *
 * What code in a sandbox has made is shown in this page, so its policy leaves scripts no other source than these files:
 * none in the page, none in attributes, none of strings; nothing is loaded from, or sent to, anywhere else.
 */
#include "http/ui.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "http/conn.h"
#include "http/gate.h"

static const struct file {
	const char *name, *tag, *text;
} files[] = {
#include "http/ui.inc"
};

static const char policy[] =
	"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
	"frame-src 'none'; frame-ancestors 'none'; form-action 'none'; base-uri 'none'; "
	"require-trusted-types-for 'script'; trusted-types output";

static const char *rest_of(const char *path)
{
	if (strcmp(path, "/ui") == 0 || strcmp(path, "/ui/") == 0)
		return "index.html";
	return cbx_starts_with(path, "/ui/") ? path + strlen("/ui/") : NULL;
}

bool cbx_http_ui_is(const char *path)
{
	return rest_of(path);
}

static const char *type_of(const char *name)
{
	if (cbx_ends_with(name, ".html"))
		return "text/html; charset=utf-8";
	if (cbx_ends_with(name, ".css"))
		return "text/css; charset=utf-8";
	return cbx_ends_with(name, ".svg") ? "image/svg+xml" : "text/javascript; charset=utf-8";
}

static void reply_file(struct cbx_http_conn *c, const struct file *f)
{
	const char *has = cbx_http_header(c, "If-None-Match");
	bool same = has && strstr(has, f->tag);

	cbx_http_add_header(c, "ETag", f->tag);
	cbx_http_add_header(c, "Cache-Control", "no-cache"); /* ask each time, whether it is still the same */
	cbx_http_add_header(c, "Content-Security-Policy", policy);
	cbx_http_add_header(c, "X-Frame-Options", "DENY");
	cbx_http_add_header(c, "Referrer-Policy", "no-referrer");
	cbx_http_add_header(c, "Cross-Origin-Opener-Policy", "same-origin");
	cbx_http_reply(c, same ? 304 : 200, type_of(f->name), f->text, strlen(f->text));
}

/* So that the page need not try without a token where that is an error. */
static void reply_door(struct cbx_http_conn *c, bool token)
{
	_cleanup_json_ cJSON *o = cbx_json_new_obj();
	_cleanup_buf_ struct cbx_buf text = { 0 };

	cbx_json_set_bool(o, "token", token);
	cbx_json_set_str(o, "version", PACKAGE_VERSION);
	cbx_json_print(&text, o);
	cbx_http_reply(c, 200, "application/json", text.data, text.len);
}

void cbx_http_ui_request(struct cbx_http_conn *c, bool token)
{
	const char *name = rest_of(c->head.path);

	if (c->head.method != CBX_HTTP_GET && c->head.method != CBX_HTTP_HEAD) {
		cbx_http_add_header(c, "Allow", "GET, HEAD");
		cbx_http_gate_refuse(c, 405, "wrong_method", "Method Not Allowed");
		return;
	}
	if (strcmp(name, "door.json") == 0) {
		reply_door(c, token);
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		if (strcmp(files[i].name, name) == 0) {
			reply_file(c, &files[i]);
			return;
		}
	}
	cbx_http_gate_refuse(c, 404, "not_found", "Not Found");
}
