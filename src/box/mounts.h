/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_BOX_MOUNTS_H
#define CBX_BOX_MOUNTS_H

/* Directories of the machine: which of them a box may be shown. */
#include "base/err.h"
#include "base/json.h"
#include "box/naming.h"
#include "policy/policy.h"
#include "sandbox/plan.h"

#define CBX_MOUNTS_OWN 7

/* What decides; all of it is borrowed. */
struct cbx_mount_rules {
	struct cbx_naming *naming;	 /* with what cbx_mounts_ask() added to it */
	const struct cbx_policy *policy; /* the server's */
	char **names;			 /* what its directories are really called; completed when that is found */
	const char *writer;		 /* a session that may write to the machine; NULL: none */
	const struct cbx_policy *narrowed; /* the policy in force where a request has narrowed that; NULL: it has not */
	const char *granted; /* the file of directories that the user has said yes to; NULL: there are none */
	const char *own[CBX_MOUNTS_OWN]; /* codebox's own directories, which are never shown; NULL or "": none */
};

struct cbx_mounts {
	struct cbx_plan_mount all[CBX_PLAN_MOUNTS_MAX];
	bool lowered[CBX_PLAN_MOUNTS_MAX]; /* it is read-only, though it was to be writable */
	uint32_t n;
};

int cbx_mounts_check(const cJSON *list, struct cbx_err *err); /* its form alone */
/* Add what has to be known before; false: nothing. What else has to be is asked for by settling (cbx_naming_more()). */
bool cbx_mounts_ask(const struct cbx_mount_rules *rules, const cJSON *list, struct cbx_naming *naming);
/* offered: directories that may not be shown are omitted, and who offers directories does not choose their names
 * inside; otherwise that is an error. */
int cbx_mounts_settle(const struct cbx_mount_rules *rules, const cJSON *list, bool offered, struct cbx_mounts *ret,
		      struct cbx_err *err);
cJSON *cbx_mounts_json(const struct cbx_mounts *mounts);

/* Room for what a policy's directories are really called, up to a NULL; "": not known. Names of another policy, which
 * may be NULL, are taken over. */
char **cbx_mounts_names_new(const struct cbx_policy *p, const struct cbx_policy *old, char *const *old_names);
void cbx_mounts_free_names(char ***names);

#endif
