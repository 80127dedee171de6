/* SPDX-License-Identifier: Apache-2.0 */
#include "profiles/profiles.h"

#include "profiles/internal.h"

const struct cbx_mcp_registry *const cbx_profiles[] = {
	&cbx_profile_codebox_ai.registry,
	&cbx_profile_codeboxmcp.registry,
	&cbx_profile_code_sandbox.registry,
	&cbx_profile_mcp_code_sandbox.registry,
	NULL,
};
