/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a cell is written in the language that its request names, else in the one that its first line
 * names ("%%bash" and nothing else), or that a program's file name ends with, else in the session's own: the first by
 * rank that the image has. That one's interpreter is started with the session; what is needed to start each of the
 * others is put together here, when its first cell comes: the arguments of the image, and the environment of the
 * session's own.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "image/store.h"
#include "session/asked.h"

void cbx_session_add_words(struct cbx_buf *b, const cJSON *argv, const struct cbx_runtime *rt)
{
	char path[PATH_MAX];
	const cJSON *v;

	cJSON_ArrayForEach(v, argv)
		if (cJSON_IsString(v) && v->valuestring[0])
			cbx_buf_add(b, v->valuestring, strlen(v->valuestring) + 1);
	cJSON_ArrayForEach(v, (rt ? rt->arguments : NULL))
		cbx_buf_add(b, v->valuestring, strlen(v->valuestring) + 1);
	if (rt) {
		snprintf(path, sizeof(path), "%s/%s/%s", CBX_INSIDE_RUNTIMES, rt->language, rt->driver);
		cbx_buf_add(b, path, strlen(path) + 1);
	}
	cbx_buf_addc(b, '\0');
}

/* The environment in a SPAWN request: behind the empty word that ends the arguments. */
static size_t environment_at(const struct cbx_buf *spawn)
{
	size_t at = 0;

	while (at < spawn->len && spawn->data[at])
		at += strlen(spawn->data + at) + 1;
	return at < spawn->len ? at + 1 : at;
}

static bool sets(const struct cbx_runtime *rt, const char *variable)
{
	const cJSON *v;

	cJSON_ArrayForEach(v, rt->environment)
		if (strncmp(variable, v->string, strlen(v->string)) == 0 && variable[strlen(v->string)] == '=')
			return true;
	return false;
}

static int make_spawn(const struct cbx_session *s, const struct cbx_runtime *rt, struct cbx_buf *out,
		      struct cbx_err *err)
{
	const cJSON *one = cbx_json_member(s->interpreters, rt->language), *argv = NULL, *v;

	if (cbx_json_get_arr(one, "argv", &argv, err) < 0)
		return -err->code;
	cbx_session_add_words(out, argv, rt);
	for (size_t at = environment_at(&s->spawn); at < s->spawn.len; at += strlen(s->spawn.data + at) + 1)
		if (!sets(rt, s->spawn.data + at))
			cbx_buf_add(out, s->spawn.data + at, strlen(s->spawn.data + at) + 1);
	cJSON_ArrayForEach(v, rt->environment) {
		cbx_buf_addf(out, "%s=%s", v->string, v->valuestring);
		cbx_buf_addc(out, '\0');
	}
	if (rt->preload)
		cbx_buf_adds(out, "CODEBOX_PRELOAD=");
	cJSON_ArrayForEach(v, rt->preload)
		cbx_buf_addf(out, "%s%s", v == rt->preload->child ? "" : ",", v->valuestring);
	if (rt->preload)
		cbx_buf_addc(out, '\0');
	if (out->len > CBX_INIT_MESSAGE_MAX - sizeof(struct cbx_init_header))
		return cbx_refuse(err, "image_damaged", E2BIG,
				  "image %s: the arguments and environment of \"%s\" are too long", s->spec.image,
				  rt->language);
	return 0;
}

/* Images that may be asked for and have an interpreter for it, three at most. They are not for tenants to know. */
static void find_images(const struct cbx_session *s, const struct cbx_runtime *rt, struct cbx_buf *out)
{
	_cleanup_json_ cJSON *list = NULL;
	const cJSON *image;
	struct cbx_err ignored;
	int n = 0;

	if (!rt || !cbx_session_is_local(s) || cbx_image_list(s->engine->config.images_dir, &list, &ignored) < 0)
		return;
	cJSON_ArrayForEach(image, list) {
		const char *name = cbx_json_text(image, "name");
		const cJSON *interpreters = cbx_json_member(image, "interpreters");

		if (name && cbx_json_member(interpreters, rt->language) && n < 3 &&
		    cbx_policy_image_allowed(s->policy, name))
			cbx_buf_addf(out, "%s\"%s\"", n++ ? " or " : "the image ", name);
	}
}

static int refuse(const struct cbx_session *s, const char *name, struct cbx_err *err)
{
	const struct cbx_runtimes *all = &s->engine->runtimes;
	_cleanup_buf_ struct cbx_buf have = { 0 }, others = { 0 };
	const char *dialect;
	const cJSON *d;

	find_images(s, cbx_runtime_named(all, name, strlen(name), &dialect), &others);
	for (size_t i = 0; i < all->n; i++) {
		if (!cbx_json_member(s->interpreters, all->all[i].language))
			continue;
		cbx_buf_addf(&have, "%s%s", have.len ? ", " : "", all->all[i].language);
		cJSON_ArrayForEach(d, all->all[i].dialects)
			cbx_buf_addf(&have, ", %s", d->string);
	}
	if (!have.len)
		return cbx_refuse(err, "no_interpreter", ENOENT,
				  "the image \"%s\" of session %s cannot run \"%.40s\": it has no interpreter for any "
				  "language, only programs; run these (codebox exec, run_command), or use a session "
				  "with %.200s",
				  s->spec.image, s->spec.id, name, others.len ? others.data : "another image");
	return cbx_refuse(err, "no_interpreter", ENOENT,
			  "language: the image \"%s\" of session %s cannot run \"%.40s\"; use one of %.200s, or a "
			  "session with %.200s",
			  s->spec.image, s->spec.id, name, have.data, others.len ? others.data : "another image");
}

/* The name in a first line that is "%%NAME" and nothing else; *ret_rest: what follows that line. */
static size_t named_by(const char *code, const char **ret_rest)
{
	size_t n, end;

	if (strncmp(code, "%%", 2) != 0)
		return 0;
	n = strcspn(code + 2, " \t\r\n");
	end = 2 + n + strspn(code + 2 + n, " \t\r");
	if (code[end] != '\n')
		return 0;
	*ret_rest = code + end + 1;
	return n;
}

int cbx_session_seat(struct cbx_session *s, struct cbx_cell_spec *cell, struct cbx_seat **ret, struct cbx_err *err)
{
	const struct cbx_runtimes *all = &s->engine->runtimes;
	const struct cbx_runtime *rt = NULL;
	const char *rest;
	_cleanup_buf_ struct cbx_buf spawn = { 0 };
	size_t n;
	int r;

	*ret = &s->cells.first;
	cell->dialect = NULL;
	if (!s->cells.first.runtime)
		return refuse(s, cell->language ? cell->language : all->n ? all->all[0].language : "", err);
	if (cell->language) {
		rt = cbx_runtime_named(all, cell->language, strlen(cell->language), &cell->dialect);
		if (!rt || !cbx_json_member(s->interpreters, rt->language))
			return refuse(s, cell->language, err);
	} else if (cell->file) {
		cell->language = cbx_runtime_of_file(all, cell->file);
		return cell->language ? cbx_session_seat(s, cell, ret, err) : 0;
	} else if ((n = named_by(cell->code, &rest)) > 0) {
		rt = cbx_runtime_named(all, cell->code + 2, n, &cell->dialect);
		if (rt == s->cells.first.runtime && !cell->dialect)
			rt = NULL; /* it may be a word of the language itself */
		else if (rt && cbx_json_member(s->interpreters, rt->language))
			cell->code = rest;
		else
			rt = NULL;
	}
	if (rt && rt != s->cells.first.runtime)
		*ret = cbx_cells_find_seat(&s->cells, rt);
	if (*ret)
		return 0;
	r = make_spawn(s, rt, &spawn, err);
	if (r >= 0)
		r = cbx_cells_add_seat(&s->cells, rt, ret, err);
	if (r < 0)
		return r;
	(*ret)->spawn = spawn;
	spawn = (struct cbx_buf){ 0 };
	return 0;
}
