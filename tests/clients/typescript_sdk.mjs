#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// codebox mcp as the official TypeScript client (npm @modelcontextprotocol/sdk 1.x) uses it.
import { CODEBOX, PATIENCE, done, env, equal, group, ok, scenario, setup, shown, skipAll } from "./daemon.mjs";
import * as zlib from "node:zlib";

const require = setup("node");
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");
const Ajv2020 = require("ajv/dist/2020.js").default;

// ---- client ----

async function withClient(fn) {
	const client = new Client({ name: "codebox-tests", version: "0" });
	client.faults = [];
	client.onerror = (e) => client.faults.push(String(e));
	await client.connect(new StdioClientTransport({ command: CODEBOX, args: ["mcp"], env }));
	try {
		await client.listTools(); // from here on structured content is checked against the schemas
		return await fn(client);
	} finally {
		await client.close();
	}
}

function call(client, name, args, options = {}) {
	return client.callTool({ name, arguments: args }, undefined, { timeout: PATIENCE, ...options });
}

const run = (client, code, more = {}, options = {}) => call(client, "run_code", { code, ...more }, options);

function crc(data) {
	if (zlib.crc32) return zlib.crc32(data); // since Node 22
	let c = ~0;
	for (const byte of data) {
		c ^= byte;
		for (let k = 0; k < 8; k++) c = c & 1 ? (c >>> 1) ^ 0xedb88320 : c >>> 1;
	}
	return ~c >>> 0;
}

// [width, height] of a PNG whose checksums and pixel data are sound.
function pngSize(data) {
	if (data.toString("latin1", 0, 8) !== "\x89PNG\r\n\x1a\n") throw new Error("no PNG signature");
	let size = null;
	const pixels = [];
	for (let at = 8; at < data.length; ) {
		const length = data.readUInt32BE(at);
		const kind = data.toString("latin1", at + 4, at + 8);
		const body = data.subarray(at + 8, at + 8 + length);
		if (crc(data.subarray(at + 4, at + 8 + length)) !== data.readUInt32BE(at + 8 + length)) throw new Error(`checksum of ${kind}`);
		if (kind === "IHDR") size = [body.readUInt32BE(0), body.readUInt32BE(4)];
		if (kind === "IDAT") pixels.push(body);
		at += 12 + length;
	}
	if (zlib.inflateSync(Buffer.concat(pixels)).length < size[1] * 2) throw new Error("too few pixels");
	return size;
}

// ---- scenario ----

await withClient(async (c) => {
	const r = await run(c, "1+1");
	if (r.isError && shown(r).includes("image") && !process.env.CODEBOX_TESTS_REQUIRE_IMAGE)
		skipAll(`no cell can run here: ${shown(r)}`);
});

await group("conversation", () =>
	withClient(async (c) => {
		equal(c.getServerVersion().name, "codebox", "server name");
		ok(c.getServerCapabilities().tools, "tools are declared");
		const { tools } = await c.listTools();
		equal(tools.map((t) => t.name), ["run_code", "run_command", "get_execution", "interrupt", "create_session", "list_sessions",
			"session_info", "close_session", "restart", "list_files", "read_file", "write_file", "upload_file", "install_packages", "run_sql"], "tools");
		const ajv = new Ajv2020({ strict: false });
		for (const t of tools)
			ok(ajv.validateSchema(t.inputSchema) && ajv.validateSchema(t.outputSchema), `${t.name}: schemas are schemas`, ajv.errors);
		const valid = ajv.compile(tools[0].outputSchema);

		let r = await run(c, "x = 20\nprint('hello')\nx + 1");
		ok(shown(r).startsWith("hello\n21"), "output, then the value", shown(r));
		ok(valid(r.structuredContent), "structured content conforms", valid.errors);
		r = await run(c, "x * 2");
		equal(r.structuredContent.result, "40", "variables persist");
		r = await run(c, "1/0");
		ok(!r.isError && r.structuredContent.error.name === "ZeroDivisionError", "an exception is a result", r);
		ok(valid(r.structuredContent), "and conforms", valid.errors);
		r = await run(c, "print('\\U0001f600 \\u20ac')");
		ok(shown(r).startsWith("\u{1f600} \u20ac"), "characters", shown(r));
		equal(c.faults, [], "nothing on the wire that the client could not read");
	}));

await group("data and figures", () =>
	withClient(async (c) => {
		let r = await run(c, "import pandas as pd\npd.DataFrame({'n': range(3), 'sq': [i * i for i in range(3)]})");
		ok(shown(r).includes("sq") && !shown(r).includes("<table"), "a DataFrame is text", shown(r));
		r = await run(c, "import matplotlib.pyplot as plt\nplt.plot([1, 4, 9])");
		const image = r.content.find((b) => b.type === "image");
		equal(image?.mimeType, "image/png", "a figure comes by itself");
		const [w, h] = pngSize(Buffer.from(image.data, "base64"));
		ok(w > 100 && h > 100, "and is a picture", [w, h]);
	}));

await group("time", () =>
	withClient(async (c) => {
		let r = await run(c, "kept = 1\nimport time\ntime.sleep(3000)", { timeout: 1 });
		ok(!r.isError && r.structuredContent.status === "timeout" && r.structuredContent.state_kept, "timeout", r.structuredContent);
		r = await run(c, "kept");
		equal(r.structuredContent.result, "1", "variables survive it");
		r = await run(c, "import os\nos.kill(os.getpid(), 9)");
		ok(r.isError && r.structuredContent.status === "killed", "death is named", r);
		equal((await run(c, "2")).structuredContent.result, "2", "the session lives on");
	}));

await group("cancellation and progress", () =>
	withClient(async (c) => {
		const abort = new AbortController();
		const messages = [];
		let started;
		const hasStarted = new Promise((resolve) => (started = resolve));
		const long = run(c, "y = 2\nimport time\nprint('started', flush=True)\ntime.sleep(3000)", { timeout: 3600 }, {
			signal: abort.signal,
			onprogress: (p) => {
				messages.push(p.message);
				if (p.message === "started") started();
			},
		}).then(() => "answered", () => "aborted");
		await hasStarted;
		await c.ping();
		ok(true, "progress has the newest line, ping is answered while code runs");
		abort.abort();
		equal(await long, "aborted", "the call is cancelled");
		equal((await run(c, "y")).structuredContent.result, "2", "the session goes on");
		equal(c.faults, [], "nothing is sent for a cancelled call");
	}));

await group("sessions", async () => {
	const id = await withClient(async (c) => {
		const made = (await call(c, "create_session", {})).structuredContent.session_id;
		await run(c, "n = 5", { session_id: made });
		const answers = await Promise.all(
			Array.from({ length: 40 }, (_, i) => run(c, `print(${i})`, i % 2 ? { session_id: made } : {})));
		equal(answers.map((r) => r.structuredContent.stdout), Array.from({ length: 40 }, (_, i) => `${i}\n`), "forty calls at once");
		return made;
	});
	await withClient(async (c) => {
		equal((await run(c, "n", { session_id: id })).structuredContent.result, "5", "a session outlives the client's process");
		const listed = (await call(c, "list_sessions", {})).structuredContent.sessions;
		ok(listed.some((s) => s.session_id === id), "list_sessions has it", listed);
		ok((await call(c, "close_session", { session_id: id })).structuredContent.closed, "close_session");
		const r = await run(c, "n", { session_id: id });
		ok(r.isError && shown(r).includes(id), "then it is refused", r);
	});
});

await group("bad input", () =>
	withClient(async (c) => {
		const code = (p) => p.then(() => 0, (e) => e.code);
		equal(await code(call(c, "none", {})), -32602, "unknown tool");
		equal(await code(run(c, "a\0b")), -32602, "NUL in a string");
		equal(await code(run(c, "\ud800")), -32602, "lone surrogate");
		for (const [name, args, word] of [
			["run_code", {}, "code"],
			["run_code", { code: 1 }, "code"],
			["run_code", { code: "1", timeout: 1e9 }, "timeout"],
			["run_code", { code: "1", session_id: "none-such" }, "none-such"],
			["create_session", { image: "none-such" }, "none-such"],
			["run_code", { code: "#".repeat(20 << 20) }, "code"],
		]) {
			const r = await call(c, name, args);
			ok(r.isError && shown(r).includes(word), `${name}: ${JSON.stringify(args).slice(0, 60)}`, r);
		}
		equal((await run(c, "3")).structuredContent.result, "3", "the server is unharmed");
	}));

await group("big output", () =>
	withClient(async (c) => {
		const r = await run(c, "for i in range(200000): print('line', i)");
		ok(shown(r).length < 21000 && shown(r).includes("omitted"), "output is cut, and says so", shown(r).length);
		ok(r.structuredContent.omitted.bytes > 1e6, "how much was left out", r.structuredContent.omitted);
	}));

await group("the scenario of every client", () =>
	withClient(async (c) => {
		const { tools } = await c.listTools();
		await scenario("series 1", tools.map((t) => t.name), (...args) => call(c, ...args));
		equal(c.faults, [], "nothing on the wire that the client could not read");
	}));

done();
