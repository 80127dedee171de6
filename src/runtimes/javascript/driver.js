// SPDX-License-Identifier: Apache-2.0
//
// The JavaScript interpreter of a codebox session: Node.js 18 or later runs this file, and speaks frames with codeboxd
// (src/interp/interpreter-protocol.h) on descriptors 3 and 4.
//
// Cells are evaluated by V8's own REPL mode, through an inspector session of this process with itself: a later cell can
// declare a name again, and "await" stands at the top. What V8 has not in that mode, imports, and names that are declared
// again in another way, is rewritten (source.js).
//
// An interrupt ends what runs synchronously, and what runs in microtasks behind it, by vm's breakOnSigint; while a cell
// waits for its promise, a handler of SIGINT ends the waiting. Timers and servers live on.
'use strict';
const fs = require('fs');
const inspector = require('inspector');
const Module = require('module');
const net = require('net');
const path = require('path');
const { Writable } = require('stream');
const url = require('url');
const util = require('util');
const vm = require('vm');
const { IMPORT, Source, imports, plain, prepared, respell, spelled } = require('./source.js');

const FRAME_MAX = 12 << 20; // codeboxd kills an interpreter that sends more
const WORKSPACE = '/workspace';
const PATIENCE = 2000; // ms of a cell, for all its waits
const SOURCES = 200; // cells whose text is kept, for errors in what they made
const { stringify, parse } = JSON;
const realExit = process.reallyExit.bind(process);

// ---- frames ----

const { readSync, writeSync } = fs;
const now = performance.now.bind(performance), still = new Int32Array(new SharedArrayBuffer(4)), wait = Atomics.wait;
const pause = (ms) => void wait(still, 0, 0, ms);
const out = (fd, data) => {
	for (let at = 0; at < data.length;) {
		try {
			at += writeSync(fd, data, at);
		} catch (e) {
			if (e.code !== 'EAGAIN') throw e;
			pause(1);
		}
	}
};

const send = (frame) => {
	let body = Buffer.from(stringify(frame));
	if (body.length > FRAME_MAX) {
		frame = { ...frame, data: { 'text/plain': `<${body.length} bytes, too many to show>` }, metadata: {} };
		body = Buffer.from(stringify(frame));
	}
	const head = Buffer.alloc(4);
	head.writeUInt32LE(body.length);
	try {
		out(4, Buffer.concat([head, body]));
	} catch {
		realExit(1); // codeboxd has gone, or user code closed the pipe
	}
};

let buffered = Buffer.alloc(0);
const messages = [];
const channel = new net.Socket({ fd: 3, readable: true, writable: false });

const received = (chunk) => {
	buffered = buffered.length ? Buffer.concat([buffered, chunk]) : chunk;
	while (buffered.length >= 4) {
		const size = buffered.readUInt32LE();
		if (buffered.length < 4 + size) break;
		const m = parse(buffered.toString('utf8', 4, 4 + size));
		if (m.op === 'synced') synced = m.id;
		else messages.push(m);
		buffered = buffered.subarray(4 + size);
	}
};
channel.on('data', (chunk) => {
	received(chunk);
	serve();
});
channel.on('close', () => realExit(0));

// ---- the order of what is printed and shown ----

// Each pipe is in order; codeboxd reads them as they fill, and a frame after what it finds in the others then.
let asked = 0, synced = 0, patience = 0, last = 0; // last: the descriptor of what may not be read yet; 0: all is read

// Wait until codeboxd has taken all that there is.
const settle = () => {
	last = 0;
	if (!cell || patience <= 0) return;
	const start = now(), id = ++asked, chunk = Buffer.alloc(4096);
	send({ ev: 'sync', id });
	for (let ms = 0.05; synced < id && now() - start < patience; ms = Math.min(ms * 2, 1)) {
		pause(ms);
		try {
			const n = readSync(3, chunk);
			if (!n) realExit(0);
			received(Buffer.from(chunk.subarray(0, n)));
		} catch (e) {
			if (e.code !== 'EAGAIN') throw e;
		}
	}
	patience -= now() - start;
	if (messages.length) setImmediate(serve);
};

// Before something is written there.
const turn = (fd) => {
	if (last && last !== fd) settle();
	last = fd;
};

// ---- what a cell shows ----

let cell = 0; // id of the one that runs; 0: none
let count = 0;

const show = (ev, data, metadata = {}, more = {}) => send({ ev, id: cell, ...more, data, metadata });

const binary = (value) => (typeof value === 'string' ? value : Buffer.from(value).toString('base64'));
const isBinary = (mime) => /^(image\/(?!svg)|audio\/|video\/|application\/(pdf|octet-stream))/.test(mime);

const isBundle = (value) => value && typeof value === 'object' && Object.keys(value).length > 0 &&
	Object.keys(value).every((key) => /^[\w.+-]+\/[\w.+-]+$/.test(key));

const bundle = (data) => Object.fromEntries(Object.entries(data).map(([mime, v]) => [mime,
	isBinary(mime) ? binary(v) : typeof v === 'string' || /[/+]json$/.test(mime) ? v : stringify(v)]));

const inspect = (value) => util.inspect(value, { showProxy: true });

// MIME types of a value, by the symbols that Jupyter's kernels for JavaScript have.
const rich = (value) => {
	if (value === null || (typeof value !== 'object' && typeof value !== 'function')) return null;
	try {
		const method = value[Symbol.for('Jupyter.display')] ?? value[Symbol.for('codebox.display')];
		const data = typeof method === 'function' ? method.call(value) : null;
		return isBundle(data) ? { 'text/plain': inspect(value), ...bundle(data) } : null;
	} catch {
		return null;
	}
};

const display = (value, options = {}) => {
	const data = options.raw || isBundle(value) ? bundle(value) : rich(value) ?? { 'text/plain': inspect(value) };
	if (!cell) return void process.stdout.write(`${data['text/plain'] ?? Object.keys(data).join(', ')}\n`);
	show('display', data, options.metadata);
	settle();
};

for (const [name, mime] of Object.entries({ html: 'text/html', markdown: 'text/markdown', svg: 'image/svg+xml',
	png: 'image/png', jpeg: 'image/jpeg', json: 'application/json', text: 'text/plain' }))
	display[name] = (value) => display({ [mime]: value }, { raw: true });

// ---- errors ----

class Exit {
	constructor(code) {
		this.code = code;
	}
}

const sources = new Map(); // of the last cells, by their numbers

const keep = (source) => {
	sources.set(count, source);
	sources.delete(count - SOURCES);
	return source;
};

const PLACE = /\bcell(\d+):(\d+):(\d+)/;
const hides = (line) => line.includes(`${__dirname}/`) || /\bnode:(?:internal|codebox|inspector|vm)\b/.test(line);

// What "stack" of an error is: places as the user wrote them, without the frames that brought the cell here.
Error.prepareStackTrace = (error, frames) => {
	const lines = frames.map(String).filter((line) => !hides(line)).map((line) => line.replace(PLACE, (at, n, l, c) => {
		const where = sources.get(Number(n))?.place(Number(l), Number(c));
		return where ? `cell${n}:${where.line}:${where.column}` : at;
	}));
	if (lines.at(-1) === 'new Promise (<anonymous>)') lines.pop(); // that of post()
	let head;
	try {
		head = Error.prototype.toString.call(error);
	} catch {
		head = 'an error that cannot be shown';
	}
	return plain([head, ...lines].join('\n    at '));
};

const trace = (error) => {
	try {
		const text = plain(inspect(error));
		return util.types.isNativeError(error) ? text.replace(/^\[([^]*)\]$/, '$1') : text; // one without a stack
	} catch {
		return 'an error that cannot be shown';
	}
};

// The line of a cell that an error is about: that of the first place in its trace.
const excerpt = (text) => {
	const [, n, line, column] = /^\s+at .*\bcell(\d+):(\d+):(\d+)/m.exec(text) ?? [];
	const shown = n && sources.get(Number(n))?.shown(Number(line), Number(column));
	return shown ? `cell ${n}:${line}\n${shown}\n` : '';
};

// Where a cell cannot be compiled, the error itself does not say.
const place = (details, source) => {
	const { line, column } = source.place(details.lineNumber + 1, details.columnNumber + 1);
	return `cell ${count}:${line}\n${source.shown(line, column)}\n`;
};

const fail = (error, before = '') => {
	const known = error !== null && typeof error === 'object' && util.types.isNativeError(error);
	const name = known ? String(error.name) : 'Uncaught';
	const value = plain(known ? String(error.message) : inspect(error));
	const text = known ? trace(error) : `Uncaught ${value}`;
	send({ ev: 'error', id: cell, name, value, traceback: (before || excerpt(text)) + text });
};

// What nobody handles ends a program, and is only shown of a cell.
const late = (event, what) => process.on(event, (error) => {
	if (error instanceof Exit) {
		if (leave) leave({ exit: error });
		return;
	}
	if (process.listenerCount(event) > 1) return; // the user's own
	turn(2);
	out(2, Buffer.from(`${what} ${trace(error)}\n`));
	if (isProgram && leave) leave({ code: 1 });
});
late('unhandledRejection', 'Uncaught (in promise)');
late('uncaughtException', 'Uncaught');

// ---- modules ----

let home = null; // what stands for a module in the current directory

const here = () => {
	const directory = process.cwd();
	if (home?.directory === directory) return home;
	const module = new Module(path.join(directory, 'cell.js'), null);
	module.filename = module.id;
	module.paths = Module._nodeModulePaths(directory);
	module._compile('module.exports = { load: (name, options) => import(name, options), require };', module.filename);
	home = { directory, ...module.exports };
	return home;
};

const load = (name, options) => here().load(path.isAbsolute(String(name)) ? url.pathToFileURL(name).href : name, options);
// As a static import does it, which needs all its names.
load.all = async (name, names, options) => {
	const module = await load(name, options);
	for (const one of names)
		if (!(one in module)) throw new SyntaxError(`The requested module '${name}' does not provide an export named '${one}'`);
	return module;
};
load.meta = { get url() { return url.pathToFileURL(path.join(process.cwd(), 'cell.js')).href; },
	get dirname() { return process.cwd(); },
	resolve: (name) => url.pathToFileURL(here().require.resolve(name)).href };

const strip = (code) => {
	if (typeof Module.stripTypeScriptTypes !== 'function') {
		const error = new Error(`TypeScript needs Node.js 22.13 or later, and this image has ${process.version}: write ` +
			'JavaScript, or use an image with a newer Node.js');
		error.stack = `Error: ${error.message}`;
		throw error;
	}
	try {
		return Module.stripTypeScriptTypes(code);
	} catch (e) {
		e.stack = e.stack.replace(/^(?=:\d+\n)/, `cell ${count}`).replace(/(?:\n\s+at .*)+$/, '');
		delete e.code;
		throw e;
	}
};

// ---- evaluation ----

const session = new inspector.Session();
session.connect();
const post = (method, params) => new Promise((resolve, reject) => {
	session.post(method, params, (error, result) => (error ? reject(error) : resolve(result)));
});

let guarded = null, leave = null, isProgram = false;
const GUARD = new vm.Script('globalThis[Symbol.for("codebox.guard")]()', { filename: 'node:codebox' });
Object.defineProperty(globalThis, Symbol.for('codebox.guard'), { value: () => guarded() });

// Run a function so that SIGINT ends it; microtasks that it leaves run in it, too.
const guard = (f) => {
	guarded = () => {
		f();
		process._tickCallback();
	};
	try {
		GUARD.runInThisContext({ breakOnSigint: true, displayErrors: false });
	} catch (e) {
		if (e?.code === 'ERR_SCRIPT_EXECUTION_INTERRUPTED') leave?.({ interrupted: true });
		else process._fatalException(e, false); // as Node.js does: it leaves no half of a callback behind
	}
};

let stash;
Object.defineProperty(globalThis, Symbol.for('codebox.stash'), { value: (v) => { stash = v; } });

// The value that an object of the inspector stands for, in a list: a promise among them is not to be waited for.
const valueOf = async (remote) => {
	if (remote.objectId) {
		await post('Runtime.callFunctionOn', { objectId: remote.objectId,
			functionDeclaration: 'function () { "use strict"; globalThis[Symbol.for("codebox.stash")](this); }' });
		const v = [stash];
		stash = undefined;
		return v;
	}
	if (remote.unserializableValue === undefined) return [remote.subtype === 'null' ? null : remote.value];
	const text = remote.unserializableValue;
	return [text.endsWith('n') ? BigInt(text.slice(0, -1)) : text === '-0' ? -0 : Number(text)];
};

const REDECLARED = /^Identifier '(.+)' has already been declared$/;

// V8's refusal to declare a name again, before anything of the cell has run: the name. A "var" or function is refused at
// the cell's first place, everything else before there is one.
const refused = (error) => {
	if (!util.types.isNativeError(error) || !(error instanceof SyntaxError)) return null;
	const first = /^\s+at .*\bcell\d+:.*$/m.exec(error.stack)?.[0];
	return !first || first.endsWith(` cell${count}:1:1`) ? REDECLARED.exec(error.message)?.[1] ?? null : null;
};

// Functions and classes have the names that the user gave them.
const rename = async (names) => {
	for (const name of names) {
		const r = await post('Runtime.evaluate', { expression: spelled.get(name), silent: true, throwOnSideEffect: true, replMode: true,
			objectGroup: 'cell' });
		const [value] = r.exceptionDetails ? [] : await valueOf(r.result);
		if (typeof value !== 'function') continue;
		const own = Object.getOwnPropertyDescriptor(value, 'name');
		if (own?.configurable && own.value === spelled.get(name)) Object.defineProperty(value, 'name', { ...own, value: name });
	}
};

// written: what the user wrote, where that is not the code.
const evaluate = async (code, written = code, names = []) => {
	const source = keep(prepared(code, written));
	const left = new Promise((resolve) => { leave = resolve; });
	let evaluated;
	guard(() => {
		evaluated = post('Runtime.evaluate', { expression: `${source.text}\n//# sourceURL=cell${count}`, replMode: true,
			objectGroup: 'cell' });
		evaluated.catch(() => {});
	});
	const r = await Promise.race([left, evaluated ?? left]);
	if (r.interrupted || r.exit || r.code) return r;
	if (!r.exceptionDetails) {
		if (names.length) await rename(names);
		return { value: (await valueOf(r.result))[0] };
	}
	const [thrown] = await valueOf(r.exceptionDetails.exception ?? r.result);
	if (thrown instanceof Exit) return { exit: thrown };
	const again = refused(thrown);
	const name = again && respell(code, again);
	if (name) return evaluate(code, written, [...names, name]);
	const { scriptId } = r.exceptionDetails; // of what cannot be compiled; a file that the cell imports has none
	const syntax = scriptId && util.types.isNativeError(thrown) && thrown instanceof SyntaxError && !/cell\d+:/.test(thrown.stack);
	return { error: thrown, before: syntax ? place(r.exceptionDetails, source) : '' };
};

// A file, run as "node FILE" runs it.
const program = async (name, data) => {
	const file = path.join(fs.existsSync(WORKSPACE) ? WORKSPACE : process.cwd(), name);
	fs.writeFileSync(`${file}.new`, data);
	fs.renameSync(`${file}.new`, file);
	process.argv.splice(1, 1, file);
	delete require.cache[file];
	let r = null, gone = null; // gone: it was left while it ran, as by an exit in a callback
	const left = new Promise((resolve) => {
		leave = (how) => resolve(gone ??= how);
	});
	if (!/\.(mjs|m?ts)$/.test(file))
		guard(() => {
			try {
				Module._load(file, null, true);
				r = {};
			} catch (e) {
				if (e instanceof Exit) r = { exit: e };
				else if (e?.code !== 'ERR_REQUIRE_ESM' && e?.code !== 'ERR_REQUIRE_ASYNC_MODULE') r = { error: e };
			}
		});
	if (gone || r) return gone || r;
	let loaded;
	guard(() => { loaded = load(`${url.pathToFileURL(file).href}?run=${count}`); });
	return Promise.race([left, loaded.then(() => ({}), (e) => (e instanceof Exit ? { exit: e } : { error: e }))]);
};

// As at the end of a process: what the program has begun is waited for, and its exit handlers run.
const finish = async () => {
	const left = new Promise((resolve) => { leave = resolve; });
	channel.unref();
	const r = await Promise.race([left, new Promise((resolve) => process.once('beforeExit', () => resolve({})))]);
	channel.ref();
	return r;
};

const end = async (r) => {
	if (!r.interrupted && !r.exit && !('error' in r) && !r.code) r = { ...await finish(), value: r.value };
	process.exitCode = r.exit?.code ?? r.code ?? ('error' in r ? 1 : process.exitCode ?? 0);
	process.emit('exit', process.exitCode);
	const code = process.exitCode & 255;
	return r.interrupted || 'error' in r ? r : r.exit ? { exit: new Exit(code) } : { ...r, code };
};

// ---- cells ----

const emptyWorkspace = (() => {
	try {
		const s = fs.statSync(WORKSPACE);
		return s.nlink === 2 && !fs.readdirSync(WORKSPACE).length ? s : null;
	} catch {
		return null;
	}
})();

const isEmpty = () => {
	if (!emptyWorkspace) return false;
	const s = fs.statSync(WORKSPACE, { throwIfNoEntry: false });
	return s && s.ino === emptyWorkspace.ino && s.nlink === 2 && s.size === emptyWorkspace.size;
};

const usage = (before) => {
	const now = process.resourceUsage();
	const cpu = (u) => u.userCPUTime + u.systemCPUTime;
	return { cpu_us: Math.max(0, cpu(now) - cpu(before)), read: Math.max(0, now.fsRead - before.fsRead) * 512,
		written: Math.max(0, now.fsWrite - before.fsWrite) * 512, peak: now.maxRSS * 1024 };
};

const executed = async (m) => {
	try {
		if (m.file || m.last) process.exitCode = undefined;
		if (m.argv) process.argv = [process.execPath, ...m.argv.slice(m.file ? 0 : 1)];
		const code = m.dialect === 'typescript' && !m.file ? strip(m.code) : m.code;
		if (m.dialect === 'typescript' && m.file && !process.features.typescript) strip('');
		const asked = m.file ? null : QUESTION.exec(m.code);
		if (asked) return { value: say(await described(asked[1]) ?? `There is no ${asked[1]}.`) };
		const r = m.file ? await program(m.file, Buffer.from(m.code, 'base64')) : await evaluate(code, m.code);
		return m.last ? await end(r) : m.file && process.exitCode ? { ...r, code: process.exitCode & 255 } : r;
	} catch (e) {
		return e instanceof Exit ? { exit: e } : { error: e };
	}
};

const report = (m, r, done) => {
	if (r.exit) Object.assign(done, { status: 'exit', exit_code: r.exit.code });
	else if (r.interrupted) done.status = 'interrupted';
	else if ('error' in r) {
		done.status = 'error';
		fail(r.error, r.before);
	} else {
		if (r.value !== undefined && !m.silent && !m.file) {
			globalThis._ = r.value;
			show('result', rich(r.value) ?? { 'text/plain': inspect(r.value) }, {}, { count });
		}
		if (r.code) Object.assign(done, { status: 'error', exit_code: r.code });
	}
};

const run = async (m) => {
	cell = m.id;
	isProgram = Boolean(m.file || m.last);
	last = 0;
	patience = PATIENCE;
	count++;
	const before = process.resourceUsage();
	stdin = null;
	const r = await executed(m);
	await new Promise(setImmediate); // rejections that nobody handles are reported with their cell
	leave = null;
	const done = { ev: 'done', id: cell, status: 'ok', count };
	try {
		report(m, r, done);
	} catch (e) { // what shows a value is code of the user, too
		done.status = 'error';
		fail(e);
	}
	session.post('Runtime.releaseObjectGroup', { objectGroup: 'cell' });
	done.usage = usage(before);
	if (isEmpty()) done.workspace = 'empty';
	cell = 0;
	send(done);
};

// ---- questions ----

const INCOMPLETE = /Unexpected end of input|Unterminated template|missing \) after argument list|Unterminated regular/;

// "NAME?", as in IPython.
const QUESTION = /^\s*([\p{ID_Start}$_][\p{ID_Continue}$.]*)\s*\?{1,2}\s*$/u;

const isComplete = (m) => {
	let status = 'complete';
	const code = new Source(m.code).edit(imports(m.code)).text;
	if (QUESTION.test(m.code)) return send({ ev: 'is_complete', id: m.id, status, indent: '' });
	try {
		new vm.Script(`(async () => {${code}\n})`);
	} catch (e) {
		try {
			new vm.Script(code);
		} catch (again) {
			if (/\/\*(?:(?!\*\/)[^])*$/.test(m.code)) status = 'incomplete';
			else status = INCOMPLETE.test(again.message) || INCOMPLETE.test(e.message) ? 'incomplete' : 'invalid';
		}
	}
	send({ ev: 'is_complete', id: m.id, status, indent: '' });
};

const complete = async (m) => {
	const text = [...m.code].slice(0, m.cursor).join('');
	const [, object, word] = /(?:([\p{ID_Continue}$.[\]'"]+)\.)?([\p{ID_Continue}$]*)$/u.exec(text);
	const names = new Set();
	try {
		if (!object) {
			(await post('Runtime.globalLexicalScopeNames', {})).names.forEach((n) => names.add(n));
			for (let o = globalThis; o; o = Object.getPrototypeOf(o)) Object.getOwnPropertyNames(o).forEach((n) => names.add(n));
		} else {
			const r = await post('Runtime.evaluate', { expression: prepared(object).text, throwOnSideEffect: true, silent: true,
				objectGroup: 'complete', replMode: true });
			const [v] = r.exceptionDetails ? [] : await valueOf(r.result);
			for (let o = v === null || v === undefined ? null : Object(v); o; o = Object.getPrototypeOf(o))
				Object.getOwnPropertyNames(o).forEach((n) => names.add(n));
		}
	} catch {
		// nothing is known of it
	}
	const matches = [...names].filter((n) => n.startsWith(word) && /^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u.test(n) &&
		n !== IMPORT).sort().slice(0, 500);
	send({ ev: 'complete', id: m.id, matches, start: m.cursor - [...word].length, end: m.cursor });
};

const say = (text) => void process.stdout.write(`${text}\n`);

const READABLE = /([\p{ID_Start}$_][\p{ID_Continue}$.]*)$/u;

// What is known of a value, in lines.
const describe = (name, value) => {
	const lines = [];
	if (typeof value === 'function') {
		const source = Function.prototype.toString.call(value), native = /\{\s*\[native code\]\s*\}$/.test(source);
		const head = native ? '' : /^class\b[^{]*|^[^]*?\)(?=\s*(?:=>|\{))|^[^=]*(?==>)/.exec(source)?.[0].trim();
		lines.push(`Signature: ${head || `${name}(${['no arguments', 'one argument'][value.length] ?? `${value.length} arguments`})`}`);
	}
	lines.push(`Type: ${value === null ? 'null' : typeof value === 'object' ? value.constructor?.name ?? 'object' : typeof value}`);
	lines.push(`Value: ${util.inspect(value, { depth: 1, maxArrayLength: 20, maxStringLength: 1000, getters: false })}`);
	const members = value !== null && (typeof value === 'object' || typeof value === 'function') ? Object.getOwnPropertyNames(value)
		.filter((key) => !['length', 'name', 'prototype', 'caller', 'arguments'].includes(key)) : [];
	if (members.length && !Array.isArray(value)) lines.push(`Members: ${members.slice(0, 100).join(', ')}`);
	return lines.join('\n');
};

// The description of a name; null: there is none.
const described = async (name) => {
	const r = await post('Runtime.evaluate', { expression: prepared(name).text, throwOnSideEffect: true, silent: true,
		objectGroup: 'complete', replMode: true });
	if (r.exceptionDetails) return null;
	return plain(describe(name, (await valueOf(r.result))[0]));
};

// Of the name that the cursor is at, or else of the function whose call it is in.
const inspection = async (m) => {
	const all = [...m.code], before = all.slice(0, m.cursor).join(''), after = all.slice(m.cursor).join('');
	const name = READABLE.exec(before), call = READABLE.exec(/^(.*)\([^()]*$/s.exec(before)?.[1] ?? '');
	let text = null;
	try {
		if (name) text = await described(name[1] + /^[\p{ID_Continue}$]*/u.exec(after)[0]);
		if (call) text ??= await described(call[1]);
	} catch {
		// nothing is known of it
	}
	send({ ev: 'inspect', id: m.id, text: (text ?? '').slice(0, 100000) });
};

// User code broke something that the driver needs: the cell must end still.
const emergency = (e) => {
	const text = `The interpreter's driver failed after the cell: ${e?.name}`;
	send({ ev: 'error', id: cell, name: 'Error', value: text, traceback: text });
	send({ ev: 'done', id: cell, status: 'error', count });
	cell = 0;
};

let serving = false;
const serve = async () => {
	if (serving) return;
	serving = true;
	while (messages.length) {
		const m = messages.shift();
		if (m.op === 'run') await run(m).catch(emergency);
		else if (m.op === 'session') Object.assign(process.env, m.environment);
		else if (m.op === 'is_complete') isComplete(m);
		else if (m.op === 'complete') await complete(m);
		else if (m.op === 'inspect') await inspection(m);
	}
	serving = false;
};

// ---- the world of the cells ----

let stdin = null;
Object.defineProperty(process, 'stdin', { configurable: true, enumerable: true,
	get: () => (stdin ??= fs.createReadStream(null, { fd: 0, autoClose: false })) });

// What is printed is in the pipe when write() returns: a frame behind it comes behind it, and an interrupt loses nothing.
const printer = (fd) => {
	const stream = new Writable({ decodeStrings: false, write: (data, encoding, done) => done() });
	stream.fd = fd;
	stream.write = (data, encoding, done = encoding) => {
		turn(fd);
		out(fd, typeof data === 'string' ? Buffer.from(data, typeof encoding === 'string' ? encoding : 'utf8')
			: Buffer.from(data.buffer, data.byteOffset, data.byteLength));
		if (typeof done === 'function') process.nextTick(done);
		return true;
	};
	stream.end = (data, encoding, done) => {
		if (data !== undefined && typeof data !== 'function') stream.write(data, encoding, done);
		return stream;
	};
	stream.destroy = stream._destroy = () => stream;
	return stream;
};
for (const [name, fd] of [['stdout', 1], ['stderr', 2]]) {
	const value = printer(fd);
	Object.defineProperty(process, name, { configurable: true, enumerable: true, get: () => value });
}

process.exit = (code = process.exitCode ?? 0) => { throw new Exit(Number(code) & 255); };
process.on('SIGINT', () => { if (cell) leave?.({ interrupted: true }); });

const hidden = (name, value) => Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
hidden(IMPORT, load);
hidden('display', display);
const help = (...values) => {
	for (const value of values) say(describe(value?.name ?? 'it', value));
	if (!values.length) say(help[util.inspect.custom]());
};
help[util.inspect.custom] = () => 'NAME? or help(VALUE) says what is known of a value, such as Math.max? or help(Math.max); TAB completes.';
hidden('help', help);
hidden('module', { exports: {} });
hidden('exports', {});
Object.defineProperty(globalThis, 'require', { configurable: true, get: () => here().require,
	set: (value) => hidden('require', value) });
for (const name of Module.builtinModules)
	if (!name.startsWith('_') && !name.includes('/') && !(name in globalThis))
		Object.defineProperty(globalThis, name, { configurable: true, get: () => require(name),
			set: (value) => hidden(name, value) });

delete process.env.CODEBOX_FD;
process.argv = [process.execPath];
send({ ev: 'ready', language: 'javascript', version: process.versions.node, kind: 'node' });
