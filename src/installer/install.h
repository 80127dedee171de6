/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_INSTALLER_INSTALL_H
#define CBX_INSTALLER_INSTALL_H

/* One installation: what get.c fetches into the store, install.c gives to a session. */
#include "installer/installer.h"

/* Unpacked, packages may be this many times what the policy allows for files of the index. */
#define CBX_UNPACKED_RATIO 4
#define CBX_ENTRY_BYTES	   4096 /* which each file and directory counts for, beside what it holds */
#define CBX_STORED_NAME	   160

struct cbx_installation {
	const struct cbx_store_dirs *store;
	struct cbx_indexes indexes;
	struct cbx_lock lock;
	uint64_t bytes_max, kept_max;
	struct cbx_spent *spent;
	const char *python, *registry, *token;
	const cJSON *job; /* of which conda.c has the channels, and where the session sees what it gets */
	const char *at, *version;
	bool scripts; /* those of npm packages are to run */
};

/* In memory that all processes of an installation share. */
struct cbx_spent {
	_Atomic uint64_t fetched, unpacked; /* bytes; unpacked: with CBX_ENTRY_BYTES of each entry */
	_Atomic uint64_t turns;		    /* wheels that were looked at, to be fetched */
	_Atomic uint64_t failed;	    /* the number of the first process that could not get one; 0: none */
};

/* arrive.c */

struct cbx_copying {
	const struct cbx_wheel *wheel;
	int from, to; /* a pipe that has the last CBX_END_BYTES, then the rest, or nothing; a file */
	struct cbx_arriving *arriving;
};

/* Whether the end of a wheel has come, and the rest follows. False: who copies it has ended. */
bool cbx_arrives(const struct cbx_arriving *a, const struct cbx_apart *who);
/* Copy a wheel that comes, for a process of its own (struct cbx_copying). Error: "wrong_hash". */
int cbx_arrive(void *arg, struct cbx_err *err);

/* get.c */

/* Compare the SHA-256 of a wheel, or an npm package's SHA-512, with what was judged. */
int cbx_check_digest(const struct cbx_wheel *w, const uint8_t *digest, struct cbx_err *err);

void cbx_stored_name(const struct cbx_wheel *w, char ret[CBX_STORED_NAME]);
bool cbx_stored(const struct cbx_installation *in, const struct cbx_wheel *w);
/* Whether a tree is that of this package, of whatever kind. */
int cbx_package_check(int tree, const struct cbx_wheel *w, struct cbx_err *err);
/* Bring into the store what it lacks. */
int cbx_get_all(const struct cbx_installation *in, struct cbx_err *err);
/* Which package failed, and what needs it; returns the error. */
int cbx_error_of(const struct cbx_wheel *w, struct cbx_err *err);
int cbx_unpacks_too_much(const struct cbx_installation *in, struct cbx_err *err);

#endif
