/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/follow.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/transcript.h"

/* ---- a cell ---- */

void cbx_log_display(struct cbx_log *l, const cJSON *v, const cJSON *count)
{
	const cJSON *data = cbx_json_member(v, "data"), *form;
	_cleanup_buf_ struct cbx_buf made = { 0 };
	const char *text = cbx_display_text(data, &made);
	char prompt[40];

	cbx_term_fresh_line(l->out);
	cJSON_ArrayForEach(form, data) {
		if (!cbx_starts_with(form->string, "image/") && strcmp(form->string, "application/pdf") != 0)
			continue;
		cbx_term_puts(l->out, "[");
		cbx_term_puts(l->out, form->string);
		cbx_term_puts(l->out, "]\n");
	}
	if (text[0] && cJSON_IsTrue(cbx_json_member(v, "is_result"))) {
		snprintf(prompt, sizeof(prompt), count ? "Out[%.0f]: " : "Out: ", count ? count->valuedouble : 0);
		cbx_term_puts(l->out, prompt);
		if (strchr(text, '\n'))
			cbx_term_puts(l->out, "\n");
	}
	cbx_term_puts(l->out, text);
	cbx_term_fresh_line(l->out);
}

void cbx_log_begin(struct cbx_log *l, const cJSON *cell)
{
	const cJSON *count = cbx_json_member(cell, "execution_count"), *v;
	_cleanup_free_ char *source = cbx_transcript_source(cell),
			    *text = cbx_transcript_marked(cell, source, l->language);
	_cleanup_buf_ struct cbx_buf out = { 0 };

	cbx_transcript_prompt(&out, cell, text);
	cbx_term_write(l->out, out.data, out.len);
	cJSON_ArrayForEach(v, cbx_json_member(cell, "outputs")) {
		if (cbx_json_text(v, "stream"))
			cbx_term_puts(l->out, cbx_json_str(v, "text"));
		else
			cbx_log_display(l, v, count);
	}
}

void cbx_log_end(struct cbx_log *l, const cJSON *cell)
{
	const cJSON *error = cbx_json_member(cell, "error");
	const char *message = cbx_json_str(cell, "message"), *traceback = cbx_json_str(error, "traceback");

	cbx_term_flush(l->out);
	cbx_term_fresh_line(l->out);
	cbx_term_puts(l->out, traceback[0] ? traceback : cbx_json_str(error, "value"));
	cbx_term_fresh_line(l->out);
	if (message[0]) {
		cbx_term_puts(l->out, "[");
		cbx_term_puts(l->out, message);
		cbx_term_puts(l->out, "]\n");
	}
	cbx_term_puts(l->out, "\n");
	cbx_term_flush(l->out);
}

/* ---- those that have ended ---- */

cJSON *cbx_log_params(const struct cbx_log *l, uint64_t id)
{
	cJSON *params = cbx_json_new_obj();

	cbx_json_set_str(params, "session_id", l->session);
	if (id)
		cbx_json_set_u64(params, "execution_id", id);
	return params;
}

/* A prompt begins with a cell of no code. */
static bool is_nothing(const cJSON *cell)
{
	return !cbx_json_str(cell, "code")[0] && !cbx_json_member(cell, "outputs")->child;
}

/* Of the cells of a page those before the one that has not ended: printed, or, of a tail, kept until all are known. */
static void take_page(struct cbx_log *l, cJSON *page, uint64_t next, cJSON *kept)
{
	cJSON *cells = cbx_json_member(page, "cells"), *cell;

	while ((cell = cJSON_DetachItemFromArray(cells, 0))) {
		uint64_t id = (uint64_t)cbx_json_number(cell, "execution_id", 0);
		bool due = !next || id < next;

		if (due && l->tail) {
			cJSON_AddItemToArray(kept, take_ptr(&cell));
			if ((uint64_t)cJSON_GetArraySize(kept) > l->last)
				cJSON_DeleteItemFromArray(kept, 0);
		} else if (due && !is_nothing(cell)) {
			cbx_log_begin(l, cell);
			cbx_log_end(l, cell);
		}
		if (due)
			l->after = id;
		cJSON_Delete(cell);
	}
}

/* All that has ended since. *next: the cell that runs or waits, or 0. */
int cbx_log_ended(struct cbx_log *l, uint64_t *next, struct cbx_err *err)
{
	_cleanup_json_ cJSON *kept = cbx_json_new_arr();
	const cJSON *cell;
	bool more = true;

	while (more && !l->out->failed) {
		_cleanup_json_ cJSON *page = NULL;
		uint64_t before = l->after;
		int r = cbx_client_call(l->client, "session.history", cbx_log_params(l, l->after), &page, err);

		if (r < 0)
			return r;
		l->found = true;
		snprintf(l->language, sizeof(l->language), "%s", cbx_json_str(page, "language"));
		*next = (uint64_t)cbx_json_number(page, "next", 0);
		more = cJSON_IsTrue(cbx_json_member(page, "more"));
		take_page(l, page, *next, kept);
		more = more && l->after > before;
	}
	cJSON_ArrayForEach(cell, kept) {
		cbx_log_begin(l, cell);
		cbx_log_end(l, cell);
	}
	l->tail = false;
	return 0;
}
