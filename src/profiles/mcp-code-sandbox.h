/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_PROFILES_MCP_CODE_SANDBOX_H
#define CBX_PROFILES_MCP_CODE_SANDBOX_H

#include "profiles/internal.h"

/* The session that the arguments name, in call->session_id; -1: the call was answered. */
int cbx_mcs_session(struct cbx_tool_call *call, const cJSON *args);
/* Ends the call with {"error": before + why}. */
void cbx_mcs_error(struct cbx_tool_call *call, const char *before, const char *why);

extern const struct cbx_tool cbx_mcs_list_files, cbx_mcs_read_file, cbx_mcs_write_file, cbx_mcs_upload_file;

#endif
