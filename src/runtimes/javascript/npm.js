// SPDX-License-Identifier: Apache-2.0
//
// npm and npx as a session has them: "npm install" asks codebox for the packages, since code here has no network. codebox
// resolves, judges by the policy, and installs; what is here only reads the arguments, asks by a socket of the sandbox's
// first process, and says what npm would say. All other commands are the image's own npm's, where it has one. Nothing here
// guards anything: code could ask by itself.
'use strict';
const { spawnSync } = require('child_process');
const fs = require('fs');
const net = require('net');
const os = require('os');
const path = require('path');

const PORT = 3127; // on 127.0.0.1
const QUESTION_MAX = 60 << 10;
const MODULES = '/node_modules';
const INSTALL = ['install', 'i', 'in', 'add', 'ci', 'clean-install'];
const FLAGS = new Set(['--save', '-S', '--save-prod', '-P', '--save-dev', '-D', '--save-exact', '-E', '--save-optional', '-O',
	'--no-save', '--no-audit', '--no-fund', '--no-progress', '--silent', '-s', '--quiet', '-q', '--verbose', '-y', '--yes',
	'--ignore-scripts', '--prefer-offline', '--prefer-online', '--no-package-lock', '--no-bin-links', '--no-color', '--force', '-f']);

class Refused extends Error {}

const names = (words) => {
	const found = [];
	let quiet = false;
	for (const word of words) {
		if (!word.startsWith('-')) found.push(word);
		else if (!FLAGS.has(word) && !/^--(?:loglevel|audit|fund|progress|save)(?:=|$)/.test(word))
			throw new Refused(`${word} cannot be used here: codebox installs from the registry that its policy or npm's ` +
				`configuration names, into ${MODULES}`);
		quiet ||= ['--silent', '-s', '--quiet', '-q'].includes(word);
	}
	return { found, quiet };
};

// Of the project in the current directory.
const declared = () => {
	let manifest;
	try {
		manifest = JSON.parse(fs.readFileSync('package.json', 'utf8'));
	} catch (e) {
		throw new Refused(e.code === 'ENOENT' ? 'name packages, as in: npm install lodash (there is no package.json here)' :
			`package.json cannot be read: ${e.message}`);
	}
	return Object.entries({ ...manifest.devDependencies, ...manifest.dependencies })
		.map(([name, wanted]) => (wanted ? `${name}@${wanted}` : name));
};

const suits = (list, own) => !Array.isArray(list) || (!list.includes(`!${own}`) && (list.every((x) => x.startsWith('!')) ||
	list.includes(own)));

// What the project's lock has, as codebox takes it. Where each package stood in it does not count; which versions there are,
// and their sums, do. frozen: npm ci, which installs nothing else.
const locked = (frozen) => {
	const file = ['npm-shrinkwrap.json', 'package-lock.json'].find((f) => fs.existsSync(f));
	if (!file) {
		if (frozen) throw new Refused('npm ci installs what package-lock.json has, and there is none here; use npm install');
		return [];
	}
	let lock;
	try {
		lock = JSON.parse(fs.readFileSync(file, 'utf8'));
	} catch (e) {
		throw new Refused(`${file} cannot be read: ${e.message}`);
	}
	const found = new Set(frozen ? ['--only-locked'] : []);
	const add = (name, p) => {
		if (p.inBundle || p.bundled || !suits(p.os, process.platform) || !suits(p.cpu, process.arch)) return;
		const sum = /(?:^|\s)(sha512-[A-Za-z0-9+/]{86}==)(?:\s|$)/.exec(p.integrity ?? '')?.[1];
		if (p.link || !sum || !/^[v=]?\d/.test(p.version ?? '')) {
			if (!frozen || p.optional) return;
			throw new Refused(`${file}: ${name}: ${p.link || !p.integrity ? 'it does not come from a registry' :
				'it has no SHA-512 sum'}, so it cannot be installed here`);
		}
		found.add(`--locked npm:${name}@${p.version} --hash=${sum.replace('-', ':')}`);
	};
	const walk = (dependencies) => { // lockfileVersion 1
		for (const [name, p] of Object.entries(dependencies ?? {})) {
			add(name, p);
			walk(p.dependencies);
		}
	};
	if (lock.packages) {
		for (const [place, p] of Object.entries(lock.packages))
			if (place) add(p.name ?? place.split('node_modules/').pop(), p);
	} else walk(lock.dependencies);
	return [...found];
};

// The answer, or null: nobody answers here.
const ask = (packages, lock) => new Promise((resolve, reject) => {
	const question = `${JSON.stringify({ packages: [...packages.map((name) => `npm:${name}`), ...lock] })}\n`;
	if (Buffer.byteLength(question) > QUESTION_MAX)
		throw new Refused('these are more packages than can be asked for at once; install them in parts');
	const pieces = [];
	const socket = net.connect(PORT, '127.0.0.1', () => socket.write(question));
	socket.on('data', (piece) => pieces.push(piece));
	socket.on('error', (e) => (e.code === 'ECONNREFUSED' ? resolve(null) : reject(new Refused('the installation was given up'))));
	socket.on('end', () => {
		try {
			resolve(JSON.parse(Buffer.concat(pieces).toString()));
		} catch {
			reject(new Refused('the installation was given up'));
		}
	});
});

const find = (program, directories) => directories.map((d) => path.join(d, program)).find((file) => {
	try {
		fs.accessSync(file, fs.constants.X_OK);
		return true;
	} catch {
		return false;
	}
});

// The image's own.
const real = (program, words) => {
	const own = path.join(__dirname, 'bin');
	const file = find(program, (process.env.PATH ?? '').split(':').filter((d) => d && d !== own));
	if (!file) return null;
	const r = spawnSync(file, words, { stdio: 'inherit' });
	return r.signal ? 128 + os.constants.signals[r.signal] : r.status ?? 1;
};

const hasProxy = () => Boolean(process.env.https_proxy || process.env.HTTPS_PROXY);

const install = async (words, all, frozen) => {
	const { found, quiet } = names(words);
	if (frozen && found.length) throw new Refused('npm ci installs what package-lock.json has; name no packages');
	const packages = found.length ? found : declared();
	const lock = found.length || words.includes('--no-package-lock') ? [] : locked(frozen);
	if (!packages.length) return 0;
	const answer = await ask(packages, words.includes('--ignore-scripts') ? [...lock, '--ignore-scripts'] : lock);
	if (answer === null || answer.error?.kind === 'not_here') {
		const status = hasProxy() ? real('npm', all) : null;
		if (status !== null) return status;
		throw new Refused('packages cannot be installed in this session: its policy does not let that be (packages.install); ' +
			'use what the image has');
	}
	if (answer.error) throw new Refused(answer.error.message);
	for (const warning of answer.warnings ?? []) console.error(`npm warn ${warning}`);
	if (quiet) return 0;
	for (const p of answer.installed) console.log(`+ ${p.name}@${p.version}`);
	const n = answer.installed.length;
	console.log(n ? `added ${n} package${n === 1 ? '' : 's'}` : 'up to date');
	return 0;
};

const list = () => {
	const all = [];
	const look = (directory, prefix) => {
		for (const name of fs.readdirSync(directory).filter((n) => !n.startsWith('.')).sort()) {
			if (name.startsWith('@')) look(path.join(directory, name), `${name}/`);
			else all.push(`${prefix}${name}@${JSON.parse(fs.readFileSync(path.join(directory, name, 'package.json'))).version}`);
		}
	};
	if (fs.existsSync(MODULES)) look(MODULES, '');
	console.log([MODULES, ...all.map((line, i) => `${i + 1 < all.length ? '├──' : '└──'} ${line}`)].join('\n'));
	return 0;
};

const npx = (words) => {
	const at = words.findIndex((word) => !word.startsWith('-'));
	const program = at < 0 ? '' : words[at];
	const file = /^[\w.-]+$/.test(program) && find(program, [path.resolve('node_modules/.bin'), `${MODULES}/.bin`]);
	if (file) {
		const r = spawnSync(file, words.slice(at + 1), { stdio: 'inherit' });
		return r.signal ? 128 + os.constants.signals[r.signal] : r.status ?? 1;
	}
	const status = hasProxy() ? real('npx', words) : null;
	if (status !== null) return status;
	throw new Refused(`there is no program ${program || '(name one)'} of an installed package; npm install its package first`);
};

const run = async (program, words) => {
	if (program === 'npx') return npx(words);
	const at = words.findIndex((word) => !word.startsWith('-'));
	const command = at < 0 ? '' : words[at], rest = words.filter((word, i) => i !== at);
	if (INSTALL.includes(command) && !rest.includes('--help')) return install(rest, words, ['ci', 'clean-install'].includes(command));
	const status = real('npm', words);
	if (status !== null) return status;
	if (['ls', 'list', 'll'].includes(command)) return list();
	if (['uninstall', 'remove', 'rm', 'un'].includes(command))
		throw new Refused(`${command}: packages stay until the session ends`);
	throw new Refused('this image has no npm but for: npm install, npm ls, npx PROGRAM');
};

exports.main = (program, words) => run(program, words).then((status) => { process.exitCode = status; }, (e) => {
	if (!(e instanceof Refused)) throw e;
	console.error(`npm error ${e.message}`);
	process.exitCode = 1;
});
