/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_INSTALLER_INSTALLER_H
#define CBX_INSTALLER_INSTALLER_H

/*
 * Inside of codebox-packages, the one program that talks to an index or registry of packages, and that fills the store
 * of unpacked ones. codeboxd hands it a socket for each job (packages/job.h); each job is a process of its own.
 *
 *   <data>/packages/w/<sum>        a wheel, or an npm package, unpacked; made by one rename, never changed; of conda: c-<sum>
 *                   m/<sum>        by which it is found out whether that was changed since
 *                   c/             answers of the index
 *                   d/<daemon>/t/  what is being made; of an installation, in t/<token>
 *                   d/<daemon>/s/<token>   what a session has, complete when it is handed out, and not changed then
 *
 * Who gives a wheel to the store is not trusted with its name: it is the sum (SHA-256; of an npm package, SHA-512) that
 * was computed here.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/limits.h"
#include "image/unpack.h"
#include "installer/index.h"
#include "packages/rules.h"
#include "sandbox/seccomp.h"

/* Directories that are open, and what holds those who work in them. */
struct cbx_store_dirs {
	int all;			     /* <data>/packages */
	int own;			     /* this daemon's in it */
	struct cbx_filter fetching, linking; /* system calls: policies/syscalls/registry and wheels */
	struct cbx_buf popular;		     /* names that many use, a line each; empty: they cannot be read */
};

#define CBX_CACHE_FRESH_S 300 /* a page of the index is not asked for again within this time */

/* ---- fetch.c ---- */

/* Connections that are kept for the next request of a process, and what their handshakes have found: those to an index's
 * own host, which may be in a private network, are not used for anything else. Zero: none yet. */
struct cbx_fetcher {
	void *curl[2];
};

void cbx_fetcher_release(struct cbx_fetcher *f);

/* What is asked for; html and part say what came. */
struct cbx_fetch {
	const char *url;
	const char *accept;	    /* of the request; NULL: anything */
	uint64_t max;		    /* bytes */
	_Atomic uint64_t *together; /* counts what several processes fetch, up to `max` likewise; NULL: nothing does */
	uint64_t last;		    /* as many bytes of its end will do (RFC 9110, 14.1.2); 0, or set to it: all of it */
	uint64_t first, size;	    /* or as many of its start, if it has this size; else "no_ranges" */
	const struct cbx_buf *ahead; /* written ahead of these; NULL: nothing is */
	bool html;		    /* a page of HTML */
	bool part;		    /* not all of it: who does not know ranges sends everything */
};

/* It comes into a file, from where that is. Errors: "not_found", "index_down", "index_refused", "too_large". */
int cbx_fetch(struct cbx_fetcher *f, const struct cbx_index *index, struct cbx_fetch *what, FILE *out,
	      struct cbx_err *err);
/* What `who` had for the same installation without being fetched. */
int cbx_fetch_count(_Atomic uint64_t *together, uint64_t n, uint64_t max, const char *who, struct cbx_err *err);

/* ---- confine.c: for a process that only does the one or the other from here on ---- */

/* share: where the lists of system calls are. */
int cbx_confine_prepare(const char *share, struct cbx_store_dirs *store, struct cbx_err *err);
/* config: a file that it reads, too; NULL: none. */
int cbx_confine_fetch(const struct cbx_index *indexes, size_t n, const char *config, const struct cbx_store_dirs *store,
		      struct cbx_err *err);
int cbx_confine_link(const struct cbx_store_dirs *store, struct cbx_err *err);
/* It reads these files and directories, and nothing else. */
int cbx_confine_check(const char *const *paths, size_t n, const struct cbx_store_dirs *store, struct cbx_err *err);

/* ---- line.c ---- */

/* A line of a job, without its end, into *ret, from what `got` has or has yet to read; `got` keeps what is behind it.
 * 0: there is none. */
int cbx_job_line(int sock, struct cbx_buf *got, struct cbx_buf *ret);

/* ---- answer.c: pages and files of the index, for a resolver ---- */

/* A file that a resolver had to read whole is written to `out`, and kept no longer. False: it is not there. */
bool cbx_kept_take(const struct cbx_store_dirs *store, const char *url, FILE *out);
/* Likewise the end of one, of CBX_END_BYTES, which stays. */
bool cbx_kept_end(const struct cbx_store_dirs *store, const char *url, FILE *out);
/* All questions of a job, of which `got` has what came behind its line. */
void cbx_answer_questions(const cJSON *job, const struct cbx_store_dirs *store, int sock, struct cbx_buf *got);

/* The page of a project, for a process that may only fetch: its first byte says what it is, "h" HTML, "j" JSON.
 * *ret_url, malloc'd, is its address, also when this fails; *ret_index, borrowed, whose it is. */
int cbx_answer_page(struct cbx_fetcher *fetcher, const struct cbx_indexes *from, const struct cbx_store_dirs *store,
		    const char *project, char **ret_url, const struct cbx_index **ret_index, struct cbx_buf *ret,
		    struct cbx_err *err);

/* ---- parts.c ---- */

#define CBX_END_BYTES KIB(256) /* of a wheel, which a resolver asks for as well (runtimes/python/resolve.py) */

/* A large file into a pipe, the end first, so that it can be unpacked while the rest comes. 0: nothing was written there;
 * it is in `out`, or if that is empty, it is to be fetched at once. */
int cbx_fetch_in_parts(struct cbx_fetcher *f, const struct cbx_index *index, const struct cbx_store_dirs *store,
		       const struct cbx_fetch *what, FILE *out, FILE *pipe, struct cbx_err *err);

/* ---- find.c ---- */

/* Where the index has the file of a wheel with this SHA-256; malloc'd. For the same process. Errors: "not_found",
 * "wrong_hash" where it has another file of that name, and those of fetching. */
int cbx_find_wheel(struct cbx_fetcher *fetcher, const struct cbx_indexes *from, const struct cbx_store_dirs *store,
		   const struct cbx_wheel *wheel, char **ret, struct cbx_err *err);

/* ---- install.c ---- */

int cbx_install(const cJSON *job, const struct cbx_store_dirs *store, cJSON *answer, struct cbx_err *err);

/* ---- store.c ---- */

#define CBX_REMOVE_MAX 4000000ul /* entries that are removed at once */

bool cbx_token_valid(const cJSON *v); /* of a session's directory */
int cbx_drop(const cJSON *job, const struct cbx_store_dirs *store, struct cbx_err *err);
/* Remove what an installation has made, finished or not, when nobody is left that would do so later. */
void cbx_install_undo(const cJSON *job, const struct cbx_store_dirs *store);
/* At the start: nothing is of use to any session yet. */
int cbx_store_prepare(const struct cbx_store_dirs *store, struct cbx_err *err);
/* Run fn(arg) in a process of its own; its error becomes ours. Each that was begun is to be ended, which waits for it. */
struct cbx_apart {
	pid_t pid;
	int fd; /* readable when it has ended */
};
int cbx_apart_begin(int (*fn)(void *arg, struct cbx_err *err), void *arg, struct cbx_apart *ret, struct cbx_err *err);
int cbx_apart_end(struct cbx_apart *p, struct cbx_err *err);
int cbx_apart(int (*fn)(void *arg, struct cbx_err *err), void *arg, struct cbx_err *err);

/* ---- check.c ---- */

/* What advisories and popular names say of the packages of a job, as "warnings" of its answer; or a refusal. */
int cbx_check(const cJSON *job, const struct cbx_lock *lock, const struct cbx_store_dirs *store, cJSON *answer,
	      struct cbx_err *err);

/* ---- tree.c ---- */

/* Note what a tree holds that becomes that of this sum. */
int cbx_tree_keep(const struct cbx_store_dirs *store, int tree, const char *sum);
/* Whether it holds that still, and how many files and directories that are; nothing was noted: no. */
bool cbx_tree_unchanged(const struct cbx_store_dirs *store, int tree, const char *sum, uint64_t *ret_entries);

/* ---- trim.c ---- */

/* Remove wheels and answers of the index that were used longest ago, and that no session has, until `max` bytes are
 * left. */
int cbx_store_trim(const struct cbx_store_dirs *store, uint64_t max, struct cbx_err *err);
/* The same of answers of the index alone. */
int cbx_cache_trim(const struct cbx_store_dirs *store, uint64_t max, struct cbx_err *err);
/* Remove one. */
bool cbx_store_drop(const struct cbx_store_dirs *store, const char *path);

/* ---- wheel.c ---- */

/* Whether the tree of an unpacked wheel is that of this package. */
int cbx_wheel_check(int tree, const char *name, const char *version, struct cbx_err *err);
/* Give a session's directory hard links to its files, in "site", "bin" and where else they belong. */
int cbx_wheel_link(int tree, int to, const char *python, struct cbx_err *err);

/* ---- npm.c ---- */

/* Whether the tree of an unpacked archive is that of this package. Its programs become executable. */
int cbx_npm_check(int tree, const struct cbx_wheel *w, struct cbx_err *err);
/* Whether it has scripts for its installation. */
bool cbx_npm_scripts(int tree);
/* Give a session's directory hard links to its files, at its place. */
int cbx_npm_link(int tree, int to, const struct cbx_wheel *w, struct cbx_err *err);

/* ---- wheel.c, for npm.c and conda.c, too ---- */

int cbx_link_open(int dir, const char *name); /* a directory, made where it is not there yet */
/* omit: an entry that is not linked; NULL: none. */
int cbx_link_tree(int from, int to, const char *omit);
int cbx_link_place(int to, const char *path); /* the same of several, one in the other */
int cbx_link_file_of(int from, const char *name, int to);
int cbx_link_as(int from, const char *name, int to, const char *as); /* a small file */
/* A program of a line "name = module:object"; head: its first line. */
int cbx_link_program(int bin, const char *line, size_t n, const char *head);
bool cbx_link_name(const char *p, size_t n); /* of a program */
int cbx_link_read(int dir, const char *path, struct cbx_buf *out);

/* ---- conda.c ---- */

/* What a session's directory is to a package of conda: its prefix. */
struct cbx_prefix {
	int to;		    /* the directory */
	const char *at;	    /* where the session sees it */
	const char *python; /* the session's, and its version: "3.11" */
	const char *version;
	uint64_t max; /* bytes that may be copied, because they name the prefix */
	uint64_t copied;
};

/* Unpack what is in fd, of a package w, into tree, by the same confined process as wheels. name: of a file that is made
 * beside it for a time, in store->own. */
int cbx_conda_unpack(int fd, const struct cbx_store_dirs *store, const char *name, const struct cbx_wheel *w, int tree,
		     const struct cbx_unpack_options *o, struct cbx_err *err);
/* Of a new tree: files that have several names get one each, as far as the options allow bytes. */
int cbx_conda_split(int tree, const struct cbx_unpack_options *o, struct cbx_err *err);
/* Whether the tree of an unpacked archive is that of this package, and holds nothing that leads out of it. */
int cbx_conda_check(int tree, const struct cbx_wheel *w, struct cbx_err *err);
/* What each prefix has, also where no package puts anything into it: a place for Python's modules, and for programs. */
int cbx_conda_begin(const struct cbx_prefix *prefix, struct cbx_err *err);
/* Give a session's prefix hard links to its files, and copies of those that name the prefix. */
int cbx_conda_link(int tree, struct cbx_prefix *prefix, const struct cbx_wheel *w, struct cbx_err *err);
/* Whether it has scripts for its installation, which do not run. */
bool cbx_conda_scripts(int tree, const struct cbx_wheel *w);

/* ---- prefix.c ---- */

/* Files of an unpacked package that name their prefix: [{"path","placeholder","binary"}]. */
int cbx_prefix_list(int tree, cJSON **ret, struct cbx_err *err);
/* One of them, with the prefix in its place, to this path of the session's. */
int cbx_prefix_copy(int tree, const cJSON *file, const char *to, struct cbx_prefix *prefix, struct cbx_err *err);

#define CBX_SESSIONS "s"

#endif
