/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: stretches of one stream become one output. Texts are lists of lines, as Jupyter writes them, so
 * that a difference between two versions is readable. By which id something was shown stands with it until the notebook
 * is written, so that later cells can update it.
 */
#include "cli/outputs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "cli/cli.h"
#include "cli/term.h"

#define SHOWN_AS "codebox:display_id"

cJSON *cbx_outputs_lines(const char *text, bool ends)
{
	cJSON *list = cbx_json_new_arr();

	while (*text) {
		size_t n = strcspn(text, "\n"), nl = text[n] == '\n';
		_cleanup_free_ char *line = cbx_xasprintf("%.*s", (int)(n + (ends ? nl : 0)), text);

		cbx_json_push_str(list, line);
		text += n + nl;
	}
	return list;
}

static cJSON *add_output(struct cbx_outputs *o, const char *type)
{
	cJSON *output = cbx_json_new_obj();

	if (!o->list)
		o->list = cbx_json_new_arr();
	cbx_json_set_str(output, "output_type", type);
	cbx_json_push(o->list, output);
	return output;
}

static void end_stream(struct cbx_outputs *o)
{
	cJSON *output;

	if (!o->text.len)
		return;
	output = add_output(o, "stream");
	cbx_json_set_str(output, "name", o->stream);
	cbx_json_set(output, "text", cbx_outputs_lines(cbx_buf_str(&o->text), true));
	o->text.len = 0;
}

static cJSON *data_of(const cJSON *data)
{
	cJSON *copy = cbx_json_new_obj();
	const cJSON *v;

	cJSON_ArrayForEach(v, data) {
		bool text = cJSON_IsString(v) && (cbx_starts_with(v->string, "text/") || strstr(v->string, "svg") ||
						  strstr(v->string, "javascript"));

		cbx_json_set(copy, v->string, text ? cbx_outputs_lines(v->valuestring, true) : cJSON_Duplicate(v, 1));
	}
	return copy;
}

/* Those of a list that were shown under this id are shown anew; how many. */
static size_t update(cJSON *list, const char *id, const cJSON *data, const cJSON *metadata)
{
	cJSON *output;
	size_t n = 0;

	cJSON_ArrayForEach(output, list) {
		if (strcmp(cbx_json_str(output, SHOWN_AS), id) != 0)
			continue;
		cJSON_ReplaceItemInObjectCaseSensitive(output, "data", data_of(data));
		cJSON_ReplaceItemInObjectCaseSensitive(output, "metadata", cJSON_Duplicate(metadata, 1));
		n++;
	}
	return n;
}

/* Also where earlier cells have shown it. */
static size_t update_all(struct cbx_outputs *o, const char *id, const cJSON *data, const cJSON *metadata)
{
	size_t n = update(o->list, id, data, metadata);
	const cJSON *c;

	cJSON_ArrayForEach(c, o->cells)
		n += update(cbx_json_member(c, "outputs"), id, data, metadata);
	return n;
}

void cbx_outputs_show(struct cbx_outputs *o, const cJSON *msg)
{
	const cJSON *data = cbx_json_member(msg, "data");
	_cleanup_json_ cJSON *metadata = cJSON_Duplicate(cbx_json_member(msg, "metadata"), 1);
	const char *id = cbx_json_text(msg, "display_id");
	bool is_result = cJSON_IsTrue(cbx_json_member(msg, "is_result")), is_update;
	cJSON *output;

	if (!metadata)
		metadata = cbx_json_new_obj();
	cJSON_DeleteItemFromObjectCaseSensitive(metadata, "display_id");
	is_update = cbx_json_member(metadata, "update");
	cJSON_DeleteItemFromObjectCaseSensitive(metadata, "update");
	if (id && is_update && update_all(o, id, data, metadata))
		return;
	end_stream(o);
	output = add_output(o, is_result ? "execute_result" : "display_data");
	cbx_json_set(output, "data", data_of(data));
	cbx_json_set(output, "metadata", take_ptr(&metadata));
	cbx_json_set_str(output, SHOWN_AS, id);
}

void cbx_outputs_print(struct cbx_outputs *o, const char *stream, const char *text)
{
	if (strcmp(o->stream, stream) != 0)
		end_stream(o);
	snprintf(o->stream, sizeof(o->stream), "%s", stream);
	cbx_buf_adds(&o->text, text);
}

void cbx_outputs_clear(struct cbx_outputs *o)
{
	o->text.len = 0;
	cJSON_Delete(take_ptr(&o->list));
}

static void add_error(struct cbx_outputs *o, const cJSON *x)
{
	const cJSON *error = cbx_json_member(x, "error");
	const char *status = cbx_json_str(x, "status"), *message = cbx_json_str(x, "message");
	cJSON *output;

	if (!cJSON_IsObject(error) && strcmp(status, "ok") == 0)
		return;
	output = add_output(o, "error");
	cbx_json_set_str(output, "ename", cJSON_IsObject(error) ? cbx_json_str(error, "name") : status);
	cbx_json_set_str(output, "evalue", cJSON_IsObject(error) ? cbx_json_str(error, "value") : message);
	cbx_json_set(output, "traceback",
		     cbx_outputs_lines(cJSON_IsObject(error) ? cbx_json_str(error, "traceback") : message, false));
}

/* What the cell did, into the notebook. */
void cbx_outputs_finish(struct cbx_outputs *o, cJSON *c, const cJSON *x)
{
	const cJSON *count = cbx_json_member(x, "execution_count");
	cJSON *output;

	end_stream(o);
	add_error(o, x);
	cJSON_ArrayForEach(output, o->list)
		if (strcmp(cbx_json_str(output, "output_type"), "execute_result") == 0)
			cbx_json_set(output, "execution_count", count ? cJSON_Duplicate(count, 1) : cJSON_CreateNull());
	cJSON_DeleteItemFromObjectCaseSensitive(c, "outputs");
	cJSON_DeleteItemFromObjectCaseSensitive(c, "execution_count");
	cbx_json_set(c, "execution_count", count ? cJSON_Duplicate(count, 1) : cJSON_CreateNull());
	cbx_json_set(c, "outputs", o->list ? take_ptr(&o->list) : cbx_json_new_arr());
}

int cbx_outputs_write_text(const struct cbx_buf *text, const char *where, struct cbx_err *err)
{
	_cleanup_free_ char *real = where ? realpath(where, NULL) : NULL, *new = NULL;
	const char *to = real ? real : where;
	_cleanup_fd_ int fd = -1;
	struct cbx_term out;
	struct stat st;
	bool there = to && stat(to, &st) == 0;
	int r;

	if (!to) {
		cbx_term_init(&out, STDOUT_FILENO);
		cbx_term_write(&out, cbx_buf_str(text), text->len);
		cbx_term_flush(&out);
		return out.failed ? cbx_fail(err, out.error, "write standard output") : 0;
	}
	if (there && !S_ISREG(st.st_mode))
		return cbx_refuse(err, "invalid_argument", EINVAL, "%s: not a regular file; choose another name", to);
	new = cbx_xasprintf("%s.%d.new", to, (int)getpid());
	fd = open(new, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, there ? st.st_mode & 0777 : 0666);
	if (fd < 0)
		return cbx_fail(err, errno, "make %s", new);
	r = cbx_write_all(fd, cbx_buf_str(text), text->len);
	if (r >= 0)
		r = fsync(fd) < 0 || rename(new, to) < 0 ? -errno : 0;
	if (r >= 0)
		return 0;
	unlink(new);
	return cbx_fail(err, -r, "write %s", to);
}

int cbx_outputs_write(cJSON *notebook, const char *to, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	cJSON *c, *output;

	cJSON_ArrayForEach(c, cbx_json_member(notebook, "cells"))
		cJSON_ArrayForEach(output, cbx_json_member(c, "outputs"))
			cJSON_DeleteItemFromObjectCaseSensitive(output, SHOWN_AS);
	cbx_json_print_indented(&text, notebook, 1);
	cbx_buf_addc(&text, '\n');
	return cbx_outputs_write_text(&text, to, err);
}

void cbx_outputs_release(struct cbx_outputs *o)
{
	cJSON_Delete(o->list);
	cbx_buf_release(&o->text);
}
