/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_PROFILES_NAMES_H
#define CBX_PROFILES_NAMES_H

/* What `codebox mcp --profile` and the paths /mcp/NAME of codeboxd accept; profiles.c holds the tables. */
#define CBX_PROFILE_NAMES "native", "codebox-ai", "codeboxmcp", "code-sandbox", "mcp-code-sandbox"
#define CBX_PROFILE_KNOWN "native, codebox-ai, codeboxmcp, code-sandbox or mcp-code-sandbox"

#endif
