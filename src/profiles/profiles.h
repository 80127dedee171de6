/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_PROFILES_PROFILES_H
#define CBX_PROFILES_PROFILES_H

/*
 * What other servers offer, offered by this one: their tools, resources, texts and shapes of results, as tables over
 * the same engine. codebox-profiles(7) says where each differs.
 */
#include "mcp/mcp.h"

extern const struct cbx_mcp_registry *const cbx_profiles[]; /* NULL-terminated */

#endif
