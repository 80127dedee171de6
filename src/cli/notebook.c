/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the notebook is kept as the tree that it was read as, so that what is not known here stays as it
 * is. What a cell prints and shows comes as events, in order, and becomes its outputs (outputs.c).
 */
#include "cli/notebook.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "cli/mountask.h"
#include "cli/outputs.h"

#define VALUES_MAX 4000000

bool cbx_notebook_is(const char *file)
{
	return cbx_ends_with(file, ".ipynb");
}

/* ---- reading ---- */

static int check_cell(const cJSON *c, int n, struct cbx_err *err)
{
	const cJSON *source = cbx_json_member(c, "source"), *line;
	bool ok =
		cJSON_IsObject(c) && cbx_json_text(c, "cell_type") && (cJSON_IsString(source) || cJSON_IsArray(source));

	if (cJSON_IsArray(source))
		cJSON_ArrayForEach(line, source)
			ok = ok && cJSON_IsString(line);
	return ok ? 0
		  : cbx_refuse(err, "invalid_argument", EINVAL,
			       "cell %d is not one of nbformat 4; give it a cell_type and a source", n);
}

static int check(const cJSON *root, struct cbx_err *err)
{
	const cJSON *cells = cbx_json_member(root, "cells"), *c;
	int n = 0, r = 0;

	if (cbx_json_number(root, "nbformat", 0) != 4 || !cJSON_IsArray(cells))
		return cbx_refuse(
			err, "invalid_argument", EINVAL,
			"it is not a notebook of nbformat 4; \"jupyter nbconvert --to notebook\" converts one");
	cJSON_ArrayForEach(c, cells)
		if (r >= 0)
			r = check_cell(c, ++n, err);
	return r;
}

int cbx_notebook_read(struct cbx_notebook *nb, struct cbx_err *err)
{
	_cleanup_fd_ int fd = open(nb->file, O_RDONLY | O_CLOEXEC);
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	_cleanup_buf_ struct cbx_buf text = { 0 };
	int r = fd < 0 ? -errno : cbx_read_whole(fd, CBX_NOTEBOOK_MAX, &text);

	if (r == -EFBIG)
		cbx_refuse(err, "invalid_argument", EFBIG,
			   "it is larger than the limit of %zu MiB; remove outputs: jupyter nbconvert --clear-output",
			   CBX_NOTEBOOK_MAX >> 20);
	else if (r < 0)
		cbx_fail(err, -r, "read");
	else if ((r = cbx_json_parse_most(cbx_buf_str(&text), text.len, VALUES_MAX, &doc, err)) >= 0)
		r = check(doc.root, err);
	if (r < 0) {
		cbx_wrap(err, "%s", nb->file);
		return r;
	}
	nb->root = take_ptr(&doc.root);
	return 0;
}

static char *source_of(const cJSON *c)
{
	const cJSON *source = cbx_json_member(c, "source"), *line;
	struct cbx_buf text = { 0 };

	if (cJSON_IsString(source))
		return cbx_xstrdup(source->valuestring);
	cJSON_ArrayForEach(line, source)
		cbx_buf_adds(&text, line->valuestring);
	return text.len ? cbx_buf_steal(&text) : cbx_xstrdup("");
}

static void on_event(void *arg, const cJSON *msg)
{
	const char *event = cbx_json_str(msg, "event");

	if (strcmp(event, "display") == 0)
		cbx_outputs_show(arg, msg);
	else if (strcmp(event, "output") == 0)
		cbx_outputs_print(arg, cbx_json_str(msg, "stream"), cbx_json_str(msg, "text"));
	else if (strcmp(event, "clear") == 0)
		cbx_outputs_clear(arg);
}

/* ---- running ---- */

static const char *language_of(const struct cbx_notebook *nb)
{
	const cJSON *metadata = cbx_json_member(nb->root, "metadata");
	const char *kernel = cbx_json_text(cbx_json_member(metadata, "kernelspec"), "language");
	const char *info = cbx_json_text(cbx_json_member(metadata, "language_info"), "name");

	return nb->language ? nb->language : kernel && kernel[0] ? kernel : info && info[0] ? info : NULL;
}

/* The first cell makes the session, the others are its own. */
static cJSON *params_of(const struct cbx_notebook *nb, const struct cbx_cell *cell, const char *source)
{
	cJSON *params = cbx_json_new_obj();

	cbx_json_set_str(params, "language", cbx_cli_cell_language(language_of(nb), source));
	if (cell->session[0]) {
		cbx_json_set_str(params, "session_id", cell->session);
	} else {
		cbx_cli_spec_json(nb->spec, params);
		if (nb->spec->session)
			cbx_json_set_bool(params, "create", true);
	}
	if (nb->spec->timeout)
		cbx_json_set_str(params, "timeout", nb->spec->timeout);
	else
		cbx_json_set_bool(params, "unlimited", true);
	return params;
}

/* The exit status of the cell, or < 0. */
static int run_cell(struct cbx_notebook *nb, struct cbx_cell *cell, cJSON *c, int n, struct cbx_err *err)
{
	_cleanup_free_ char *source = source_of(c);
	struct cbx_outputs o = { .cells = cbx_json_member(nb->root, "cells") };
	_cleanup_json_ cJSON *x = NULL;
	int r;

	if (!source[strspn(source, " \t\r\n")])
		return 0;
	cell->on_event = nb->output ? on_event : NULL;
	cell->arg = &o;
	do
		r = cbx_cell_run(cell, source, params_of(nb, cell, source), &x, err);
	while (r < 0 && !cell->session[0] && cbx_mount_ask(nb->spec->mounts, cell->sigfd, err));
	if (r >= 0) {
		if (nb->output)
			cbx_outputs_finish(&o, c, x);
		r = cbx_cell_exit_status(x);
		if (r > 0)
			cbx_cli_say("%s: cell %d failed", nb->file, n);
		if (r > 0 || !nb->output)
			cbx_cell_explain(cell, x);
	}
	cbx_outputs_release(&o);
	return r;
}

int cbx_notebook_run(struct cbx_notebook *nb, struct cbx_cell *cell, struct cbx_err *err)
{
	int n = 0, status = 0;
	cJSON *c;

	cJSON_ArrayForEach(c, cbx_json_member(nb->root, "cells")) {
		int r = 0;

		n++;
		if (strcmp(cbx_json_str(c, "cell_type"), "code") == 0)
			r = run_cell(nb, cell, c, n, err);
		if (r < 0)
			return r;
		if (r > 0 && !status)
			status = r;
		if (r > 0 && !nb->allow_errors)
			break;
	}
	if (nb->output && cbx_outputs_write(nb->root, nb->output, err) < 0)
		return -err->code;
	return nb->allow_errors ? 0 : status;
}

void cbx_notebook_release(struct cbx_notebook *nb)
{
	cJSON_Delete(nb->root);
	nb->root = NULL;
}
