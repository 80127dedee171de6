/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_INSTALLER_CONFIG_H
#define CBX_INSTALLER_CONFIG_H

/*
 * What the user who runs codeboxd has configured for pip (pip.conf, PIP_*) and uv (uv.toml, UV_*): where packages come
 * from, and how it is reached. Passwords may be in all of it, and are in no message.
 */
#include <stddef.h>

#include "base/err.h"
#include "base/limits.h"

struct cbx_place {
	char *at;   /* an address or path; owned */
	char *user; /* "user:password"; NULL: what the address has; owned */
};

struct cbx_places {
	struct cbx_place all[CBX_INDEXES_MAX];
	size_t n;
};

enum cbx_set { CBX_SET_NOT, CBX_SET_NO, CBX_SET_YES };

struct cbx_index_config {
	struct cbx_place index; /* at NULL: PyPI */
	struct cbx_places extra, links;
	enum cbx_set no_index, offline;
	char *ca, *client, *proxy; /* owned; NULL: not set */
	char *http_proxy, *https_proxy, *no_proxy; /* of uv, likewise */
};

/* Error, kind "index_refused": what cannot be read. */
int cbx_index_config_read(struct cbx_index_config *ret, struct cbx_err *err);
/* Make links absolute paths, or refuse those that are none. */
int cbx_index_config_links(struct cbx_index_config *c, struct cbx_err *err);
void cbx_index_config_release(struct cbx_index_config *c);

#endif
