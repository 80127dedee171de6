/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_CLIENT_REMOTE_H
#define CBX_CLIENT_REMOTE_H

/* Files of a session, through a client: the file methods of the control protocol, a chunk at a time. */
#include <stdint.h>

#include "client/client.h"

enum cbx_remote_type { CBX_REMOTE_FILE, CBX_REMOTE_DIRECTORY, CBX_REMOTE_SYMLINK, CBX_REMOTE_OTHER };

struct cbx_remote_stat {
	enum cbx_remote_type type;
	uint64_t size;
	uint32_t mode;
};

struct cbx_remote {
	struct cbx_client *client;
	const char *session;
};

int cbx_remote_stat(const struct cbx_remote *r, const char *path, struct cbx_remote_stat *ret, struct cbx_err *err);
/* Append at most one chunk from `offset` to buf; *ret_eof when the file ends with it. */
int cbx_remote_read(const struct cbx_remote *r, const char *path, uint64_t offset, struct cbx_buf *buf, bool *ret_eof,
		    struct cbx_err *err);
/* Write n bytes (at most CBX_CONTROL_CHUNK) at `offset`. At offset 0 the file is emptied first. */
int cbx_remote_write(const struct cbx_remote *r, const char *path, uint64_t offset, const void *p, size_t n,
		     bool executable, struct cbx_err *err);
int cbx_remote_mkdir(const struct cbx_remote *r, const char *path, struct cbx_err *err);
/* One part of a directory from entry `skip` on: the "entries" array (owned by the caller). */
int cbx_remote_list(const struct cbx_remote *r, const char *path, uint64_t skip, cJSON **ret_entries, bool *ret_more,
		    struct cbx_err *err);
/* Type, size and mode of a stat answer or of an entry. */
void cbx_remote_parse_stat(const cJSON *obj, struct cbx_remote_stat *ret);

#endif
