/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: an ended execution becomes a text block, as much like a screen as possible, then images, and the
 * same as structured content. Everything in it came from a sandbox: each part is cut to a size of its own, base64 and
 * the first bytes of an image are checked before a client is asked to decode it, and the whole is printed to see how
 * long it is. When that is too long, images are taken out first, then the texts are halved, until it fits.
 *
 * What is left out is always named in the text, with type and size: some clients never show images to their model.
 */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "mcp/internal.h"

#define NAME_CHARS 200
#define MESSAGE_CHARS 2000
#define FILES_SHOWN 20 /* as content; structured content has all that the engine lists */

struct render {
	const cJSON *x;        /* cbx_execution_to_json() */
	const cJSON *displays;
	const struct cbx_mcp_image *written; /* image files */
	size_t nwritten;
	size_t text_max, value_max, image_max; /* characters, characters, bytes of base64 */
	size_t files_max;		       /* files that are listed */
	size_t value_left, image_used;
	uint64_t files_left; /* not listed at all */
	struct cbx_buf text;
	cJSON *content, *images, *files;
};

static const char *text_or_empty(const cJSON *obj, const char *key)
{
	const char *s = cbx_mcp_str_of(obj, key);

	return s ? s : "";
}

/* ---- text ---- */

static void new_line(struct cbx_buf *b)
{
	if (b->len && b->data[b->len - 1] != '\n')
		cbx_buf_addc(b, '\n');
}

/* A value, within what is left for values. */
static void add_value(struct render *r, const char *s)
{
	size_t from;

	new_line(&r->text);
	from = r->text.len;
	cbx_mcp_cut(&r->text, s, r->value_left, 0, NULL);
	from = r->text.len - from;
	r->value_left -= from < r->value_left ? from : r->value_left;
}

static void add_fact(struct render *r, const char *mime, uint64_t bytes, const char *more)
{
	_cleanup_free_ char *line = NULL;
	char size[32];

	if (r->value_left < 16)
		return;
	cbx_format_size(bytes, size);
	line = cbx_xasprintf("[%.80s, %s%s]", mime, size, more);
	add_value(r, line);
}

/* ---- images ---- */

bool cbx_mcp_image_sound(const char *mime, const struct cbx_buf *b)
{
	const char *p = b->data;

	if (b->len < 12)
		return false;
	if (strcmp(mime, "image/png") == 0)
		return memcmp(p, "\x89PNG\r\n\x1a\n", 8) == 0;
	if (strcmp(mime, "image/jpeg") == 0)
		return memcmp(p, "\xff\xd8\xff", 3) == 0;
	if (strcmp(mime, "image/gif") == 0)
		return memcmp(p, "GIF8", 4) == 0;
	return memcmp(p, "RIFF", 4) == 0 && memcmp(p + 8, "WEBP", 4) == 0;
}

bool cbx_mcp_image_sendable(const char *mime)
{
	return strcmp(mime, "image/png") == 0 || strcmp(mime, "image/jpeg") == 0 || strcmp(mime, "image/gif") == 0 ||
	       strcmp(mime, "image/webp") == 0;
}

/* base64 as encoders wrap it, on one line. */
static void unwrap(struct cbx_buf *out, const char *s)
{
	for (size_t n; *s; s += n + strspn(s + n, " \t\r\n")) {
		n = strcspn(s, " \t\r\n");
		cbx_buf_add(out, s, n);
	}
}

static void png_size(const char *mime, const struct cbx_buf *b, char *out, size_t n)
{
	const unsigned char *p = (const unsigned char *)b->data;

	if (strcmp(mime, "image/png") == 0 && b->len >= 24)
		snprintf(out, n, ", %u x %u pixels",
			 (unsigned)p[16] << 24 | (unsigned)p[17] << 16 | (unsigned)p[18] << 8 | p[19],
			 (unsigned)p[20] << 24 | (unsigned)p[21] << 16 | (unsigned)p[22] << 8 | p[23]);
}

/* An image block when it is sound and there is room for it; its facts in any case. */
static void add_image(struct render *r, const char *mime, const char *data)
{
	_cleanup_buf_ struct cbx_buf b64 = { 0 };
	_cleanup_buf_ struct cbx_buf bytes = { 0 };
	size_t len = strlen(data);
	char more[96] = "";
	bool sent = false;
	cJSON *image;

	if (len > r->image_max - r->image_used) {
		snprintf(more, sizeof(more), ": too large to send; save it to a file, or make it smaller");
	} else {
		unwrap(&b64, data);
		len = b64.len;
		if (cbx_base64_decode(&bytes, cbx_buf_str(&b64), len) < 0 || !cbx_mcp_image_sound(mime, &bytes)) {
			snprintf(more, sizeof(more), ": damaged, not sent");
		} else {
			cbx_mcp_add_image(r->content, mime, b64.data);
			r->image_used += len;
			sent = true;
			png_size(mime, &bytes, more, sizeof(more));
		}
	}
	add_fact(r, mime, bytes.len ? bytes.len : len / 4 * 3, more);
	image = cbx_json_new_obj();
	cbx_json_set_str(image, "mime_type", mime);
	cbx_json_set_u64(image, "bytes", bytes.len ? bytes.len : len / 4 * 3);
	cbx_json_set_bool(image, "sent", sent);
	cbx_json_push(r->images, image);
}

/* ---- MIME bundles ---- */

static bool placeholder(const char *plain)
{
	return cbx_starts_with(plain, "<IPython.core.display") || cbx_starts_with(plain, "<Figure size ");
}

/* The best text of a bundle; NULL: none. A placeholder such as <Figure …> says nothing beside the image itself. */
static const char *best_text(const cJSON *data, bool has_image)
{
	const char *plain = cbx_mcp_str_of(data, "text/plain"), *other = cbx_mcp_str_of(data, "text/markdown");
	const cJSON *json = cJSON_GetObjectItemCaseSensitive(data, "application/json");

	if (other)
		return other;
	if (plain && !placeholder(plain))
		return plain;
	if ((other = cbx_mcp_str_of(data, "text/latex")))
		return other;
	if (plain)
		return has_image ? NULL : plain;
	if ((other = cbx_mcp_str_of(data, "text/html")))
		return other;
	if (cJSON_IsString(json) || (cJSON_IsRaw(json) && strchr("{[", json->valuestring[0])))
		return json->valuestring;
	return NULL;
}

/*
 * The image of a bundle that is sent: its first, or when there is no room for that, another that fits: interpreters
 * send a smaller copy along with a large one. *ret_whole is the one that was passed over for it, or NULL.
 */
static const char *choose_image(const struct render *r, const cJSON *data, const cJSON **ret_whole)
{
	const cJSON *v, *first = NULL;

	*ret_whole = NULL;
	cJSON_ArrayForEach(v, data) {
		if (!cJSON_IsString(v) || !cbx_mcp_image_sendable(v->string))
			continue;
		if (strlen(v->valuestring) <= r->image_max - r->image_used) {
			*ret_whole = first;
			return v->string;
		}
		if (!first)
			first = v;
	}
	return first ? first->string : NULL;
}

static void add_bundle(struct render *r, const cJSON *display, bool is_result)
{
	const cJSON *data = cJSON_GetObjectItemCaseSensitive(display, "data"), *v, *whole;
	const char *image = choose_image(r, data, &whole), *text;

	text = best_text(data, image);
	if (text && (is_result || !image || !placeholder(text)))
		add_value(r, text);
	if (whole)
		add_fact(r, whole->string, strlen(whole->valuestring) / 4 * 3,
			 ": too large to send, a smaller copy is sent instead; save it to a file to keep the whole");
	if (image)
		add_image(r, image, cbx_mcp_str_of(data, image));
	cJSON_ArrayForEach(v, data) {
		if (!cJSON_IsString(v) || cbx_mcp_image_sendable(v->string))
			continue;
		if (!cbx_starts_with(v->string, "image/") && strcmp(v->string, "application/pdf") != 0 &&
		    !cbx_starts_with(v->string, "audio/") && !cbx_starts_with(v->string, "video/"))
			continue;
		if (!image)
			add_fact(r, v->string, strlen(v->valuestring),
				 ": not sent in this form; save it to a file to use it");
	}
}

/* ---- files ---- */

/* As an image block; false: no room, or it is not what its name says. */
static bool add_written(struct render *r, const char *path)
{
	for (size_t i = 0; i < r->nwritten; i++) {
		const struct cbx_mcp_image *m = &r->written[i];
		_cleanup_buf_ struct cbx_buf b64 = { 0 };

		if (strcmp(m->path, path) != 0 || m->bytes.len != m->size || !cbx_mcp_image_sound(m->mime, &m->bytes))
			continue;
		cbx_base64_encode(&b64, m->bytes.data, m->bytes.len);
		if (b64.len > r->image_max - r->image_used)
			continue;
		cbx_mcp_add_image(r->content, m->mime, b64.data);
		r->image_used += b64.len;
		return true;
	}
	return false;
}

static void add_link(struct render *r, const cJSON *file, const char *path)
{
	const char *slash = strrchr(path, '/');
	cJSON *block = cbx_mcp_add_block(r->content, "resource_link");

	cbx_json_set_str(block, "uri", cbx_mcp_str_of(file, "uri"));
	cbx_json_set_str(block, "name", slash ? slash + 1 : path);
	cbx_json_set_str(block, "description", path);
	cbx_json_set_str(block, "mimeType", cbx_mcp_str_of(file, "mime_type"));
	cbx_json_set_u64(block, "size", cbx_mcp_num_of(file, "size"));
}

/* What the cell changed: the first few by name in the text, and as blocks; all in r->files. */
static void add_files(struct render *r, const struct cbx_mcp_call *call)
{
	uint64_t more = cbx_mcp_num_of(r->x, "files_omitted");
	size_t listed = 0;
	const cJSON *f;

	cJSON_ArrayForEach(f, cJSON_GetObjectItemCaseSensitive(r->x, "files")) {
		const char *path = text_or_empty(f, "path"), *mime = text_or_empty(f, "mime_type");
		char size[32];
		cJSON *copy;

		if (listed == r->files_max) {
			more++;
			continue;
		}
		copy = cJSON_Duplicate(f, 1);
		cbx_json_set_bool(copy, "sent", add_written(r, path));
		cbx_json_push(r->files, copy);
		if (listed++ >= FILES_SHOWN)
			continue;
		if (!cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(copy, "sent")) && call->rev->structured)
			add_link(r, f, path);
		new_line(&r->text);
		cbx_format_size(cbx_mcp_num_of(f, "size"), size);
		cbx_buf_adds(&r->text, "[file written: ");
		cbx_mcp_clean_name(&r->text, path);
		cbx_buf_addf(&r->text, ", %s, %s]", size, mime);
	}
	if (listed > FILES_SHOWN || more) {
		new_line(&r->text);
		cbx_buf_addf(&r->text, "[and %llu more files; list_files shows them]",
			     (unsigned long long)(more + listed - (listed > FILES_SHOWN ? FILES_SHOWN : listed)));
	}
	r->files_left = more;
}

/* ---- the whole ---- */

static const char running[] = "The cell is still running. Call get_execution with this execution_id (and wait) to "
			      "see how it goes on, or interrupt to stop it.";

static const char queued[] = "The cell has not started yet: the cells of a session run one after another. Call "
			     "get_execution with this execution_id (and wait) to see how it goes on, or interrupt to "
			     "drop it.";

/* A cell that waits for its turn is on its way, too. */
static bool is_running(const cJSON *x)
{
	const char *status = text_or_empty(x, "status");

	return strcmp(status, "running") == 0 || strcmp(status, "queued") == 0;
}

static const char *where_it_is(const cJSON *x)
{
	return strcmp(text_or_empty(x, "status"), "queued") == 0 ? queued : running;
}

static void build_text(struct render *r, const struct cbx_mcp_call *call)
{
	_cleanup_buf_ struct cbx_buf screen = { 0 };
	const cJSON *omitted = cJSON_GetObjectItemCaseSensitive(r->x, "omitted");
	const cJSON *error = cJSON_GetObjectItemCaseSensitive(r->x, "error"), *d;
	const char *traceback = cbx_mcp_str_of(error, "traceback");
	const char *message = cbx_mcp_str_of(r->x, "message");

	if (call->notice)
		cbx_buf_addf(&r->text, "[%s]\n", call->notice);
	cbx_mcp_screen(&screen, text_or_empty(r->x, "output"));
	if (cbx_mcp_cut(&r->text, cbx_buf_str(&screen), r->text_max, cbx_mcp_num_of(omitted, "bytes"),
			cbx_mcp_str_of(omitted, "where")) || omitted) {
		new_line(&r->text);
		cbx_buf_addf(&r->text,
			     "[get_execution with execution_id %llu and output_from 0 pages through it]\n",
			     (unsigned long long)call->execution_id);
	}
	r->value_left = r->value_max;
	cJSON_ArrayForEach(d, r->displays)
		if (!cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(d, "is_result")))
			add_bundle(r, d, false);
	cJSON_ArrayForEach(d, r->displays)
		if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(d, "is_result")))
			add_bundle(r, d, true);
	if (error) {
		new_line(&r->text);
		if (traceback && traceback[0]) {
			cbx_mcp_cut(&r->text, traceback, r->value_max, 0, NULL);
		} else {
			cbx_mcp_cut(&r->text, text_or_empty(error, "name"), NAME_CHARS, 0, NULL);
			cbx_buf_adds(&r->text, ": ");
			cbx_mcp_cut(&r->text, text_or_empty(error, "value"), r->value_max, 0, NULL);
		}
	}
	if (message) {
		new_line(&r->text);
		cbx_buf_addc(&r->text, '[');
		cbx_mcp_cut(&r->text, message, MESSAGE_CHARS, 0, NULL);
		cbx_buf_addc(&r->text, ']');
	}
	add_files(r, call);
	if (is_running(r->x)) {
		new_line(&r->text);
		cbx_buf_addf(&r->text, "[%s]", where_it_is(r->x));
	}
	while (r->text.len && r->text.data[r->text.len - 1] == '\n')
		r->text.data[--r->text.len] = '\0';
	if (!r->text.len)
		cbx_buf_adds(&r->text, "(no output)");
	if (is_running(r->x))
		cbx_buf_addf(&r->text, "\n[session_id: %s, execution_id: %llu]", call->session_id,
			     (unsigned long long)call->execution_id);
	else if (call->default_session)
		cbx_buf_addf(&r->text, "\n[session_id: %s]", call->session_id);
}

static size_t set_cut(cJSON *obj, const char *key, const char *value, size_t max, uint64_t before,
		      const char *where)
{
	_cleanup_buf_ struct cbx_buf b = { 0 };
	size_t gone;

	if (!value)
		return 0;
	gone = cbx_mcp_cut(&b, value, max, before, where);
	cbx_json_set_str(obj, key, cbx_buf_str(&b));
	return gone;
}

static void copy(cJSON *to, const cJSON *from, const char *key)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(from, key);

	if (v && !cJSON_IsNull(v))
		cbx_json_set(to, key, cJSON_Duplicate(v, 1));
}

static cJSON *build_structured(struct render *r, const struct cbx_mcp_call *call)
{
	static const char *const first[] = { "status", "session_id", "execution_id", "execution_count", NULL };
	static const char *const last[] = { "exit_code", "state_kept", "duration_ms", "usage", NULL };
	const cJSON *error = cJSON_GetObjectItemCaseSensitive(r->x, "error");
	const cJSON *omitted = cJSON_GetObjectItemCaseSensitive(r->x, "omitted");
	const char *out = text_or_empty(r->x, "stdout"), *errout = text_or_empty(r->x, "stderr");
	const char *where = cbx_mcp_str_of(omitted, "where");
	uint64_t gone = cbx_mcp_num_of(omitted, "bytes"), to_out, gone_here;
	cJSON *s = cbx_json_new_obj();

	for (size_t i = 0; first[i]; i++)
		copy(s, r->x, first[i]);
	if (is_running(r->x))
		cJSON_ReplaceItemInObjectCaseSensitive(s, "status", cJSON_CreateString("running"));
	/* What is missing already is counted with the longer of the two. */
	to_out = strlen(out) >= strlen(errout) ? gone : 0;
	gone_here = set_cut(s, "stdout", out, r->text_max, to_out, where);
	gone_here += set_cut(s, "stderr", errout, r->text_max, gone - to_out, where);
	set_cut(s, "result", cbx_mcp_str_of(r->x, "result"), r->value_max, 0, NULL);
	if (error) {
		cJSON *e = cbx_json_new_obj();

		set_cut(e, "name", text_or_empty(error, "name"), NAME_CHARS, 0, NULL);
		set_cut(e, "value", text_or_empty(error, "value"), r->value_max, 0, NULL);
		set_cut(e, "traceback", text_or_empty(error, "traceback"), r->value_max, 0, NULL);
		cbx_json_set(s, "error", e);
	}
	set_cut(s, "message", is_running(r->x) ? where_it_is(r->x) : cbx_mcp_str_of(r->x, "message"), MESSAGE_CHARS, 0,
		NULL);
	cbx_json_set_str(s, "notice", call->notice);
	for (size_t i = 0; last[i]; i++)
		copy(s, r->x, last[i]);
	if (gone + gone_here) {
		cJSON *o = cbx_json_new_obj();

		cbx_json_set_u64(o, "bytes", gone + gone_here);
		cbx_json_set_str(o, "file", cbx_mcp_str_of(omitted, "file"));
		cbx_json_set_str(o, "where", where);
		cbx_json_set(s, "omitted", o);
	}
	cbx_json_set(s, "images", r->images);
	cbx_json_set(s, "files", r->files);
	r->images = r->files = NULL;
	if (r->files_left)
		cbx_json_set_u64(s, "files_omitted", r->files_left);
	return s;
}

static void print_once(struct cbx_buf *out, struct render *r, const struct cbx_mcp_call *call)
{
	_cleanup_json_ cJSON *result = cbx_json_new_obj();
	const char *status = cbx_mcp_str_of(r->x, "status");
	cJSON *text;

	r->image_used = 0;
	r->text.len = 0;
	r->content = cbx_json_new_arr();
	r->images = cbx_json_new_arr();
	r->files = cbx_json_new_arr();
	text = cbx_mcp_add_block(r->content, "text");
	build_text(r, call);
	cbx_json_set_str(text, "text", cbx_buf_str(&r->text));
	cbx_json_set(result, "content", r->content);
	if (call->rev->structured) {
		cbx_json_set(result, "structuredContent", build_structured(r, call));
	} else {
		cJSON_Delete(r->images);
		cJSON_Delete(r->files);
		r->images = r->files = NULL;
	}
	cbx_json_set_bool(result, "isError", status && strcmp(status, "killed") == 0);
	out->len = 0;
	cbx_json_print(out, result);
}

void cbx_mcp_result_print(struct cbx_buf *out, const struct cbx_mcp_call *call, const cJSON *x, const cJSON *displays,
			  const struct cbx_mcp_image *images, size_t nimages, size_t room)
{
	struct render r = { .x = x, .displays = displays, .written = images, .nwritten = nimages,
			    .text_max = CBX_TEXT_CHARS, .value_max = CBX_VALUE_CHARS, .image_max = room,
			    .files_max = CBX_CHANGES_MAX };

	for (;;) {
		size_t over;

		print_once(out, &r, call);
		if (out->len <= room || r.text_max < 32)
			break;
		over = out->len - room;
		if (r.image_used) {
			r.image_max = r.image_used > over ? r.image_used - over : 0;
		} else {
			r.text_max /= 2;
			r.value_max /= 2;
			r.files_max /= 2;
		}
	}
	cbx_buf_release(&r.text);
}

cJSON *cbx_mcp_result_schema(void)
{
	static const char *const required[] = { "status", "session_id", "execution_id", "stdout", "stderr",
						"state_kept", "duration_ms", "images", "files", NULL };
	static const char *const statuses[] = { "ok", "error", "timeout", "killed", "cancelled", "running", NULL };
	static const char *const in_error[] = { "name", "value", "traceback", NULL };
	static const char *const in_omitted[] = { "bytes", NULL };
	static const char *const in_image[] = { "mime_type", "bytes", "sent", NULL };
	static const char *const in_file[] = { "path", "size", "mime_type", "uri", "sent", NULL };
	cJSON *p = cbx_json_new_obj(), *q, *values = cbx_json_new_arr(), *images;

	for (size_t i = 0; statuses[i]; i++)
		cbx_json_push_str(values, statuses[i]);
	cbx_json_set(cbx_mcp_schema_property(p, "status", "string",
					     "ok; error: an exception in the code; timeout: it was interrupted; "
					     "killed: the interpreter ended; cancelled: interrupted on request; "
					     "running: not ended yet, see get_execution"),
		     "enum", values);
	cbx_mcp_schema_property(p, "session_id", "string",
				"Pass it to later calls to use the same variables and files.");
	cbx_mcp_schema_property(p, "execution_id", "integer", "Counts the session's cells from 1.");
	cbx_mcp_schema_property(p, "execution_count", "integer", "The number in In[n] and Out[n].");
	cbx_mcp_schema_property(p, "stdout", "string", "What the code printed.");
	cbx_mcp_schema_property(p, "stderr", "string", "What it wrote to standard error.");
	cbx_mcp_schema_property(p, "result", "string", "The value of the last expression, as text.");
	q = cbx_json_new_obj();
	cbx_mcp_schema_property(q, "name", "string", "The exception's class.");
	cbx_mcp_schema_property(q, "value", "string", "Its message.");
	cbx_mcp_schema_property(q, "traceback", "string", "Where it came from.");
	cbx_json_set(p, "error", cbx_mcp_schema_object(q, in_error, true));
	cbx_mcp_schema_property(p, "message", "string", "What else happened, and what to do about it.");
	cbx_mcp_schema_property(p, "notice", "string", "Something about the session that is good to know.");
	cbx_mcp_schema_property(p, "exit_code", "integer", "What the code gave to exit().");
	cbx_mcp_schema_property(p, "state_kept", "boolean", "Whether the session's variables are still there.");
	cbx_mcp_schema_property(p, "duration_ms", "number", "Time that the cell took.");
	cbx_mcp_schema_property(p, "usage", "object", "Processor time, memory and input/output of what ran.");
	q = cbx_json_new_obj();
	cbx_mcp_schema_property(q, "bytes", "integer", "Bytes of output that are not in this answer.");
	cbx_mcp_schema_property(q, "file", "string", "File of the session with what was kept of the output.");
	cbx_mcp_schema_property(q, "where", "string", "How much of the output that is.");
	cbx_json_set(p, "omitted", cbx_mcp_schema_object(q, in_omitted, true));
	q = cbx_json_new_obj();
	cbx_mcp_schema_property(q, "mime_type", "string", "Such as image/png.");
	cbx_mcp_schema_property(q, "bytes", "integer", "Its size.");
	cbx_mcp_schema_property(q, "sent", "boolean", "Whether it is among the image blocks of this answer.");
	images = cbx_mcp_schema_property(p, "images", "array", "Images that the cell showed, in order.");
	cbx_json_set(images, "items", cbx_mcp_schema_object(q, in_image, true));
	q = cbx_json_new_obj();
	cbx_mcp_schema_property(q, "path", "string", "Relative to /workspace.");
	cbx_mcp_schema_property(q, "size", "integer", "Bytes.");
	cbx_mcp_schema_property(q, "mime_type", "string", "What its name says of its contents.");
	cbx_mcp_schema_property(q, "uri", "string", "Its address as a resource; read_file takes it, too.");
	cbx_mcp_schema_property(q, "sent", "boolean", "Whether it is among the image blocks of this answer.");
	cbx_json_set(cbx_mcp_schema_property(p, "files", "array", "Files that the cell made or changed."), "items",
		     cbx_mcp_schema_object(q, in_file, true));
	cbx_mcp_schema_property(p, "files_omitted", "integer", "How many more there are.");
	return cbx_mcp_schema_object(p, required, true);
}
