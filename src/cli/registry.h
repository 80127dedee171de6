/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_CLI_REGISTRY_H
#define CBX_CLI_REGISTRY_H

/*
 * The entry of one MCP server in the text of a client's configuration: {SECTION: {NAME: {"command": …, "args": […]}}}.
 * Only the text is worked on here; see confile.h for the file.
 */
#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

struct cbx_registry {
	const char *section; /* "mcpServers", "servers" */
	const char *name;
	const char *command; /* absolute path of codebox */
	const cJSON *args;   /* ["mcp", ...] */
	bool typed;	     /* the client wants "type": "stdio" */
	bool force;	     /* also an entry that is not ours */
};

/* {"command": …, "args": ["mcp", ...]} */
cJSON *cbx_registry_entry(const struct cbx_registry *r);

struct cbx_changed {
	struct cbx_buf text;
	struct cbx_buf difference; /* the entry as it was and as it is, behind - and +, for a terminal */
};
void cbx_changed_release(struct cbx_changed *c);
#define _cleanup_changed_ __attribute__((cleanup(cbx_changed_release)))

/*
 * Put the entry in, or bring the existing one up to date; members that were added to it ("env") stay, and so do
 * arguments behind "mcp" unless there are some in `args`. text has a NUL behind it. 1: the new text is in *ret; 0:
 * nothing to change. Errors: "invalid_json" (comments among them), "wrong_type", "other_server" when the name belongs
 * to another program.
 */
int cbx_registry_add(const struct cbx_registry *r, const char *text, size_t len, struct cbx_changed *ret,
		     struct cbx_err *err);
/* Take the entry out; likewise. */
int cbx_registry_remove(const struct cbx_registry *r, const char *text, size_t len, struct cbx_changed *ret,
			struct cbx_err *err);

#endif
