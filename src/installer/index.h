/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_INSTALLER_INDEX_H
#define CBX_INSTALLER_INDEX_H

/* Where packages come from, as the policy says, or else the user's configuration of pip, uv and npm. */
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/limits.h"

/* ---- index.c ---- */

struct cbx_index {
	char *url;	     /* of a simple index, ending in "/"; NULL: a directory */
	char *dir;	     /* a directory of wheels; NULL: an index */
	char *user;	     /* "user:password" that url came with; NULL: none */
	char *authorization; /* what logs in, as a header has it: "Bearer …"; NULL: nothing */
	const char *config;  /* where the user says how to log in, for messages */
	char *host;	     /* of url, with its port */
	char *ca;	     /* certificates, a file or directory; NULL: the system's */
	char *client;	     /* a file with a certificate and its key, for the index's own host; NULL: none */
	char *proxy;	     /* of the user's configuration; NULL: that of the environment */
	char *http_proxy, *https_proxy; /* likewise, where the environment has none; NULL: none */
	char *no_proxy;			/* hosts that go by none, besides those of the environment; NULL: none */
	bool offline;	     /* what is kept of it counts, and it is not asked */
};

/* In the order in which they are asked; each knows the same certificates and proxy. At most CBX_INDEXES_MAX of each of
 * two kinds, and the main one. */
struct cbx_indexes {
	struct cbx_index all[2 * CBX_INDEXES_MAX + 1];
	size_t n; /* not 0 */
};

/* `wanted`: of the policy; NULL: what the user has configured for pip and uv, else PyPI. */
int cbx_index_find(const char *wanted, struct cbx_indexes *ret, struct cbx_err *err);
/* The channel of a job ("channels") that an address is in, alone, and *ret_path, borrowed, what is behind it. */
int cbx_channel_find(const cJSON *job, const char *url, struct cbx_indexes *ret, const char **ret_path,
		     struct cbx_err *err);
void cbx_indexes_release(struct cbx_indexes *indexes);
void cbx_index_release(struct cbx_index *index);
/* Whose a file is, by its address; borrowed. Whether it may be fetched is another question. */
const struct cbx_index *cbx_index_of(const struct cbx_indexes *from, const char *url);
/* Of an index whose `url` is set. wrong: where that was wrong, for a message. */
int cbx_index_complete(struct cbx_index *index, const char *wrong, struct cbx_err *err);
/* "key = value" without what surrounds it; malloc'd, NULL where it is empty. */
char *cbx_index_trimmed(const char *p, size_t n);
/* Whether a file may be fetched from this address. */
int cbx_index_allows(const struct cbx_index *index, const char *url, struct cbx_err *err);
/* The name of a file in the directory, of an address that was allowed; borrowed. */
const char *cbx_index_file(const struct cbx_index *index, const char *url);
/* The page of a project of a directory, as JSON of a simple index. */
int cbx_index_list(const struct cbx_index *index, const char *project, struct cbx_buf *ret, struct cbx_err *err);

/* ---- registry.c ---- */

/* The registry of an npm package. `wanted`: of the policy; NULL: that of the user's npm configuration for the package's
 * scope, else for all, else npm's. */
int cbx_registry_find(const char *wanted, const char *package, struct cbx_index *ret, struct cbx_err *err);
/* The file of the user's npm configuration, which finding one reads; malloc'd. */
char *cbx_registry_file(void);
/* The address of a package's page. */
char *cbx_registry_page(const struct cbx_index *registry, const char *package);

/* ---- via.c ---- */

/* The proxy for an address, NULL where there is none; borrowed. trusted: the address is on the index's own host. Error:
 * "index_refused", where a proxy would be asked for what is not a public host. */
int cbx_via_find(const struct cbx_index *index, const char *url, bool trusted, const char **ret, struct cbx_err *err);

bool cbx_proxy_plain(const char *proxy); /* whether it can be an address of one; so can NULL */

#endif
