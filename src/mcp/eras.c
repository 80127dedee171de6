/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: what revisions differ in is a row of a table. Nothing here belongs to a connection.
 */
#include <string.h>

#include "base/cleanup.h"
#include "mcp/eras.h"
#include "mcp/mcp.h"

/* Newest first. */
static const struct cbx_mcp_revision legacy[] = {
	{ "2025-11-25", false, true, true, true, true, true, true, false },
	{ "2025-06-18", false, true, true, true, true, true, false, false },
	{ "2025-03-26", true, true, true, false, false, true, false, false },
	{ "2024-11-05", false, false, false, false, false, false, false, false },
};

static const struct cbx_mcp_revision modern = {
	.name = "2026-07-28",
	.annotations = true,
	.progress_message = true,
	.titles = true,
	.structured = true,
	.completions = true,
	.modern = true,
};

const struct cbx_mcp_revision *cbx_mcp_legacy_newest(void)
{
	return &legacy[0];
}

const struct cbx_mcp_revision *cbx_mcp_legacy_revision(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(legacy); i++)
		if (strcmp(name, legacy[i].name) == 0)
			return &legacy[i];
	return NULL;
}

enum cbx_mcp_era cbx_mcp_era_of(const char *version)
{
	if (cbx_mcp_legacy_revision(version))
		return CBX_MCP_LEGACY;
	return strcmp(version, modern.name) >= 0 ? CBX_MCP_MODERN : CBX_MCP_UNKNOWN;
}

bool cbx_mcp_primes(const char *version)
{
	const struct cbx_mcp_revision *rev = cbx_mcp_legacy_revision(version);

	return rev && rev->primes;
}

const struct cbx_mcp_revision *cbx_mcp_modern_newest(void)
{
	return &modern;
}

void cbx_mcp_set_caching(cJSON *result, const struct cbx_mcp_revision *rev, uint64_t ttl_ms, bool is_public)
{
	if (!rev->modern)
		return;
	cbx_json_set_u64(result, "ttlMs", ttl_ms);
	cbx_json_set_str(result, "cacheScope", is_public ? "public" : "private");
}
