/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: what the protocols show of executions is made here, once, so that all of them say the same. Texts
 * come from a sandbox; every string passes cbx_json_set_str(), which makes it valid UTF-8.
 */
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/limits.h"
#include "execution/internal.h"
#include "execution/spill.h"
#include "interp/bundle.h"

static void set_text(cJSON *o, const char *key, const struct cbx_execution *x, enum cbx_stream stream)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };

	cbx_output_text(&x->output, stream, x->spill ? cbx_spill_where(x->spill) : NULL, &text);
	cbx_json_set_strn(o, key, cbx_buf_str(&text), text.len);
}

/* Where in "output" each display was made. */
static void set_places(cJSON *o, const struct cbx_execution *x)
{
	uint64_t at[CBX_DISPLAYS_MAX];
	const cJSON *bundle;
	size_t n = 0;
	cJSON *list;

	cJSON_ArrayForEach (bundle, x->displays)
		if (n < CBX_DISPLAYS_MAX)
			at[n++] = cbx_bundle_place(bundle);
	if (n == 0)
		return;
	cbx_output_places(&x->output, x->spill ? cbx_spill_where(x->spill) : NULL, at, n);
	list = cbx_json_new_arr();
	for (size_t i = 0; i < n; i++)
		cbx_json_push(list, cJSON_CreateNumber((double)at[i])); /* below 2^18 */
	cbx_json_set(o, "display_places", list);
}

static void set_message(cJSON *o, const struct cbx_execution *x)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	struct cbx_err lost;

	cbx_buf_add(&text, cbx_buf_str(&x->note), x->note.len);
	cbx_buf_add(&text, cbx_buf_str(&x->message), x->message.len);
	while (text.len && text.data[text.len - 1] == ' ') /* notes are sentences with a space for what comes next */
		text.data[--text.len] = '\0';
	if (x->displays_dropped)
		cbx_buf_addf(&text, "%s%llu displays were omitted: a cell may show %d of them, and %zu MiB altogether.",
			     text.len ? " " : "", (unsigned long long)x->displays_dropped, CBX_DISPLAYS_MAX,
			     CBX_DISPLAY_BYTES_MAX >> 20);
	if (x->displays_invalid)
		cbx_buf_addf(&text,
			     "%s%llu parts of displays were omitted: their data was not of the type they were given.",
			     text.len ? " " : "", (unsigned long long)x->displays_invalid);
	if (cbx_execution_lost(x, &lost) < 0)
		cbx_buf_addf(&text, "%s%s", text.len ? " " : "", lost.msg);
	if (x->files_unknown)
		cbx_buf_addf(&text, "%sNot all files that the cell changed could be found in time.",
			     text.len ? " " : "");
	if (text.len)
		cbx_json_set_strn(o, "message", text.data, text.len);
}

/* Only what there is: {"mime","bytes","is_result"} for each member of each bundle. */
static cJSON *display_summary(const struct cbx_execution *x)
{
	cJSON *list = cbx_json_new_arr();
	const cJSON *bundle, *v;

	cJSON_ArrayForEach (bundle, x->displays) {
		cJSON_ArrayForEach (v, cbx_json_member(bundle, "data")) {
			cJSON *o = cbx_json_new_obj();
			size_t n = v->valuestring ? strlen(v->valuestring) : 0;

			if (n && cbx_mime_binary(v->string))
				n = n / 4 * 3 - (v->valuestring[n - 1] == '=') - (v->valuestring[n - 2] == '=');
			cbx_json_set_str(o, "mime", v->string);
			cbx_json_set_u64(o, "bytes", n);
			cbx_json_set_bool(o, "is_result",
					  cJSON_IsTrue(cbx_json_member(bundle, "is_result")));
			cbx_json_push(list, o);
		}
	}
	return list;
}

static void set_omitted(cJSON *o, const struct cbx_execution *x)
{
	uint64_t omitted = cbx_output_omitted(&x->output);
	cJSON *v;

	if (!omitted)
		return;
	v = cbx_json_new_obj();
	cbx_json_set_u64(v, "bytes", omitted);
	if (x->spill) {
		cbx_json_set_str(v, "file", cbx_spill_path(x->spill));
		cbx_json_set_str(v, "where", cbx_spill_where(x->spill));
	}
	cbx_json_set(o, "omitted", v);
}

static void set_usage(cJSON *o, const struct cbx_cell_usage *u)
{
	cJSON *v;

	if (!u->source)
		return;
	v = cbx_json_new_obj();
	cbx_json_set_str(v, "source", u->source);
	cbx_json_set_thousandths(v, "cpu_ms", u->cpu_us);
	if (u->has_memory)
		cbx_json_set_u64(v, "memory_bytes", u->memory);
	if (u->peak) {
		cbx_json_set_u64(v, "memory_peak_bytes", u->peak);
		cbx_json_set_str(v, "memory_peak_of", u->peak_of);
	}
	if (u->has_io) {
		cbx_json_set_u64(v, "io_read_bytes", u->io_read);
		cbx_json_set_u64(v, "io_write_bytes", u->io_written);
	}
	cbx_json_set(o, "usage", v);
}

cJSON *cbx_execution_to_json(const struct cbx_execution *x, bool with_displays)
{
	cJSON *o = cbx_json_new_obj();
	uint64_t end = x->end_ms ? x->end_ms : cbx_now_ms();

	cbx_json_set_str(o, "session_id", x->cells->id);
	cbx_json_set_u64(o, "execution_id", x->id);
	cbx_json_set_str(o, "status", cbx_status_name(cbx_execution_status(x)));
	cbx_json_set_bool(o, "state_kept", x->state_kept);
	if (x->has_count)
		cbx_json_set_u64(o, "execution_count", x->count);
	if (x->has_exit_code)
		cbx_json_set_i64(o, "exit_code", x->exit_code);
	set_text(o, "stdout", x, CBX_STDOUT);
	set_text(o, "stderr", x, CBX_STDERR);
	set_text(o, "output", x, CBX_STREAMS);
	set_places(o, x);
	cbx_json_set_str(o, "result", x->result);
	if (x->error_name) {
		cJSON *e = cbx_json_new_obj();

		cbx_json_set_str(e, "name", x->error_name);
		cbx_json_set_str(e, "value", x->error_value);
		cbx_json_set_str(e, "traceback", x->error_traceback);
		cbx_json_set(o, "error", e);
	}
	set_message(o, x);
	cbx_json_set(o, "displays", with_displays ? cJSON_Duplicate(x->displays, 1) : display_summary(x));
	set_omitted(o, x);
	cbx_json_set_u64(o, "duration_ms", x->start_ms ? end - x->start_ms : 0);
	set_usage(o, &x->usage);
	cbx_json_set(o, "files", x->files ? cJSON_Duplicate(x->files, 1) : cbx_json_new_arr());
	if (x->files_omitted)
		cbx_json_set_u64(o, "files_omitted", x->files_omitted);
	if (x->unread)
		cbx_json_set_u64(o, "input_unread", x->unread);
	return o;
}
