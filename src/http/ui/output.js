// What a cell has printed and shown. All of it is hostile: text becomes text nodes; images become blobs in <img>, where
// scripts of SVG do not run; of HTML only tables, lists and the like are built anew, without any attribute but spans,
// and shown in a frame that may not run scripts and has an origin of its own.
import { element } from "./dom.js";

const TEXT_MAX = 300000;  // characters of one cell in the page; more: the oldest go
const HTML_MAX = 2000000; // characters of HTML that are looked at
const NODES_MAX = 20000;  // elements and texts of it that are built
const DEPTH_MAX = 60;     // one in the other
const OTHERS_MAX = 100;   // images and frames of one cell; more: only counted
const TAGS = new Set(("a abbr b blockquote br caption code dd del div dl dt em figcaption figure h1 h2 h3 h4 h5 h6 hr i ins " +
	"kbd li mark ol p pre q s samp small span strong sub sup table tbody td tfoot th thead tr u ul var").split(" "));
const SKIPPED = new Set(["script", "style", "template", "noscript", "iframe", "object", "svg", "math", "title", "textarea", "select", "xmp"]);

const policy = window.trustedTypes?.createPolicy("output", { createHTML: (text) => text });
const trusted = (text) => (policy ? policy.createHTML(text) : text);

// Colours and the like of terminals.
export function plain(text) {
	// eslint-disable-next-line no-control-regex
	return text.replace(/\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])/g, "");
}

const ENTITIES = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0", hellip: "\u2026", ndash: "\u2013", mdash: "\u2014",
	times: "\u00d7", middot: "\u00b7", deg: "\u00b0", micro: "\u00b5", plusmn: "\u00b1", rarr: "\u2192", larr: "\u2190", copy: "\u00a9" };

function decoded(text) {
	return text.replace(/&(?:#x([0-9a-f]{1,6})|#([0-9]{1,7})|([a-z]{2,8}));/gi, (all, hex, decimal, name) => {
		const n = hex ? Number.parseInt(hex, 16) : Number.parseInt(decimal ?? "0", 10);
		if (name)
			return Object.hasOwn(ENTITIES, name) ? ENTITIES[name] : all;
		return n > 0 && n <= 0x10ffff ? String.fromCodePoint(n) : "\ufffd";
	});
}

// Where the tag ends whose attributes begin at `from`; -1: nowhere.
function endOfTag(html, from) {
	let quote = "";
	for (let i = from; i < html.length; i++) {
		const c = html[i];
		if (quote)
			quote = c === quote ? "" : quote;
		else if ((c === '"' || c === "'") && /=\s*$/.test(html.slice(Math.max(from, i - 8), i)))
			quote = c;
		else if (c === ">")
			return i;
	}
	return -1;
}

// Texts, and tags as { name, closing, attributes }. Each character is looked at once; what does not end is omitted.
function* tokens(html) {
	const lower = html.toLowerCase(), tag = /<(\/?)([a-z][a-z0-9:-]{0,30})/y;
	for (let i = 0; i < html.length;) {
		const at = html.indexOf("<", i);
		if (at !== i)
			yield decoded(html.slice(i, at < 0 ? undefined : at));
		if (at < 0)
			return;
		tag.lastIndex = at;
		const found = tag.exec(lower);
		if (!found) {
			const comment = html.startsWith("<!--", at), skips = comment || /[!?/]/.test(html[at + 1] ?? "");
			const end = skips ? html.indexOf(comment ? "-->" : ">", at + 2) : at;
			if (!skips)
				yield "<";
			if (end < 0)
				return;
			i = end + (comment ? 3 : 1);
			continue;
		}
		const end = endOfTag(html, tag.lastIndex), [, slash, name] = found;
		if (end < 0)
			return;
		i = end + 1;
		if (!SKIPPED.has(name))
			yield { name, closing: slash === "/", attributes: html.slice(tag.lastIndex, end) };
		else if (!slash)
			i = lower.indexOf(`</${name}`, i);
		if (i < 0)
			return;
	}
}

function spans(e, attributes) {
	for (const [, name, n] of attributes.matchAll(/\b(colspan|rowspan)\s*=\s*["']?(\d{1,3})\b/gi))
		e.setAttribute(name.toLowerCase(), n);
}

// What is allowed of it, as elements of our own making. The browser's parser never sees it as it came.
function build(html) {
	const body = document.createElement("body"), open = [body];
	let left = NODES_MAX;
	for (const token of tokens(html)) {
		if (left-- <= 0)
			break;
		const top = open[open.length - 1];
		if (typeof token === "string") {
			top.append(token);
			continue;
		}
		const name = token.name === "a" ? "span" : token.name;
		if (!TAGS.has(token.name))
			continue;
		if (token.closing) {
			const i = open.findLastIndex((e) => e.localName === name);
			if (i > 0)
				open.length = i;
			continue;
		}
		if (["td", "th", "tr", "li", "p"].includes(name) && (top.localName === name || (/^t[dh]$/.test(name) && /^t[dh]$/.test(top.localName))))
			open.pop();
		const made = document.createElement(name);
		if (name === "td" || name === "th")
			spans(made, token.attributes);
		open[open.length - 1].append(made);
		if (name !== "br" && name !== "hr" && open.length < DEPTH_MAX)
			open.push(made);
	}
	return body;
}

// A frame with what is left of it; null: that is nothing.
function frame(html) {
	const body = build(html.slice(0, HTML_MAX));
	if (!body.textContent.trim())
		return null;
	const lines = body.querySelectorAll("p, li, br, h1, h2, h3, h4, pre, dt").length + body.textContent.length / 200;
	const height = 10 + 30 * body.querySelectorAll("tr").length + 22 * lines;
	const style = new URL("ui/output.css", document.baseURI).href;
	const e = element("iframe", { title: "HTML output" });
	e.setAttribute("sandbox", "");
	e.setAttribute("referrerpolicy", "no-referrer");
	e.srcdoc = trusted(`<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="${style}">${body.outerHTML}`);
	e.style.height = `${Math.round(Math.min(420, Math.max(32, height)))}px`;
	return e;
}

function image(type, data) {
	let bytes;
	if (type === "image/svg+xml") {
		bytes = new TextEncoder().encode(data);
	} else {
		try {
			bytes = Uint8Array.from(atob(data.replace(/\s/g, "")), (c) => c.charCodeAt(0));
		} catch {
			return null;
		}
	}
	const url = URL.createObjectURL(new Blob([bytes], { type }));
	const e = element("img", { src: url, alt: "Figure" });
	e.addEventListener("load", () => URL.revokeObjectURL(url));
	e.addEventListener("error", () => {
		URL.revokeObjectURL(url);
		e.replaceWith(element("p", { className: "error" }, `This ${type} is damaged.`));
	});
	return e;
}

function shown(data) {
	for (const type of ["image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml"]) {
		if (typeof data[type] === "string") {
			const e = image(type, data[type]);
			if (e)
				return e;
		}
	}
	if (typeof data["text/html"] === "string") {
		const e = frame(data["text/html"]);
		if (e)
			return e;
	}
	for (const type of ["text/markdown", "text/plain", "text/latex"])
		if (typeof data[type] === "string")
			return element("pre", {}, plain(data[type]));
	const rest = Object.keys(data);
	return element("pre", {}, rest.length ? JSON.stringify(data[rest[0]], null, 1) ?? "" : "");
}

// The outputs of one cell, in the element `to`.
export class Outputs {
	constructor(to) {
		this.to = to;
		this.clear();
	}

	clear() {
		this.to.replaceChildren();
		this.characters = 0;
		this.others = 0;
		this.line = null;
	}

	// What a "\r" is followed by replaces the line, as on a terminal: bars of progress would fill the page otherwise.
	text(stream, text) {
		const kind = stream === "stderr" ? "stderr" : "stdout";
		const atEnd = this.to.scrollHeight - this.to.scrollTop - this.to.clientHeight < 40;
		if (this.line?.className !== kind || this.to.lastChild !== this.line) {
			this.line = element("pre", { className: kind });
			this.to.append(this.line);
			this.kept = "";
		}
		const whole = plain(this.kept + text).replace(/\r+\n/g, "\n");
		const cut = whole.lastIndexOf("\n") + 1;
		const fixed = whole.slice(0, cut).replace(/[^\n]*\r(?=[^\n])/g, "");
		this.kept = whole.slice(cut);
		if (!this.tail?.isConnected || this.tail.parentNode !== this.line) {
			this.tail = document.createTextNode("");
			this.line.append(this.tail);
		}
		if (fixed) {
			this.tail.before(fixed);
			this.characters += fixed.length;
		}
		this.tail.data = this.kept.replace(/^.*\r(?=.)/s, "");
		this.trim();
		if (atEnd)
			this.to.scrollTop = this.to.scrollHeight;
	}

	trim() {
		if (this.kept.length > TEXT_MAX)
			this.kept = this.tail.data = this.kept.slice(-TEXT_MAX / 2);
		while (this.characters > TEXT_MAX && this.line.childNodes.length > 2) {
			const oldest = this.line.firstChild;
			this.characters -= oldest.data.length;
			oldest.remove();
		}
	}

	display(data) {
		if (++this.others > OTHERS_MAX)
			return;
		this.to.append(shown(data));
	}

	omitted(bytes) {
		this.to.append(element("p", { className: "faint" }, `${bytes} bytes came faster than they were read.`));
	}

	// error: null, a text, or {ename, evalue, traceback}
	error(error) {
		if (!error)
			return;
		const text = typeof error === "string" ? error
			: (error.traceback?.length ? error.traceback.join("\n") : `${error.ename}: ${error.evalue}`);
		this.to.append(element("pre", { className: "traceback" }, plain(text)));
	}
}
