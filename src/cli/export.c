/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the history of a session is asked for page by page, and each cell becomes a part of what is
 * written in the end. Nothing runs for it, and nothing is asked of the sandbox. All texts are the sandbox's or its
 * user's: in a notebook they are JSON, in a transcript they are cleaned of what a terminal would obey.
 */
#include "cli/export.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/clean.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/outputs.h"
#include "cli/transcript.h"

enum format { NOTEBOOK, SCRIPT, TRANSCRIPT, FORMATS };
static const char *const format_names[] = { "ipynb", "script", "transcript" };

struct export
{
	enum format format;
	const char *session, *output; /* output NULL: standard output */
	char language[64];	      /* the session's own; "": it has none, or nothing is known yet */
	cJSON *notebook;
	struct cbx_buf text;
	size_t ncells;
	uint64_t forgotten;
};

static int parse_format(const char *name, enum format *ret)
{
	int format = cbx_find_word(name, format_names, FORMATS);

	*ret = (enum format)format;
	return format >= 0 ? 0
			   : cbx_cli_usage("session", "--format: \"%s\" is not one of ipynb, script, transcript", name);
}

static int parse_options(int argc, char **argv, struct export *e)
{
	const char *format = NULL;
	const struct cbx_cli_option options[] = { { "format", .value = &format },
						  { "output", 'o', .value = &e->output },
						  { 0 } };
	int r = cbx_cli_options("session", argc, argv, options);

	if (r)
		return r;
	if (argc - optind != 1)
		return cbx_cli_usage("session", "export: give the name of one session");
	e->session = argv[optind];
	if (format)
		return parse_format(format, &e->format);
	if (e->output && cbx_ends_with(e->output, ".txt"))
		e->format = TRANSCRIPT;
	else if (e->output && !cbx_ends_with(e->output, ".ipynb"))
		return cbx_cli_usage("session",
				     "export: the name %s says no format; give --format ipynb, script or transcript",
				     e->output);
	return 0;
}

/* ---- a cell ---- */

static void add_outputs(struct cbx_outputs *o, const cJSON *cell)
{
	const cJSON *v;

	cJSON_ArrayForEach(v, cbx_json_member(cell, "outputs")) {
		if (cbx_json_text(v, "stream"))
			cbx_outputs_print(o, cbx_json_str(v, "stream"), cbx_json_str(v, "text"));
		else
			cbx_outputs_show(o, v);
	}
}

static void add_to_notebook(struct export *e, const cJSON *cell, const char *source)
{
	cJSON *cells = cbx_json_member(e->notebook, "cells"), *c = cbx_json_new_obj();
	_cleanup_free_ char *text = cbx_transcript_marked(cell, source, e->language);
	struct cbx_outputs o = { .cells = cells };
	char id[40];

	snprintf(id, sizeof(id), "cell-%.0f", cbx_json_number(cell, "execution_id", 0));
	cbx_json_set_str(c, "cell_type", "code");
	cbx_json_set_str(c, "id", id);
	cbx_json_set(c, "metadata", cbx_json_new_obj());
	cbx_json_set(c, "source", cbx_outputs_lines(text, true));
	add_outputs(&o, cell);
	cbx_outputs_finish(&o, c, cell);
	cbx_json_push(cells, c);
	cbx_outputs_release(&o);
}

/* ---- a transcript ---- */

static void add_clean(struct cbx_buf *out, const char *text)
{
	cbx_clean(out, text);
	if (out->len && out->data[out->len - 1] != '\n')
		cbx_buf_addc(out, '\n');
}

static void add_display(struct cbx_buf *out, const cJSON *v, const cJSON *count)
{
	const cJSON *data = cbx_json_member(v, "data"), *form;
	_cleanup_buf_ struct cbx_buf made = { 0 };
	const char *text = cbx_display_text(data, &made);

	cJSON_ArrayForEach(form, data)
		if (cbx_starts_with(form->string, "image/") || strcmp(form->string, "application/pdf") == 0)
			cbx_buf_addf(out, "[%s]\n", form->string);
	if (text[0] && cJSON_IsTrue(cbx_json_member(v, "is_result")) && count)
		cbx_buf_addf(out, "Out[%.0f]: %s", count->valuedouble, strchr(text, '\n') ? "\n" : "");
	if (text[0])
		add_clean(out, text);
}

static void add_to_transcript(struct export *e, const cJSON *cell, const char *source)
{
	const cJSON *error = cbx_json_member(cell, "error"), *v;
	const char *message = cbx_json_str(cell, "message"), *traceback = cbx_json_str(error, "traceback");
	_cleanup_free_ char *text = cbx_transcript_marked(cell, source, e->language);
	struct cbx_buf *out = &e->text;

	if (out->len)
		cbx_buf_addc(out, '\n');
	cbx_transcript_prompt(out, cell, text);
	cJSON_ArrayForEach(v, cbx_json_member(cell, "outputs")) {
		if (cbx_json_text(v, "stream"))
			cbx_clean(out, cbx_json_str(v, "text"));
		else
			add_display(out, v, cbx_json_member(cell, "execution_count"));
	}
	add_clean(out, traceback[0] ? traceback : cbx_json_str(error, "value"));
	if (message[0])
		cbx_buf_addc(out, '[');
	cbx_clean(out, message);
	if (message[0])
		cbx_buf_adds(out, "]\n");
}

/* ---- all of it ---- */

static void add_cell(struct export *e, const cJSON *cell)
{
	_cleanup_free_ char *source = cbx_transcript_source(cell);

	e->ncells++;
	if (e->format == NOTEBOOK)
		add_to_notebook(e, cell, source);
	else if (e->format == TRANSCRIPT)
		add_to_transcript(e, cell, source);
	else
		cbx_export_script_cell(&e->text, cell, source, e->language);
}

static void set_language(cJSON *metadata, const char *language)
{
	cJSON *info = cbx_json_new_obj(), *kernel;

	cbx_json_set_str(info, "name", language);
	cbx_json_set(metadata, "language_info", info);
	if (strcmp(language, "python") != 0)
		return;
	kernel = cbx_json_new_obj();
	cbx_json_set_str(kernel, "name", "python3");
	cbx_json_set_str(kernel, "display_name", "Python 3");
	cbx_json_set_str(kernel, "language", language);
	cbx_json_set(metadata, "kernelspec", kernel);
}

static void begin(struct export *e, const cJSON *page)
{
	cJSON *metadata, *own;

	snprintf(e->language, sizeof(e->language), "%s", cbx_json_str(page, "language"));
	if (e->format == SCRIPT)
		cbx_export_script_head(&e->text, e->session, e->language);
	if (e->format != NOTEBOOK)
		return;
	metadata = cbx_json_new_obj();
	own = cbx_json_new_obj();
	e->notebook = cbx_json_new_obj();
	if (e->language[0])
		set_language(metadata, e->language);
	cbx_json_set_str(own, "session", e->session);
	cbx_json_set_str(own, "image", cbx_json_str(page, "image"));
	cbx_json_set(metadata, "codebox", own);
	cbx_json_set(e->notebook, "cells", cbx_json_new_arr());
	cbx_json_set(e->notebook, "metadata", metadata);
	cbx_json_set_u64(e->notebook, "nbformat", 4);
	cbx_json_set_u64(e->notebook, "nbformat_minor", 5);
}

/* 1: there is more, after *after. */
static int add_page(struct export *e, struct cbx_client *client, uint64_t *after, struct cbx_err *err)
{
	cJSON *params = cbx_json_new_obj();
	_cleanup_json_ cJSON *page = NULL;
	uint64_t last = *after;
	const cJSON *cell;
	int r;

	cbx_json_set_str(params, "session_id", e->session);
	if (last)
		cbx_json_set_u64(params, "execution_id", last);
	r = cbx_client_call(client, "session.history", params, &page, err);
	if (r < 0)
		return r;
	if (!last)
		begin(e, page);
	e->forgotten = (uint64_t)cbx_json_number(page, "forgotten", 0);
	cJSON_ArrayForEach(cell, cbx_json_member(page, "cells")) {
		*after = (uint64_t)cbx_json_number(cell, "execution_id", 0);
		add_cell(e, cell);
	}
	return *after > last && cJSON_IsTrue(cbx_json_member(page, "more"));
}

static int export(struct export *e, struct cbx_client *client, struct cbx_err *err)
{
	uint64_t after = 0;
	int r;

	while ((r = add_page(e, client, &after, err)) > 0)
		;
	if (r < 0)
		return r;
	if (e->forgotten)
		cbx_cli_say(
			"%llu cells are not in this export: they are not kept any more, since newer ones needed the "
			"memory (limits.history of the policy)",
			(unsigned long long)e->forgotten);
	return e->format == NOTEBOOK ? cbx_outputs_write(e->notebook, e->output, err)
				     : cbx_outputs_write_text(&e->text, e->output, err);
}

int cbx_export(struct cbx_client *client, int argc, char **argv)
{
	struct export e = { 0 };
	int status = parse_options(argc, argv, &e);
	struct cbx_err err;

	if (!status && !client)
		status = cbx_cli_no_session(e.session);
	else if (!status && export(&e, client, &err) < 0)
		status = cbx_cli_fail(&err);
	cJSON_Delete(e.notebook);
	cbx_buf_release(&e.text);
	return status;
}
