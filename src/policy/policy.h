/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_POLICY_POLICY_H
#define CBX_POLICY_POLICY_H

/*
 * Policies: what sessions get when they do not ask, and the most that they get when they do. codebox-policy(5) is the
 * format. A policy is made once, from a file and the files that it includes, and never changes: sessions hold pointers
 * to it. What no file says is built in.
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
#include "policy/environment.h"
#include "policy/keys.h"

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
	char *name;
	char **files; /* whose lines the origins are; [0] is "built-in" */
	size_t nfiles;
	struct cbx_policy_value values[CBX_KEYS];
	char **images; /* allowed; NULL: all */
	size_t nimages;
	struct cbx_origin images_from, network_from, mounts_from;
	struct cbx_policy_mount *mounts; /* directories of the machine below which sessions may ask for mounts */
	size_t nmounts;
	struct cbx_environment environment;
	struct cbx_origin environment_from; /* the last object of them */
	char digest[65];		    /* SHA-256 of the canonical form, in hex */
};

/* The built-in values alone. */
struct cbx_policy *cbx_policy_new(const char *name);
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
/* Which policy codeboxd uses when it is not told: malloc'd, for cbx_policy_load(). */
char *cbx_policy_standard(const char *config_dir);

#endif
