/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_WIRE_CODES_H
#define CBX_WIRE_CODES_H

/* Error codes of JSON-RPC and of MCP. */
enum cbx_rpc_code {
	CBX_RPC_MORE = 1, /* not an error: of struct cbx_rpc_io */
	CBX_RPC_PARSE = -32700,
	CBX_RPC_INVALID_REQUEST = -32600,
	CBX_RPC_NO_METHOD = -32601,
	CBX_RPC_INVALID_PARAMS = -32602,
	CBX_RPC_INTERNAL = -32603,
	CBX_RPC_SESSION_NOT_FOUND = -32001,  /* of the HTTP transport */
	CBX_RPC_RESOURCE_NOT_FOUND = -32002, /* revisions with a handshake */
	CBX_RPC_HEADER_MISMATCH = -32020,    /* this one and the next two: from 2026-07-28 on */
	CBX_RPC_MISSING_CAPABILITY = -32021, /* data: {"requiredCapabilities":{...}} */
	CBX_RPC_UNSUPPORTED_VERSION = -32022,
};

#endif
