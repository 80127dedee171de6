// SPDX-License-Identifier: Apache-2.0
//
// Which packages of npm are needed, in which versions and where: run in a sandbox of its own, of the image that they are
// for. Questions and answers are those of runtimes/python/resolve.py: {"ask": number, "project": "npm:name"} is a line on
// standard output; the answer on standard input is a line with its number and a number of bytes, and these: a line of
// JSON and then the registry's page of the package. The last line is the result, or why there is none. Everything in it is
// checked by who reads it.
//
// A package is placed as near to the top as no other version of it is in the way, as npm places it, and nothing that a
// package brings along of others counts. What the session has stays where it fits, but for those that are to be the newest.
'use strict';
const fs = require('fs');

const PACKAGES_MAX = 400;
const WHY_MAX = 500;

class Refused extends Error {
	constructor(kind, why) {
		super(why);
		this.kind = kind;
	}
}

// ---- questions and answers ----

const say = (message) => {
	const data = Buffer.from(`${JSON.stringify(message)}\n`);
	for (let at = 0; at < data.length;) {
		try {
			at += fs.writeSync(1, data, at);
		} catch (e) {
			if (e.code !== 'EAGAIN') throw e;
			Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2);
		}
	}
};

class Index {
	constructor() {
		this.pieces = [];
		this.length = 0;
		this.numbers = new Map(); // name: number of its question
		this.answers = new Map(); // number: [header, text]
	}

	more() {
		const piece = Buffer.allocUnsafe(1 << 16);
		for (;;) {
			try {
				const n = fs.readSync(0, piece, 0, piece.length, null);
				if (!n) throw new Refused('index_down', 'the registry cannot be asked any more');
				this.pieces.push(piece.subarray(0, n));
				this.length += n;
				return;
			} catch (e) {
				if (e.code !== 'EAGAIN') throw e;
				Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2);
			}
		}
	}

	take(n) {
		while (this.length < n) this.more();
		const all = Buffer.concat(this.pieces);
		this.pieces = [all.subarray(n)];
		this.length = all.length - n;
		return all.subarray(0, n);
	}

	line() {
		for (;;) {
			const all = Buffer.concat(this.pieces);
			this.pieces = [all];
			const end = all.indexOf(10);
			if (end >= 0) return this.take(end + 1).toString();
			this.more();
		}
	}

	want(name) {
		if (!this.numbers.has(name)) {
			this.numbers.set(name, this.numbers.size + 1);
			say({ ask: this.numbers.size, project: `npm:${name}` });
		}
		return this.numbers.get(name);
	}

	get(name) {
		const number = this.want(name);
		while (!this.answers.has(number)) {
			const [id, size] = this.line().split(' ').map(Number);
			const data = this.take(size), end = data.indexOf(10);
			this.answers.set(id, [JSON.parse(data.toString('utf8', 0, end)), data.toString('utf8', end + 1)]);
		}
		const [head, text] = this.answers.get(number);
		if (head.kind) throw new Refused(head.kind, head.message);
		return { url: head.url, text };
	}
}

// ---- versions ----

const FULL = /^[v=\s]*(\d{1,15})\.(\d{1,15})\.(\d{1,15})(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]*)?$/;

const parse = (text) => {
	const m = FULL.exec(text);
	return m && { n: [Number(m[1]), Number(m[2]), Number(m[3])], pre: m[4] ? m[4].split('.') : [] };
};

const part = (a, b) => {
	const x = /^\d+$/.test(a), y = /^\d+$/.test(b);
	if (x !== y) return x ? -1 : 1;
	if (x) return Number(a) - Number(b);
	return a < b ? -1 : a > b ? 1 : 0;
};

const compare = (a, b) => {
	for (let i = 0; i < 3; i++) if (a.n[i] !== b.n[i]) return a.n[i] - b.n[i];
	if (!a.pre.length || !b.pre.length) return (a.pre.length ? 0 : 1) - (b.pre.length ? 0 : 1);
	for (let i = 0; i < Math.max(a.pre.length, b.pre.length); i++) {
		if (a.pre[i] === undefined || b.pre[i] === undefined) return a.pre[i] === undefined ? -1 : 1;
		const r = part(a.pre[i], b.pre[i]);
		if (r) return r;
	}
	return 0;
};

const PARTIAL = /^[v=\s]*(?:(\d{1,15})|[xX*])(?:\.(?:(\d{1,15})|[xX*])(?:\.(?:(\d{1,15})|[xX*])(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]*)?)?)?$/;

const partial = (text) => {
	const m = PARTIAL.exec(text);
	if (!m) return null;
	const have = m[1] === undefined ? 0 : m[2] === undefined ? 1 : m[3] === undefined ? 2 : 3;
	const n = [0, 1, 2].map((i) => (i < have ? Number(m[i + 1]) : 0));
	return { have, n, pre: have === 3 && m[4] ? m[4].split('.') : [] };
};

const next = (v, at) => ({ op: '<', n: v.n.map((x, i) => (i < at ? x : i === at ? x + 1 : 0)), pre: ['0'] });

const comparisons = (sign, v) => {
	const from = { op: '>=', n: v.n, pre: v.pre };
	if (sign === '^' || sign === '~') {
		if (!v.have) return [];
		let at = sign === '~' ? Number(v.have > 1) : 0;
		while (sign === '^' && at + 1 < v.have && !v.n[at]) at++;
		return [from, next(v, at)];
	}
	if (v.have === 3) return [{ op: sign || '=', n: v.n, pre: v.pre }];
	if (!v.have) return sign === '<' || sign === '>' ? [{ op: '<', n: [0, 0, 0], pre: ['0'] }] : [];
	if (sign === '>=') return [from];
	if (sign === '<') return [{ op: '<', n: v.n, pre: ['0'] }];
	if (sign === '<=') return [next(v, v.have - 1)];
	if (sign === '>') return [{ ...next(v, v.have - 1), op: '>=', pre: [] }];
	return [from, next(v, v.have - 1)];
};

// Alternatives of comparisons, or null: it is not a range.
const range = (text) => {
	const all = [];
	for (const one of text.split('||')) {
		const list = [];
		const plain = one.trim().replace(/(\^|~>?|[<>]=?|=)\s+/g, '$1');
		const ends = /^([^\s<>=^~]\S*)\s+-\s+(\S+)$/.exec(plain);
		if (ends) {
			const [a, b] = [partial(ends[1]), partial(ends[2])];
			if (!a || !b) return null;
			if (a.have) list.push({ op: '>=', n: a.n, pre: a.pre });
			list.push(...comparisons('<=', b));
		} else {
			for (const word of plain.split(/\s+/).filter(Boolean)) {
				const m = /^(\^|~>?|[<>]=?|=?)(.*)$/.exec(word), v = partial(m[2]);
				if (!v) return null;
				list.push(...comparisons(m[1] === '~>' ? '~' : m[1] === '=' ? '' : m[1], v));
			}
		}
		all.push(list);
	}
	return all;
};

const OPS = { '=': (r) => r === 0, '<': (r) => r < 0, '<=': (r) => r <= 0, '>': (r) => r > 0, '>=': (r) => r >= 0 };

const holds = (alternatives, v, anyPre) => alternatives.some((list) =>
	list.every((c) => OPS[c.op](compare(v, c))) &&
	(anyPre || !v.pre.length || list.some((c) => c.pre.length && c.n.every((x, i) => x === v.n[i]))));

// ---- what there is ----

const machine = () => {
	const musl = fs.existsSync('/lib') && fs.readdirSync('/lib').some((name) => name.startsWith('ld-musl-'));
	return { os: process.platform, cpu: process.arch, libc: musl ? 'musl' : 'glibc' };
};

const suits = (list, value) => {
	const all = [list ?? []].flat();
	if (all.some((x) => x === `!${value}`)) return false;
	const wanted = all.filter((x) => typeof x === 'string' && !x.startsWith('!'));
	return !wanted.length || wanted.includes(value) || wanted.includes('any');
};

const spec = (text) => {
	const [, name, wanted] = /^(@?[^@]+)(?:@(.*))?$/.exec(text);
	return { name, wanted: wanted ?? '' };
};

class Registry {
	constructor(index, question) {
		this.index = index;
		this.pages = new Map();
		this.here = machine();
		this.node = parse(process.versions.node);
		// Versions that a lock has: they are taken where they fit, and with only, nothing else is.
		this.locked = new Map(Object.entries(question.locked).map(([name, entries]) =>
			[name.slice('npm:'.length), new Set(entries.map((e) => e.version))]));
		this.only = question.only_locked;
		this.rules = {};
		for (const kind of ['allow', 'block', 'versions'])
			for (const text of question.rules[kind] ?? []) {
				const { name, wanted } = spec(text.slice('npm:'.length));
				if (kind === 'block' && !wanted) continue;
				((this.rules[kind] ??= {})[name] ??= []).push(wanted.split(',').map((x) => range(x.replace(/^@/, '')) ?? []));
			}
	}

	page(name) {
		if (!this.pages.has(name)) {
			let page;
			const { url, text } = this.index.get(name);
			try {
				page = JSON.parse(text);
			} catch {
				page = null;
			}
			if (!page || typeof page.versions !== 'object' || !page.versions)
				throw new Refused('index_refused', 'the registry\'s page of it cannot be read');
			this.pages.set(name, { url, tags: page['dist-tags'] ?? {}, versions: Object.entries(page.versions)
				.map(([number, entry]) => ({ number, v: parse(number), entry })).filter((c) => c.v && c.entry?.dist) });
		}
		return this.pages.get(name);
	}

	// Versions that the policy rules out are not even tried; whether a name is, is not decided here.
	permits(name, v) {
		const all = (rule, anyPre) => rule.every((r) => holds(r, v, anyPre));
		const { allow, block, versions } = this.rules;
		return (!allow?.[name] || allow[name].some((rule) => all(rule, false))) &&
			!(block?.[name] ?? []).some((rule) => all(rule, true)) && (versions?.[name] ?? []).every((rule) => all(rule, false));
	}

	runs(candidate) {
		const needs = candidate.entry.engines?.node;
		const wanted = typeof needs === 'string' ? range(needs) : null;
		return !wanted || holds(wanted, this.node, true);
	}

	// The best one of what fits: what runs on this Node, is not deprecated, is tagged as the latest, is newest.
	choose(name, wanted, way) {
		const page = this.page(name);
		const tagged = page.tags[wanted === '' ? 'latest' : wanted];
		const alternatives = range(wanted);
		if (!alternatives && tagged === undefined)
			throw new Refused('not_found', `${way}: the registry has no tag "${wanted}" of it`);
		let fits = page.versions.filter((c) => (alternatives ? holds(alternatives, c.v, false) : c.number === tagged));
		if (!fits.length && wanted === '') fits = page.versions.filter((c) => c.number === tagged);
		const locked = fits.filter((c) => this.locked.get(name)?.has(c.number));
		if (this.only && !locked.length)
			throw new Refused('package_refused', `${way}: package-lock.json has no version of it that fits ${wanted || 'it'}; ` +
				'npm install takes one');
		if (locked.length) fits = locked;
		const usable = fits.filter((c) => this.permits(name, c.v));
		if (!usable.length) {
			if (fits.length) throw new Refused('not_found', `${way}: the policy allows none of its versions that fit`);
			const newest = page.versions.filter((c) => this.permits(name, c.v)).sort((a, b) => compare(b.v, a.v))[0];
			throw new Refused('not_found', `${way}: there is no version ${wanted || 'of it'}` +
				(newest ? `; the newest that can be installed is ${newest.number}` : ''));
		}
		const rank = (c) => [this.runs(c), !c.entry.deprecated, c.number === page.tags.latest].map(Number);
		return usable.sort((a, b) => {
			const x = rank(a), y = rank(b), at = x.findIndex((v, i) => v !== y[i]);
			return at < 0 ? compare(b.v, a.v) : y[at] - x[at];
		})[0];
	}
}

// ---- the tree ----

class Node {
	constructor(parent, key, name, candidate, by) {
		Object.assign(this, { parent, key, name, candidate, by, children: new Map(), edges: [] });
	}

	get place() {
		return this.parent ? `${this.parent.parent ? `${this.parent.place}/` : ''}node_modules/${this.key}` : '';
	}

	// It may have given way to another version.
	get there() {
		return !this.parent || (this.parent.children.get(this.key) === this && this.parent.there);
	}

	// Names of what needs it, from the top.
	get via() {
		const names = [];
		for (let at = this.by; at?.parent && names.length < 100; at = at.by) names.unshift(at.name);
		return names;
	}
}

class Tree {
	constructor(index, question) {
		this.registry = new Registry(index, question);
		this.index = index;
		this.root = new Node(null, '', '', null, null);
		this.queue = [];
		this.count = 0;
		this.newest = new Set(question.newest.map((name) => name.slice('npm:'.length)));
		this.previous = new Map(question.previous.map((p) => [p.place, p]));
	}

	way(edge) {
		return [...(edge.from.parent ? [...edge.from.via, edge.from.name] : []), edge.name].join(' → ');
	}

	// "^1.2", "next", "npm:other@2"; whatever else says where a package comes from is refused.
	edge(from, key, text, kind) {
		let name = key, wanted = String(text).trim();
		if (wanted.startsWith('npm:')) ({ name, wanted } = spec(wanted.slice(4)));
		const edge = { from, key, name, wanted, kind };
		edge.fits = range(wanted);
		if (/[:/]/.test(wanted)) edge.refused = new Refused('package_refused', `${this.way({ from: from.by ?? from, name: from.name })} ` +
			`${from.candidate?.number ?? ''} needs ${name} from an address: ${wanted}`);
		else this.index.want(name);
		from.edges.push(edge);
		this.queue.push(edge);
	}

	satisfies(edge, node) {
		if (node.name !== edge.name) return false;
		if (edge.fits) return holds(edge.fits, node.candidate.v, false);
		return this.registry.page(edge.name).tags[edge.wanted] === node.candidate.number;
	}

	// Where Node would look from here: the first one, or null. A peer is beside, not within.
	find(edge) {
		for (let at = edge.kind === 'peer' ? edge.from.parent : edge.from; at; at = at.parent)
			if (at.children.has(edge.key)) return at.children.get(edge.key);
		return null;
	}

	resolve(edge) {
		if (edge.refused) throw edge.refused;
		const there = this.find(edge);
		if (there && this.satisfies(edge, there)) return;
		if (there && edge.kind === 'peer')
			throw new Refused('conflict', `these cannot be installed together: ${this.way({ ...edge, name: edge.from.name })
				.split(' → ').slice(0, -1).join(' → ')} ${edge.from.candidate.number} needs ${edge.name} ${edge.wanted}, and ` +
				`${there.name} ${there.candidate.number} is to be installed`);
		const candidate = this.kept(edge) ?? this.registry.choose(edge.name, edge.wanted, this.way(edge));
		const { os, cpu, libc } = candidate.entry;
		const { here } = this.registry;
		if (!suits(os, here.os) || !suits(cpu, here.cpu) || !suits(libc, here.libc))
			throw new Refused('not_found', `${this.way(edge)}: ${candidate.number} is not for ${here.os} on ${here.cpu} (${here.libc})`);
		let at = edge.kind === 'peer' ? edge.from.parent : edge.from;
		while (at.parent && at.parent !== there?.parent && !at.parent.children.has(edge.key)) at = at.parent;
		this.put(at, edge, candidate);
	}

	// What the session has already, at the top or where it was.
	kept(edge) {
		if (this.newest.has(edge.name) || this.registry.only || this.registry.locked.has(edge.name)) return null;
		for (const p of this.previous.values()) {
			if (p.name !== `npm:${edge.name}`) continue;
			const found = this.registry.page(edge.name).versions.find((c) => c.number === p.version);
			if (found && this.registry.permits(edge.name, found.v) &&
				this.satisfies(edge, { name: edge.name, candidate: found })) return found;
		}
		return null;
	}

	put(at, edge, candidate) {
		if (++this.count > PACKAGES_MAX)
			throw new Refused('package_refused', `more than ${PACKAGES_MAX} packages are needed; ask for less at once`);
		const node = new Node(at, edge.key, edge.name, candidate, edge.from);
		at.children.set(edge.key, node);
		this.again(at, edge.key);
		const { entry } = candidate, optional = entry.optionalDependencies ?? {}, meta = entry.peerDependenciesMeta ?? {};
		for (const [name, text] of Object.entries(entry.dependencies ?? {}))
			if (!(name in optional)) this.edge(node, name, text, 'needed');
		for (const [name, text] of Object.entries(optional)) this.edge(node, name, text, 'optional');
		for (const [name, text] of Object.entries(entry.peerDependencies ?? {}))
			if (!meta[name]?.optional) this.edge(node, name, text, 'peer');
	}

	// What stands below may have found another one, further up, before.
	again(at, key) {
		for (const edge of at.edges) if (edge.key === key) this.queue.push(edge);
		for (const child of at.children.values()) this.again(child, key);
	}

	run(requirements) {
		for (const text of requirements) {
			const { name, wanted } = spec(text.slice('npm:'.length));
			this.edge(this.root, name, wanted, 'needed');
		}
		while (this.queue.length) {
			const edge = this.queue.shift();
			if (!edge.from.there) continue;
			try {
				this.resolve(edge);
			} catch (e) {
				if (!(e instanceof Refused)) throw e;
				if (edge.kind !== 'optional' || !['not_found', 'package_refused'].includes(e.kind)) throw this.explain(edge, e);
			}
		}
	}

	explain(edge, e) {
		if (['conflict', 'package_refused'].includes(e.kind) || e.message.startsWith(this.way(edge))) return e;
		return new Refused(e.kind, `${this.way(edge)}: ${e.kind === 'not_found' ? 'the registry does not have it' : e.message}`);
	}
}

// ---- the answer ----

const sum = (node, way) => {
	const { integrity } = node.candidate.entry.dist;
	const m = /(?:^|\s)sha512-([A-Za-z0-9+/]{86}==)(?:\s|$)/.exec(typeof integrity === 'string' ? integrity : '');
	if (!m) throw new Refused('not_found', `${way}: the registry has no SHA-512 sum of ${node.candidate.number}`);
	return Buffer.from(m[1], 'base64').toString('hex');
};

const address = (page, tarball) => {
	const url = new URL(String(tarball), page);
	if (url.protocol === 'http:' && page.startsWith('https:') && url.host === new URL(page).host) url.protocol = 'https:';
	url.username = url.password = url.hash = '';
	return url.href;
};

const describe = (tree) => {
	const packages = [];
	const add = (node) => {
		for (const child of node.children.values()) {
			const { name, candidate, place, via } = child, { dist } = candidate.entry, way = [...via, name].join(' → ');
			const size = Number.isSafeInteger(dist.unpackedSize) && dist.unpackedSize > 0 ? dist.unpackedSize : 0;
			packages.push({ name: `npm:${name}`, version: candidate.number.replace(/\+.*/, ''), place, sha512: sum(child, way),
				url: address(tree.registry.page(name).url, dist.tarball), size, via });
			add(child);
		}
	};
	add(tree.root);
	return { packages, image: [] };
};

const index = new Index();
try {
	const question = JSON.parse(index.line());
	const tree = new Tree(index, question);
	tree.run(question.requirements);
	say(describe(tree));
} catch (e) {
	if (!(e instanceof Refused)) throw e;
	say({ refused: e.message.slice(0, WHY_MAX), kind: e.kind });
}
