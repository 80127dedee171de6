#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// codeboxd --http as the official TypeScript client (npm @modelcontextprotocol/sdk 1.x) uses it.
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, chmodSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

const HERE = path.dirname(fileURLToPath(import.meta.url));
const PATIENCE = 180_000;
let count = 0;
let failed = 0;

function skipAll(why) {
	console.log(`1..0 # SKIP ${why}`);
	process.exit(0);
}

function ok(passed, name, detail) {
	count++;
	failed += passed ? 0 : 1;
	console.log(`${passed ? "ok" : "not ok"} ${count} - ${name}`);
	if (!passed) console.log(`#   ${JSON.stringify(detail)?.slice(0, 2000)}`);
}

const setup = spawnSync(path.join(HERE, "..", "clients", "setup.sh"), ["node"], { encoding: "utf8" });
if (setup.status === 77) skipAll(setup.stderr.trim().split("\n").pop());
if (setup.status !== 0) {
	console.log(`Bail out! setup.sh: ${setup.stderr.trim()}`);
	process.exit(1);
}
const require = createRequire(path.join(setup.stdout.trim(), "index.js"));
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");

const dir = mkdtempSync(path.join(os.tmpdir(), "cbx"));
chmodSync(dir, 0o755);
const env = { ...process.env, CODEBOX_RUNTIME_DIR: path.join(dir, "run"), CODEBOX_STATE_DIR: path.join(dir, "state") };
const daemon = spawn(process.env.CODEBOX_DAEMON ?? "codeboxd", ["--foreground", "--http", "127.0.0.1:0"],
	{ env, stdio: ["ignore", "ignore", "pipe"] });
const ended = new Promise((resolve) => daemon.on("exit", resolve));
const url = await new Promise((resolve, reject) => {
	let text = "";
	daemon.stderr.on("data", (d) => {
		text += d;
		const m = /http:\/\/127\.0\.0\.1:\d+\/mcp/.exec(text);
		if (m) resolve(m[0]);
	});
	daemon.on("exit", () => reject(new Error(text)));
	daemon.on("error", reject);
});

async function scenario() {
	const transport = new StreamableHTTPClientTransport(new URL(url));
	const client = new Client({ name: "codebox-tests", version: "0" });
	const faults = [];
	client.onerror = (e) => faults.push(String(e));
	await client.connect(transport);
	const run = (code, more = {}) => client.callTool({ name: "run_code", arguments: { code } }, undefined,
		{ timeout: PATIENCE, ...more });
	const first = await run("x = 6");
	if (first.isError) return first.content[0].text;
	ok(transport.sessionId?.length > 20, "a session", transport.sessionId);
	await client.listTools();
	const r = await run("x * 7");
	ok(r.structuredContent.result === "42", "state is kept", r);
	const progress = [];
	await run("import time\nfor i in range(8):\n    print(i, flush=True)\n    time.sleep(0.2)",
		{ onprogress: (p) => progress.push(p.progress) });
	ok(progress.length >= 2 && progress.every((p, i) => !i || p > progress[i - 1]), "progress", progress);
	const late = await run("import time\ntime.sleep(3)\n'late'");
	ok(late.structuredContent.result === "'late'", "an answer that takes its time", late);
	const stop = new AbortController();
	const going = run("import time\ny = 1\nprint('go', flush=True)\ntime.sleep(3000)",
		{ signal: stop.signal, onprogress: () => stop.abort() });
	const how = await going.then(() => "answered", () => "cancelled");
	ok(how === "cancelled", "cancelled", how);
	const after = await run("y");
	ok(after.structuredContent.result === "1", "after a cancellation the session answers", after);
	const many = await Promise.all(Array.from({ length: 16 }, (_, i) => run(`${i} * 2`)));
	ok(many.every((m, i) => m.structuredContent.result === String(i * 2)), "many at once", many.length);
	await transport.terminateSession();
	await client.close();
	ok(faults.length === 0, "no errors on the way", faults);
	return null;
}

let why = null;
try {
	why = await scenario();
} catch (e) {
	ok(false, "scenario", e.stack ?? String(e));
}
daemon.kill("SIGTERM");
const status = await ended;
rmSync(dir, { recursive: true, force: true });
if (why) skipAll(`no cell can run here: ${why}`);
ok(status === 0, "exit status", status);
console.log(`1..${count}`);
process.exit(failed ? 1 : 0);
