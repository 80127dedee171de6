/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation: as in control_ops.c. A request is answered by one answer of the session's files. */
#include "daemon/control.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "client/protocol.h"

static void file_done(struct cbx_file_op *op, const struct cbx_file_reply *reply, const struct cbx_err *err)
{
	struct cbx_control_request *q = cbx_container_of(op, struct cbx_control_request, file);

	cbx_control_answer(q, !err && q->describe ? q->describe(q, reply) : NULL, err);
}

static struct cbx_file_op *file_op(struct cbx_control_request *q,
				   cJSON *(*describe)(const struct cbx_control_request *q,
						      const struct cbx_file_reply *reply))
{
	q->describe = describe;
	q->file = (struct cbx_file_op){ .op.ops = &q->control->caller.ops, .done = file_done };
	return &q->file;
}

static cJSON *describe_read(const struct cbx_control_request *q, const struct cbx_file_reply *reply)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	cJSON *o = cbx_json_new_obj();

	cbx_base64_encode(&text, reply->data, reply->len);
	cbx_json_set_str(o, "data", cbx_buf_str(&text));
	cbx_json_set_u64(o, "size", reply->size);
	cbx_json_set_bool(o, "eof", reply->len == 0 || q->offset + reply->len >= reply->size);
	return o;
}

int cbx_control_file_read(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err)
{
	bool whole = !(a->given & CBX_ARG_LENGTH) || a->length > CBX_CONTROL_CHUNK;

	q->offset = a->offset;
	return cbx_session_file_read(a->session, a->path, a->offset, whole ? CBX_CONTROL_CHUNK : (size_t)a->length,
				     file_op(q, describe_read), err);
}

static cJSON *describe_written(const struct cbx_control_request *q, const struct cbx_file_reply *reply)
{
	cJSON *o = cbx_json_new_obj();

	cbx_json_set_u64(o, "written", reply->len);
	return o;
}

int cbx_control_file_write(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err)
{
	unsigned flags = (a->truncate ? CBX_FILE_TRUNCATE : 0) | (a->executable ? CBX_FILE_EXECUTABLE : 0);
	_cleanup_buf_ struct cbx_buf data = { 0 };
	int r;

	if (a->append && a->given & CBX_ARG_OFFSET)
		return cbx_refuse(err, "invalid_argument", EINVAL, "offset and append: give one of them, not both");
	r = cbx_control_decode(&data, a, CBX_CONTROL_CHUNK, err);
	if (r < 0)
		return r;
	return cbx_session_file_write(a->session, a->path, a->append ? UINT64_MAX : a->offset, flags, data.data,
				      data.len, file_op(q, describe_written), err);
}

static void set_stat(cJSON *o, const struct cbx_file_entry *st)
{
	const char *type = S_ISREG(st->mode)   ? "file"
			   : S_ISDIR(st->mode) ? "directory"
			   : S_ISLNK(st->mode) ? "symlink"
					       : "other";

	cbx_json_set_str(o, "type", type);
	cbx_json_set_u64(o, "size", st->size);
	cbx_json_set_u64(o, "mode", st->mode & 07777);
	cbx_json_set_double(o, "mtime", (double)(st->mtime_ns / 1000000) / 1000);
}

static cJSON *describe_stat(const struct cbx_control_request *q, const struct cbx_file_reply *reply)
{
	cJSON *o = cbx_json_new_obj();

	set_stat(o, reply->entries);
	return o;
}

int cbx_control_file_stat(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err)
{
	return cbx_session_file_stat(a->session, a->path, file_op(q, describe_stat), err);
}

static cJSON *describe_list(const struct cbx_control_request *q, const struct cbx_file_reply *reply)
{
	cJSON *o = cbx_json_new_obj(), *list = cbx_json_new_arr();

	for (size_t i = 0; i < reply->nentries; i++) {
		cJSON *one = cbx_json_new_obj();

		cbx_json_set_str(one, "name", reply->entries[i].name);
		set_stat(one, &reply->entries[i]);
		cbx_json_push(list, one);
	}
	cbx_json_set(o, "entries", list);
	cbx_json_set_bool(o, "more", reply->more);
	return o;
}

int cbx_control_file_list(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err)
{
	return cbx_session_file_list(a->session, a->path ? a->path : ".", a->skip, file_op(q, describe_list), err);
}

int cbx_control_file_mkdir(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err)
{
	return cbx_session_file_mkdir(a->session, a->path, file_op(q, NULL), err);
}

int cbx_control_file_remove(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err)
{
	return cbx_session_file_remove(a->session, a->path, file_op(q, NULL), err);
}
