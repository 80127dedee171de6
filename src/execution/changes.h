/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_EXECUTION_CHANGES_H
#define CBX_EXECUTION_CHANGES_H

/* Files that a cell or a command has changed, as its "files": [{"path","size","mime_type","uri"}]. */
#include "base/json.h"
#include "box/files.h"

struct cbx_changes {
	cJSON *files; /* NULL: there are none */
	uint64_t omitted;
	size_t bytes; /* that they take, about */
};

/* From what init says of them (cbx_file_changed()), up to CBX_CHANGES_MAX and about max bytes; the others are counted.
 * id: of the session. own: a file that does not count; NULL: all do. */
void cbx_changes_list(const struct cbx_file_reply *reply, const char *id, const char *own, size_t max,
		      struct cbx_changes *ret);

#endif
