// SPDX-License-Identifier: Apache-2.0
//
// The text of a cell as V8 can evaluate it, and where its places are in what the user wrote.
//
// A text is changed by edits: pieces of it, with what stands there instead. They are kept, so that a line and a column of
// a traceback lead back. What is changed: "import", which a script cannot have; an object at the start; and names that a
// later cell declares in another way. V8 itself declares again what is of the same kind, as the same variable: "let" and
// "class", or "const", or "var" and "function". Everything else becomes another variable: its name gets an invisible
// character behind it, in the cell that declares it and in all later ones. To find the names in a text, Node's own
// parser is used (acorn, which is within its program), and only where there are such names.
'use strict';
const vm = require('vm');

const IMPORT = '\u00efmport'; // what import() is to V8, in as many columns
const MARK = '\u200c'; // zero width non-joiner: it may stand in names
const LINE = 200; // characters of a line that an error shows

class Source {
	// written: what the text was made from, place by place; types that were stripped are spaces in the text.
	constructor(text, written = text) {
		this.text = text;
		this.written = written.length === text.length ? written : text;
		this.changes = [];
	}

	// edits: [{ at, size, text }], in order; none touches another.
	edit(edits) {
		if (!edits.length) return this;
		let made = '', done = 0;
		for (const e of edits) {
			made += this.text.slice(done, e.at);
			e.now = made.length;
			made += e.text;
			done = e.at + e.size;
		}
		this.text = made + this.text.slice(done);
		this.changes.push(edits);
		return this;
	}

	// Where a line and a column of the text, counted from 1, are in what was written.
	place(line, column) {
		let at = 0;
		for (let n = 1; n < line && at <= this.text.length; n++) at = (this.text.indexOf('\n', at) + 1) || this.text.length + 1;
		at = Math.min(at + column - 1, this.text.length);
		for (const edits of [...this.changes].reverse()) {
			const e = edits.findLast((one) => one.now <= at);
			if (!e) continue;
			const within = at - e.now;
			at = e.at + (within < e.text.length ? Math.min(within, Math.max(e.size - 1, 0)) : within - e.text.length + e.size);
		}
		const before = this.written.slice(0, at).split('\n');
		return { line: before.length, column: before.at(-1).length + 1 };
	}

	// A line of what was written, with a sign below the column.
	shown(line, column) {
		const text = this.written.split('\n')[line - 1];
		if (text === undefined) return '';
		const from = column > LINE ? column - LINE / 2 : 0;
		return `${text.slice(from, from + LINE)}\n${text.slice(from, column - 1).replace(/[^\t]/g, ' ')}^\n`;
	}
}

// ---- imports ----

const STATIC = /import\s*(?:(?<one>[\p{ID_Start}$_][\p{ID_Continue}$]*)\s*,?\s*)?(?:\*\s*as\s+(?<all>[\p{ID_Start}$_][\p{ID_Continue}$]*)|\{(?<some>[^}]*)\})?\s*(?:(?<=[\s}])from\s*)?(?<name>'[^'\n]*'|"[^"\n]*")\s*(?:(?:with|assert)\s*(?<attributes>\{[^}]*\}))?[ \t]*;?/uy;

const statically = (m) => {
	const { one, all, some, name, attributes } = m.groups;
	const names = (some ?? '').split(',').map((s) => s.trim()).filter(Boolean).map((s) => s.split(/\s+as\s+/));
	if (one) names.unshift(['default', one]);
	const wanted = JSON.stringify(names.map(([n]) => n.replace(/^(['"])(.*)\1$/, '$2')));
	const value = `await ${IMPORT}.all(${name}, ${wanted}${attributes ? `, { with: ${attributes}, assert: ${attributes} }` : ''})`;
	const lines = '\n'.repeat(m[0].split('\n').length - 1);
	if (all) return `const ${all} = ${value}${one ? `, { default: ${one} } = ${all}` : ''};${lines}`;
	return names.length ? `const { ${names.map((n) => n.join(': ')).join(', ')} } = ${value};${lines}` : `void ${value};${lines}`;
};

// A "/" behind this begins a regular expression and is not a division.
const REGEX_AFTER = /(?:^|[({[,;:=!&|?+\-*%<>~^}]|\b(?:return|typeof|case|in|of|delete|void|throw|new|else|do|await|yield))\s*$/;
const TOKEN = /\/\/[^\n]*|\/\*[^]*?\*\/|'(?:[^'\\\n]|\\[^])*'|"(?:[^"\\\n]|\\[^])*"|[\p{ID_Start}$_][\p{ID_Continue}$]*|[^]/uy;
const REGEX = /\/(?:[^/\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/[a-z]*/y;

// What replaces the imports of a text; lines stay where they are.
const imports = (code) => {
	const edits = [];
	if (!/\bimport\b/.test(code)) return edits;
	const braces = []; // what closes: '`' for the ${ of a template
	let at = 0, begins = true, before = '';
	const template = () => {
		for (; at < code.length; at++) {
			if (code[at] === '\\') at++;
			else if (code[at] === '`') return void at++;
			else if (code[at] === '$' && code[at + 1] === '{') {
				at += 2;
				return void braces.push('`');
			}
		}
	};
	while (at < code.length) {
		TOKEN.lastIndex = REGEX.lastIndex = STATIC.lastIndex = at;
		let token = TOKEN.exec(code)[0], regex;
		if (token === 'import' && !/\.\s*$/.test(before)) {
			const rest = code.slice(at + 6), m = begins && !braces.length && STATIC.exec(code);
			if (/^\s*[(.]/.test(rest) && !/^\s*\.(?!\s*meta\b)/.test(rest)) edits.push({ at, size: 6, text: IMPORT });
			else if (m) edits.push({ at, size: m[0].length, text: statically(m) });
			at += m ? m[0].length : 6;
			before = m ? ';' : 'x';
			begins = !!m;
			continue;
		}
		if (token === '/' && REGEX_AFTER.test(before) && (regex = REGEX.exec(code))) token = regex[0];
		at += token.length;
		if (token === '`') template();
		else if ('({['.includes(token)) braces.push(token);
		else if (')}]'.includes(token) && braces.pop() === '`') template();
		if (/^(?:\/\/|\/\*)/.test(token)) continue;
		if (/^\s$/.test(token)) {
			begins ||= token === '\n';
			before += token;
			continue;
		}
		begins = token === ';' || token === '}';
		before = before.slice(-20) + token.slice(-20);
	}
	return edits;
};

const compiles = (code) => {
	try {
		new vm.Script(code);
		return true;
	} catch {
		return false;
	}
};

// "{ a: 1 }" alone is an object, as at Node's prompt.
const literal = (code) => (/^\s*\{/.test(code) && !/;\s*$/.test(code) && compiles(`(${code}\n)`)
	? [{ at: 0, size: 0, text: '(' }, { at: code.length, size: 0, text: '\n)' }] : []);

// ---- names ----

const spelled = new Map(); // names that were declared in another way -> how V8 has them
let acorn = null;

const parse = (code) => {
	if (!acorn) {
		const module = { exports: {} };
		const text = process.binding('natives')['internal/deps/acorn/acorn/dist/acorn'];
		vm.compileFunction(text, ['exports', 'module'])(module.exports, module);
		acorn = module.exports;
	}
	return acorn.parse(code, { ecmaVersion: 'latest', sourceType: 'script', allowAwaitOutsideFunction: true, allowHashBang: true });
};

const WORD = /[\p{ID_Start}$_][\p{ID_Continue}$]*/gu;

const children = (node) => Object.values(node).flat().filter((x) => typeof x?.type === 'string');

// Call use(identifier, shorthand) for each identifier that is a variable's.
const variables = (node, use) => {
	if (node.type === 'Identifier') return use(node, false);
	if (node.type === 'Property' && node.shorthand) {
		const { value } = node;
		use(value.left ?? value, true);
		if (value.right) variables(value.right, use);
		return;
	}
	if (/^(?:Labeled|Break|Continue)Statement$|^MetaProperty$/.test(node.type)) return void (node.body && variables(node.body, use));
	const name = node.computed ? null : /^Member/.test(node.type) ? node.property :
		/^(?:Property|MethodDefinition|PropertyDefinition)$/.test(node.type) ? node.key : null;
	for (const child of children(node)) if (child !== name) variables(child, use);
};

// The edits that give names of a text the spelling that V8 has for them.
const spelling = (text) => {
	const edits = [], words = new Set(text.match(WORD));
	const names = [...spelled.keys()].filter((name) => words.has(name));
	if (!names.length) return edits;
	let tree;
	try {
		tree = parse(text);
	} catch (e) {
		if (!compiles(`(async () => {${text}\n})`) && !compiles(text)) return edits; // V8 will say what is wrong
		const error = new SyntaxError(`${names.join(', ')}: earlier cells declared this in two ways, and the parser that finds it in ` +
			`this cell says: ${e.message}; use another name, or restart the interpreter`);
		error.stack = `SyntaxError: ${error.message}`;
		throw error;
	}
	variables(tree, ({ name, start, end }, shorthand) => {
		if (spelled.has(name)) edits.push({ at: start, size: end - start, text: (shorthand ? `${name}: ` : '') + spelled.get(name) });
	});
	return edits.sort((a, b) => a.at - b.at);
};

const bound = (pattern) => (!pattern ? [] : pattern.type === 'Identifier' ? [pattern.name] :
	pattern.type === 'MemberExpression' ? [] :
	[pattern.left ?? pattern.argument ?? (pattern.type === 'Property' ? pattern.value : null), ...(pattern.elements ?? []),
		...(pattern.properties ?? [])].flatMap(bound));

// Whether a tree declares a name for later cells: at its top, or with "var" in a block.
const declares = (node, name, top = true) => {
	if (/Function|Class/.test(node.type)) return top && node.id?.name === name;
	if (node.type === 'VariableDeclaration' && (top || node.kind === 'var') && node.declarations.some((d) => bound(d.id).includes(name)))
		return true;
	return children(node).some((child) => declares(child, name, node.type === 'Program'));
};

// V8 refused to declare a name again: whether another spelling helps. What a cell itself declares twice stays an error,
// and what the language does not allow, such as undefined.
const respell = (code, refused) => {
	const name = refused.replaceAll(MARK, '');
	if (/^(?:undefined|NaN|Infinity)$/.test(name)) return null;
	try {
		if (!declares(parse(evaluable(code).text), name)) return null;
	} catch {
		return null;
	}
	spelled.set(name, refused + MARK);
	return name;
};

const evaluable = (code, written) => {
	const source = new Source(code, written).edit(imports(code));
	return source.edit(literal(source.text));
};

const prepared = (code, written) => {
	const source = evaluable(code, written);
	return spelled.size ? source.edit(spelling(source.text)) : source;
};

// Text of V8's, with the names as they were written.
const plain = (text) => [...spelled].reduce((t, [name, other]) => t.replaceAll(other, name), text);

module.exports = { IMPORT, Source, imports, plain, prepared, respell, spelled };
