/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_MCP_ERAS_H
#define CBX_MCP_ERAS_H

/* The revisions of the protocol. */
#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"

/* What a protocol revision knows; answers leave out the rest. */
struct cbx_mcp_revision {
	const char *name;
	bool batches;
	bool annotations;      /* of tools */
	bool progress_message; /* in notifications/progress */
	bool titles;	       /* of tools and of the server */
	bool structured;       /* outputSchema and structuredContent */
	bool completions;      /* as a capability */
	bool primes;	       /* a stream begins with an event that has an id alone, to be continued from */
	bool modern;	       /* no handshake: resultType, caching, no session that belongs to the connection */
};

/* The era of the handshake; NULL: it has no such revision. */
const struct cbx_mcp_revision *cbx_mcp_legacy_newest(void);
const struct cbx_mcp_revision *cbx_mcp_legacy_revision(const char *name);
/* The era in which every request stands for itself. */
const struct cbx_mcp_revision *cbx_mcp_modern_newest(void);

#define CBX_TTL_LIST_MS 3600000 /* of lists that are part of the program */
/* Puts into a result how long, and for whom, it may be kept; nothing where the revision does not know that. */
void cbx_mcp_set_caching(cJSON *result, const struct cbx_mcp_revision *rev, uint64_t ttl_ms, bool is_public);

#endif
