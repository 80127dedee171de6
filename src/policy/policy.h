/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_POLICY_POLICY_H
#define CBX_POLICY_POLICY_H

/*
 * Policies: what sessions get when they do not ask, and the most that they get when they do. codebox-policy(5) is the
 * format. A policy is made once, from a file and the files that it includes, and never changes: who holds it has a
 * reference, so that one that was replaced lives as long as the last session that has it. What no file says is built in.
 *
 * Parsing does no I/O: included texts come from a callback. Errors have kind "invalid_policy" and begin with
 * "file:line:column: ".
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "packages/rules.h"
#include "policy/code.h"
#include "policy/environment.h"
#include "policy/keys.h"
#include "policy/network.h"
#include "policy/objects.h"
#include "policy/sql.h"

struct cbx_origin {
	uint32_t file; /* of cbx_policy.files; 0: built in */
	uint32_t line;
};

struct cbx_policy_value {
	uint64_t standard, ceiling; /* of a session that does not ask; of any */
	struct cbx_origin standard_from, ceiling_from;
};

struct cbx_policy_mount {
	char *path; /* absolute, without ".", ".." and repeated slashes */
	bool writable;
};

struct cbx_policy {
	unsigned refs;
	char *name;
	char **files; /* whose lines the origins are; [0] is "built-in" */
	size_t nfiles;
	struct cbx_policy_value values[CBX_KEYS];
	char **images; /* allowed; NULL: all */
	size_t nimages;
	struct cbx_origin images_from, network_from, mounts_from;
	struct cbx_policy_mount *mounts; /* directories of the machine below which sessions may ask for mounts */
	size_t nmounts;
	struct cbx_network network; /* what sessions may reach */
	struct cbx_package_rules packages;
	char *index; /* where packages come from: an address that ends in "/", or a directory; NULL: PyPI */
	char *registry;	   /* and those of npm: an address that ends in "/"; NULL: npm's */
	char **channels;   /* and those of conda: addresses that end in "/", the first asked first; NULL: nothing is said */
	size_t nchannels;
	char **advisories; /* files and directories, in the OSV format */
	size_t nadvisories;
	struct cbx_origin packages_from; /* of the last list of them, or the index */
	struct cbx_sql_rules sql;	 /* databases that may be asked */
	struct cbx_origin sql_from;
	struct cbx_object_store objects; /* that artifacts are copied to */
	struct cbx_servers stores;	 /* of Azure, that requests may name */
	struct cbx_origin objects_from;
	struct cbx_code_rules code;  /* what Python cells may say */
	struct cbx_origin code_from; /* of the last list of them */
	struct cbx_environment environment;
	struct cbx_origin environment_from; /* the last object of them */
	char digest[65];		    /* SHA-256 of the canonical form, in hex */
};

/* The built-in values alone. */
struct cbx_policy *cbx_policy_new(const char *name);
void cbx_policy_add_advisories(struct cbx_policy *p, const char *path); /* unless it is there */
void cbx_policy_clear_advisories(struct cbx_policy *p);
void cbx_policy_add_channel(struct cbx_policy *p, const char *address); /* likewise */
bool cbx_policy_has_channel(const struct cbx_policy *p, const char *address);
void cbx_policy_clear_channels(struct cbx_policy *p);
/* Another reference; returns p. */
struct cbx_policy *cbx_policy_ref(struct cbx_policy *p);
/* Gives up one reference, and frees the policy with the last. */
void cbx_policy_free(struct cbx_policy *p);

/*
 * Parse a policy. `label` names the text in messages and origins. `read` gets the text of an included file: `name` is
 * as written, *ret_label (malloc'd) is how messages name it; it may be NULL when nothing can be included.
 */
typedef int (*cbx_policy_read_fn)(void *arg, const char *name, struct cbx_buf *text, char **ret_label,
				  struct cbx_err *err);
int cbx_policy_parse(const char *text, size_t len, const char *name, const char *label, cbx_policy_read_fn read,
		     void *arg, struct cbx_policy **ret, struct cbx_err *err);

/* The canonical form: every value in force, one line of JSON in a fixed order, readable as a policy. */
cJSON *cbx_policy_to_json(const struct cbx_policy *p);
/* The digest of the canonical form, with a newline behind it. */
void cbx_policy_digest(const struct cbx_policy *p, char out[65]);

/* "file:line" or "built-in". */
void cbx_policy_origin(const struct cbx_policy *p, struct cbx_origin from, struct cbx_buf *out);

/*
 * What a session gets. given: it asked for `wanted`; else that is not looked at. Sets *ret, and returns whether this is
 * less than what was asked for.
 */
bool cbx_policy_settle(const struct cbx_policy *p, enum cbx_key key, bool given, uint64_t wanted, uint64_t *ret);
/* Who may use an image may use it while it is made, too (CBX_UNFINISHED): that is how it is finished. */
bool cbx_policy_image_allowed(const struct cbx_policy *p, const char *image);

/* A policy that allows what both allow; the defaults are those of `narrow`. */
struct cbx_policy *cbx_policy_narrow(const struct cbx_policy *wide, const struct cbx_policy *narrow);

/* The JSON Schema of a policy file. */
cJSON *cbx_policy_schema(void);

/* ---- files ---- */

/* A policy is named by the name of a shipped one ("strict"), or by a path, which has a "/" or ends in ".json". */
static inline bool cbx_policy_is_path(const char *which)
{
	return strchr(which, '/') || cbx_ends_with(which, ".json");
}
int cbx_policy_load(const char *share_dir, const char *which, struct cbx_policy **ret, struct cbx_err *err);
/* By name only: for names that come from a client. Errors: "invalid_argument" when there is none. */
int cbx_policy_load_shipped(const char *share_dir, const char *name, struct cbx_policy **ret, struct cbx_err *err);
/* Which policy codeboxd uses when none is named: malloc'd, for cbx_policy_load(). */
char *cbx_policy_standard(const char *config_dir);

/*
 * What a user has said yes to at a prompt: a policy file of which nothing but mounts.allow is taken, and which may hold
 * nothing else. It adds to the user's own policy, or to the shipped one, never to one of the machine's.
 */
/* Its path, malloc'd, when the policy of this name (see above) is one that it adds to; else NULL. */
char *cbx_granted_path(const char *config_dir, const char *standard);
/* 1; 0: there is none; or an error. */
int cbx_granted_load(const char *path, struct cbx_policy **ret, struct cbx_err *err);
/* The text of the file with one more directory, or one that may be written to from now on. have: NULL: there is none. */
void cbx_granted_text(const struct cbx_policy *have, const char *dir, bool writable, struct cbx_buf *out);

#endif
