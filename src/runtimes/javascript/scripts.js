// SPDX-License-Identifier: Apache-2.0
//
// The scripts that packages of npm have for their installation, where the policy lets them run: a program of the session that
// has the packages, so that they may do what its code may. They write into their packages, which all sessions share; so
// the session gets a copy of its own of them all, in its home, before the first one runs. What is printed, one line of JSON,
// is checked by who reads it.
'use strict';
const { spawnSync } = require('child_process');
const fs = require('fs');
const os = require('os');
const path = require('path');

const EVENTS = ['preinstall', 'install', 'postinstall'];
const WARNINGS_MAX = 20;
const WORDS_MAX = 300; // of what a failed script says
const from = `/run/codebox-packages/${process.argv[2]}/packed/node_modules`;
const to = `/home/user/.local/share/codebox/npm/${process.argv[2]}/node_modules`;
const warnings = [];

const warn = (text) => {
	if (warnings.length < WARNINGS_MAX) warnings.push(text.replace(/[^\x20-\x7e]+/g, ' ').trim());
};

// Copied beside its place first: Node finds all of it, or nothing.
const copy = () => {
	const beside = `${to}.new`;
	fs.mkdirSync(path.dirname(to), { recursive: true });
	try {
		fs.cpSync(from, beside, { recursive: true, verbatimSymlinks: true });
		fs.renameSync(beside, to);
		return true;
	} catch (e) {
		fs.rmSync(beside, { recursive: true, force: true });
		fs.symlinkSync(from, to);
		warn(`scripts of packages did not run, since the packages cannot be copied into the session's home: ${e.message}`);
		return false;
	}
};

const find = (directory, found = []) => {
	for (const entry of fs.readdirSync(directory, { withFileTypes: true })) {
		const place = path.join(directory, entry.name);
		if (!entry.isDirectory() || entry.name.startsWith('.')) continue;
		if (entry.name.startsWith('@')) {
			find(place, found);
			continue;
		}
		let manifest = null;
		try {
			manifest = JSON.parse(fs.readFileSync(path.join(place, 'package.json'), 'utf8').replace(/^\ufeff/, ''));
		} catch {
			// without one there is nothing to run
		}
		if (manifest && typeof manifest === 'object') found.push({ place, manifest });
		const inner = path.join(place, 'node_modules');
		if (fs.existsSync(inner)) find(inner, found);
	}
	return found;
};

// What a package needs comes before it, as far as there is no circle.
const inOrder = (all) => {
	const places = new Map(all.map((p) => [p.place, p]));
	const ordered = new Set(), seen = new Set();
	const visit = (p) => {
		if (seen.has(p)) return;
		seen.add(p);
		for (const name of Object.keys({ ...p.manifest.dependencies, ...p.manifest.optionalDependencies, ...p.manifest.peerDependencies })) {
			for (let at = p.place; at.startsWith(path.dirname(to)) && at !== path.dirname(to); at = path.dirname(at)) {
				const needed = places.get(path.join(at, 'node_modules', name)) ?? (at === to ? places.get(path.join(at, name)) : undefined);
				if (!needed) continue;
				visit(needed);
				break;
			}
		}
		ordered.add(p);
	};
	all.forEach(visit);
	return [...ordered];
};

const run = ({ place, manifest }) => {
	for (const event of EVENTS) {
		const script = manifest.scripts?.[event];
		if (typeof script !== 'string' || !script) continue;
		const r = spawnSync('/bin/sh', ['-c', script], {
			cwd: place, stdio: ['ignore', 'pipe', 'pipe'], maxBuffer: 64 << 20,
			env: { ...process.env, PATH: [path.join(place, 'node_modules/.bin'), path.join(to, '.bin'), process.env.PATH].join(':'),
				npm_lifecycle_event: event, npm_lifecycle_script: script, npm_package_name: manifest.name,
				npm_package_version: manifest.version, npm_package_json: path.join(place, 'package.json'),
				npm_node_execpath: process.execPath, NODE: process.execPath, INIT_CWD: '/workspace' },
		});
		if (r.status === 0) continue;
		const words = r.error?.message ?? `${r.stdout}${r.stderr}`.trim().slice(-WORDS_MAX);
		warn(`${manifest.name} ${manifest.version}: its script ${event} failed (${r.signal ?? `status ${r.status}`})${words && ': '}${words}`);
		return;
	}
};

if (copy()) inOrder(find(to)).forEach(run);
fs.writeSync(1, `${JSON.stringify({ warnings })}${os.EOL}`);
