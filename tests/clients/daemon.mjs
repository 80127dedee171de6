// SPDX-License-Identifier: Apache-2.0
// What the tests of the TypeScript clients share: a run-time directory, and so a codeboxd, of the importing script
// alone (another build's may be running), TAP output, and the steps of scenario.py.
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

const dir = mkdtempSync(path.join(os.tmpdir(), "cbx"));
process.env.CODEBOX_RUNTIME_DIR = path.join(dir, "run");
process.env.CODEBOX_STATE_DIR = path.join(dir, "state");
process.on("exit", () => {
	spawnSync(process.env.CODEBOX || "codebox", ["stop"], { stdio: "ignore" });
	rmSync(dir, { recursive: true, force: true });
});

// Until an answer that does not come is a failure; nothing depends on how fast it comes.
export const PATIENCE = 180_000;
export const CODEBOX =
	process.env.CODEBOX || spawnSync("sh", ["-c", "command -v codebox"], { encoding: "utf8" }).stdout.trim();
export const env = Object.fromEntries(Object.entries(process.env).filter(([k]) => k.startsWith("CODEBOX")));

export function skipAll(why) {
	console.log(`1..0 # SKIP ${why}`);
	process.exit(0);
}

// The require() of the directory that setup.sh fills; the whole script is skipped when it cannot.
export function setup(kind) {
	if (!CODEBOX) skipAll("CODEBOX does not name the program, and there is no codebox on the path");
	const here = path.dirname(fileURLToPath(import.meta.url));
	const r = spawnSync(path.join(here, "setup.sh"), [kind], { encoding: "utf8" });
	if (r.status === 77) skipAll(r.stderr.trim().split("\n").pop());
	if (r.status !== 0) {
		console.log(`Bail out! setup.sh: ${r.stderr.trim()}`);
		process.exit(1);
	}
	return createRequire(path.join(r.stdout.trim(), "index.js"));
}

// ---- TAP ----

let count = 0;
let failed = 0;

export function ok(passed, name, detail) {
	count++;
	console.log(`${passed ? "ok" : "not ok"} ${count} - ${name}`);
	if (passed) return;
	failed++;
	const text = typeof detail === "string" ? detail : JSON.stringify(detail) ?? "";
	for (const line of text.slice(0, 3000).split("\n")) console.log(`#   ${line}`);
}

export function equal(got, want, name) {
	const [is, should] = [got, want].map((value) => JSON.stringify(value));
	ok(is === should, name, `got ${is}, want ${should}`);
}

export async function group(title, fn) {
	console.log(`# ${title}`);
	try {
		await fn();
	} catch (e) {
		ok(false, title, e.stack ?? String(e));
	}
}

export function done() {
	console.log(`1..${count}`);
	process.exit(failed ? 1 : 0);
}

export const shown = (r) => r.content[0].text;

// ---- scenario ----

async function cells(run, name) {
	let r = await run("x = 41\nprint('h\u00e9llo \u{1f600}')\nx");
	ok(!r.isError && shown(r).startsWith("h\u00e9llo \u{1f600}\n41"), `${name}: output, then the value`, r);
	r = await run("x += 1\nx");
	equal(r.structuredContent.result, "42", `${name}: variables are kept from cell to cell`);
	r = await run("import matplotlib.pyplot as plt\n_ = plt.plot([1, 2, 3], [x, 1, 7])");
	const images = r.content.filter((b) => b.type === "image");
	equal(images.map((b) => b.mimeType), ["image/png"], `${name}: a figure comes as an image`);
	const png = Buffer.from(images[0]?.data ?? "", "base64");
	const ended = png.subarray(-8, -4).toString() === "IEND";
	ok(png.length > 1000 && png.readUInt32BE(16) > 100 && ended, `${name}: which is a picture`);
	r = await run("print('before')\n{}['missing']");
	const named = r.structuredContent.error?.name === "KeyError";
	ok(!r.isError && named && shown(r).includes("before"), `${name}: an exception is a result`, r);
	r = await run("while True: pass", { timeout: 1 });
	const { status, state_kept } = r.structuredContent;
	ok(!r.isError && status === "timeout" && state_kept, `${name}: time is up`, r);
	equal((await run("x")).structuredContent.result, "42", `${name}: variables survive it`);
	r = await run("1", { session_id: "none-such" });
	ok(r.isError && shown(r).includes("none-such"), `${name}: a session that is not there is named`, r);
}

async function files(call, run, name, session_id) {
	let r = await call("write_file", { path: "in.csv", content: "a,b\n1,\u00e9\n", session_id });
	equal(r.structuredContent.written, 9, `${name}: a file goes in`);
	r = await run("s = open('in.csv', encoding='utf-8').read()\n" +
		"with open('out.txt', 'w') as f: _ = f.write(s * 2)");
	const made = r.structuredContent.files?.find((f) => f.path === "out.txt");
	equal(made?.size, 18, `${name}: the file that a cell made is told`);
	r = await call("read_file", { path: "out.txt", session_id });
	equal(r.structuredContent.content, "a,b\n1,\u00e9\n".repeat(2), `${name}: and comes out`);
	r = await run("import time\ntime.sleep(0.5)\nz = x * 2\nz", { background: true });
	ok(["running", "queued"].includes(r.structuredContent.status), `${name}: a run in the background`, r);
	const { execution_id } = r.structuredContent;
	for (let i = 0; i < 9 && ["running", "queued"].includes(r.structuredContent.status); i++)
		r = await call("get_execution", { session_id, execution_id, wait: 20 });
	equal(r.structuredContent.result, "84", `${name}: its result is asked for later`);
}

async function cancellation(call, run, name, session_id) {
	const stop = new AbortController();
	const code = "y = 1\nimport time\nprint('started', flush=True)\ntime.sleep(3000)";
	const onprogress = (p) => p.message?.includes("started") && stop.abort("enough");
	const long = run(code, { timeout: 3600 }, { signal: stop.signal, onprogress });
	const gave = await long.then(() => "an answer", (e) => (stop.signal.aborted ? "up" : String(e)));
	equal(gave, "up", `${name}: a call is cancelled`);
	let r = await run("y");
	equal(r.structuredContent.result, "1", `${name}: its cell is interrupted, its variables are kept`);
	r = await call("get_execution", { session_id, execution_id: r.structuredContent.execution_id - 1 });
	equal(r.structuredContent.status, "cancelled", `${name}: and says so`);
}

// call(tool, arguments, options) calls a tool; tools: the names of those that there are.
export async function scenario(name, tools, call) {
	const used = ["run_code", "create_session", "list_sessions", "close_session"];
	ok(used.every((t) => tools.includes(t)), `${name}: tools`, tools);
	const { session_id } = (await call("create_session", {})).structuredContent;
	const run = (code, more = {}, options = {}) => call("run_code", { code, session_id, ...more }, options);
	await cells(run, name);
	await files(call, run, name, session_id);
	await cancellation(call, run, name, session_id);
	const r = await call("close_session", { session_id });
	equal(r.structuredContent.closed, true, `${name}: the session is closed`);
}
