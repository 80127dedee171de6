/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a session are those of its box; all but looking at names is a use of the session. */
#include "session/internal.h"

int cbx_session_file_read(struct cbx_session *s, const char *path, uint64_t offset, size_t max, struct cbx_file_op *op,
			  struct cbx_err *err)
{
	cbx_session_touch(s);
	return cbx_file_read(&s->box, path, offset, max, op, err);
}

int cbx_session_file_write(struct cbx_session *s, const char *path, uint64_t offset, unsigned flags, const void *p,
			   size_t n, struct cbx_file_op *op, struct cbx_err *err)
{
	cbx_session_touch(s);
	return cbx_file_write(&s->box, path, offset, flags, p, n, op, err);
}

int cbx_session_file_stat(struct cbx_session *s, const char *path, struct cbx_file_op *op, struct cbx_err *err)
{
	cbx_session_touch(s);
	return cbx_file_stat(&s->box, path, op, err);
}

int cbx_session_file_list(struct cbx_session *s, const char *path, uint64_t skip, struct cbx_file_op *op,
			  struct cbx_err *err)
{
	cbx_session_touch(s);
	return cbx_file_list(&s->box, path, skip, op, err);
}

int cbx_session_file_scan(struct cbx_session *s, const char *path, uint64_t skip, struct cbx_file_op *op,
			  struct cbx_err *err)
{
	return cbx_file_scan(&s->box, path, skip, op, err);
}

int cbx_session_file_mkdir(struct cbx_session *s, const char *path, struct cbx_file_op *op, struct cbx_err *err)
{
	cbx_session_touch(s);
	return cbx_file_mkdir(&s->box, path, op, err);
}

int cbx_session_file_remove(struct cbx_session *s, const char *path, struct cbx_file_op *op, struct cbx_err *err)
{
	cbx_session_touch(s);
	return cbx_file_remove(&s->box, path, op, err);
}

int cbx_session_file_rename(struct cbx_session *s, const char *path, const char *to, struct cbx_file_op *op,
			    struct cbx_err *err)
{
	cbx_session_touch(s);
	return cbx_file_rename(&s->box, path, to, op, err);
}

int cbx_session_file_readlink(struct cbx_session *s, const char *path, struct cbx_file_op *op, struct cbx_err *err)
{
	cbx_session_touch(s);
	return cbx_file_readlink(&s->box, path, op, err);
}

int cbx_session_file_place(struct cbx_session *s, const struct cbx_file_place *place, struct cbx_file_op *op,
			   struct cbx_err *err)
{
	cbx_session_touch(s);
	return cbx_file_place(&s->box, place, op, err);
}
