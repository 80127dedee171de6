/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_TOOLS_URI_H
#define CBX_TOOLS_URI_H

/* The addresses of sessions, their files, and databases. */
#include <stddef.h>

#include "base/str.h"

#define CBX_URI_SESSIONS      "codebox://sessions"
#define CBX_URI_DATABASES     "codebox://databases/"
#define CBX_URI_IMAGES	      "codebox://images"
#define CBX_URI_FILE_TEMPLATE "codebox://sessions/{session_id}/files/{+path}"
#define CBX_URI_MAX	      16384
/* What a database has that is a file of a session. */
#define CBX_URI_FILE_DATABASE_TEMPLATE "codebox://sessions/{session_id}/databases/{+path}"

enum cbx_uri_kind {
	CBX_URI_NONE,
	CBX_URI_LIST,
	CBX_URI_SESSION,
	CBX_URI_FILE,
	CBX_URI_DATABASE,
	CBX_URI_FILE_DATABASE,
	CBX_URI_IMAGE_LIST
};

/* codebox://sessions[/ID[/files/PATH]], codebox://sessions/ID/databases/PATH, or codebox://sessions?after=ID, a page of
 * the list; the path is as in session.h, malloc'd. codebox://databases/NAME, a connection of the policy.
 * codebox://images. CBX_URI_NONE: nothing of ours. */
struct cbx_uri {
	enum cbx_uri_kind kind;
	char session_id[CBX_NAME_MAX + 1], database[CBX_NAME_MAX + 1];
	char *path;
};
struct cbx_uri cbx_uri_parse(const char *uri);
void cbx_uri_release(struct cbx_uri *uri);
/* Below /workspace, relative to it; NULL: a file elsewhere has no address. */
const char *cbx_workspace_path(const char *path);

#endif
