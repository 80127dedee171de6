/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the addresses of resources, codebox://sessions[/ID[/files/PATH]], as cbx_file_uri() writes them,
 * with "databases" for "files" where the tables of a file are meant, and codebox://databases/NAME. A path may be any
 * bytes, so all but the harmless ones come as %XX. Paths in the workspace are relative, all others keep their leading
 * slash (…/files//tmp/x).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "tools/uri.h"

#define WORKSPACE "/workspace/"
#define FILES	  "/files/"
#define DATABASES "/databases/"

static const char *in_workspace(const char *path)
{
	if (cbx_starts_with(path, WORKSPACE) && path[sizeof(WORKSPACE) - 1])
		path += sizeof(WORKSPACE) - 1;
	while (path[0] == '.' && path[1] == '/' && path[2])
		path += 2;
	return path;
}

struct cbx_uri cbx_uri_parse(const char *uri)
{
	struct cbx_uri u = { .kind = CBX_URI_NONE };
	_cleanup_free_ char *path = NULL;
	const char *p, *slash;
	size_t n;

	if (cbx_starts_with(uri, CBX_URI_DATABASES) && cbx_name_valid(uri + sizeof(CBX_URI_DATABASES) - 1)) {
		snprintf(u.database, sizeof(u.database), "%s", uri + sizeof(CBX_URI_DATABASES) - 1);
		u.kind = CBX_URI_DATABASE;
	}
	if (strcmp(uri, CBX_URI_IMAGES) == 0)
		u.kind = CBX_URI_IMAGE_LIST;
	if (strlen(uri) > CBX_URI_MAX || !cbx_starts_with(uri, CBX_URI_SESSIONS))
		return u;
	p = uri + sizeof(CBX_URI_SESSIONS) - 1;
	if (cbx_starts_with(p, "?after=") && cbx_name_valid(p + 7)) {
		memcpy(u.session_id, p + 7, strlen(p + 7) + 1);
		p += strlen(p);
	}
	if (!*p) {
		u.kind = CBX_URI_LIST;
		return u;
	}
	if (*p++ != '/')
		return u;
	slash = strchrnul(p, '/');
	n = (size_t)(slash - p);
	if (n >= sizeof(u.session_id))
		return u;
	memcpy(u.session_id, p, n);
	if (!cbx_name_valid(u.session_id))
		return u;
	if (!*slash) {
		u.kind = CBX_URI_SESSION;
		return u;
	}
	n = cbx_starts_with(slash, FILES) ? strlen(FILES) : cbx_starts_with(slash, DATABASES) ? strlen(DATABASES) : 0;
	if (n && (path = cbx_percent_decode(slash + n, strlen(slash + n)))) {
		u.path = cbx_xstrdup(in_workspace(path));
		u.kind = n == strlen(FILES) ? CBX_URI_FILE : CBX_URI_FILE_DATABASE;
	}
	return u;
}

void cbx_uri_release(struct cbx_uri *u)
{
	free(u->path);
	u->path = NULL;
	u->kind = CBX_URI_NONE;
}

const char *cbx_workspace_path(const char *path)
{
	while (cbx_starts_with(path, "./"))
		path += 2;
	if (cbx_starts_with(path, "/workspace/"))
		path += strlen("/workspace/");
	return path[0] == '/' || strcmp(path, "..") == 0 || cbx_starts_with(path, "../") || strstr(path, "/../") ||
			       cbx_ends_with(path, "/..")
		       ? NULL
		       : path;
}
