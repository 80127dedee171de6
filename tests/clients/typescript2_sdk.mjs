#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// codebox mcp as series 2 of the official TypeScript client (npm @modelcontextprotocol/client) uses it: with the
// handshake, and with the era that has none. The steps are those of scenario.py.
import { CODEBOX, PATIENCE, done, env, equal, group, scenario, setup } from "./daemon.mjs";

const require = setup("node22");
const { Client } = require("@modelcontextprotocol/client");
const { StdioClientTransport } = require("@modelcontextprotocol/client/stdio");

async function works(name, mode, version) {
	const client = new Client({ name: "codebox-tests", version: "0" }, { versionNegotiation: { mode } });
	await client.connect(new StdioClientTransport({ command: CODEBOX, args: ["mcp"], env }));
	try {
		equal(client.getNegotiatedProtocolVersion(), version, `${name}: the revision that is agreed on`);
		const { tools } = await client.listTools();
		await scenario(name, tools.map((t) => t.name), (tool, args, options = {}) =>
			client.callTool({ name: tool, arguments: args }, { timeout: PATIENCE, ...options }));
	} finally {
		await client.close();
	}
}

await group("legacy", () => works("legacy", "legacy", "2025-11-25"));
await group("auto", () => works("auto", "auto", "2026-07-28"));
done();
