/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_POLICY_CODE_H
#define CBX_POLICY_CODE_H

/* What Python cells may say, where a policy has rules for that: "code" in it. They are judged in the session itself, by
 * src/runtimes/python/judge.py; they are not isolation. */
#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

struct cbx_policy;

struct cbx_code_rules {
	cJSON *lists; /* those that a file gives, by name: arrays of words; NULL: none */
};

/* The name of one of the lists. */
bool cbx_code_rules_has(const char *key);
void cbx_code_rules_names(struct cbx_buf *out); /* ", commands, …" */
/* Read one, which replaces what was there. On failure *ret_bad is the node that is wrong, and messages begin with the
 * key. */
int cbx_code_rules_parse(const cJSON *v, struct cbx_code_rules *rules, const cJSON **ret_bad, struct cbx_err *err);
void cbx_code_rules_release(struct cbx_code_rules *rules);
/* Add the lists that are in force, or would be by its files. */
void cbx_code_rules_to_json(const struct cbx_policy *p, cJSON *group);
void cbx_code_rules_schema(cJSON *properties);
/* What both allow. A policy without rules in force has no say by the lists that it does not give. */
void cbx_code_rules_narrow(struct cbx_code_rules *ret, const struct cbx_policy *wide, const struct cbx_policy *narrow);

/*
 * What the judge gets: the rules by name ("jupyter_commands", "dangerous_builtins", "dangerous_imports",
 * "dangerous_patterns", "package_installation"), each with its words. without: names of rules that a request does
 * without, or "all"; only where the policy leaves code_rules to requests. NULL: none.
 */
cJSON *cbx_code_rules_frame(const struct cbx_policy *p, const cJSON *without);

#endif
