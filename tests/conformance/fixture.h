/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_TESTS_CONFORMANCE_FIXTURE_H
#define CBX_TESTS_CONFORMANCE_FIXTURE_H

/*
 * What the official conformance suite expects to find on a server, on the protocol core that codeboxd has. Never part
 * of an installed program.
 */
#include "mcp/call.h"

extern const struct cbx_tool *const fixture_tools[];
extern const struct cbx_mcp_method fixture_methods[];

#define FIXTURE_PNG                                                                                                  \
	"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
#define FIXTURE_WAV "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="

/* asks.c: a request to a legacy client in the course of a call, which is ended with "<prefix><what it answered>". */
void fixture_ask(struct cbx_mcp_call *call, const char *method, const char *params, const char *prefix);
void fixture_answered(struct cbx_mcp *mcp, const cJSON *answer);

/* rounds.c: results that ask for input (2026-07-28). */
struct fixture_round {
	const char *name;	/* of a tool or prompt */
	const char *inputs[3];	/* "key" of what is asked, below */
	const char *next[1];	/* asked after those */
	bool state;		/* with a requestState */
	bool by_capability;	/* only what the client has declared */
};
void fixture_round_call(struct cbx_tool_call *tool, const cJSON *args);
/* The result for a request with these params: printed JSON; or NULL with an error's text. */
char *fixture_round(const char *name, const cJSON *params, const char **ret_error);

/* A result from a JSON text. */
void fixture_end(struct cbx_mcp_call *call, const char *json);
static inline struct cbx_mcp_call *fixture_call(struct cbx_tool_call *tool)
{
	return cbx_container_of(tool, struct cbx_mcp_call, tool);
}
char *fixture_quote(const char *text); /* as a JSON string; malloc'd */

#endif
