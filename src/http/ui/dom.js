// Elements are made of names, properties and texts; nothing is ever parsed as HTML here.
export const $ = (id) => document.getElementById(id);

export function element(name, properties = {}, ...children) {
	const e = document.createElement(name);
	for (const [key, value] of Object.entries(properties)) {
		if (key.startsWith("aria-") || key === "role" || key === "colspan")
			e.setAttribute(key, value);
		else
			e[key] = value;
	}
	e.append(...children);
	return e;
}

export function size(bytes) {
	const units = ["B", "KiB", "MiB", "GiB", "TiB"];
	let i = 0;
	for (; bytes >= 1024 && i < units.length - 1; i++)
		bytes /= 1024;
	return `${i && bytes < 10 ? bytes.toFixed(1) : Math.round(bytes)} ${units[i]}`;
}

export function duration(ms) {
	if (ms < 1000)
		return `${Math.round(ms)} ms`;
	if (ms < 120000)
		return `${(ms / 1000).toFixed(ms < 10000 ? 1 : 0)} s`;
	if (ms < 7200000)
		return `${Math.round(ms / 60000)} min`;
	return ms < 172800000 ? `${Math.round(ms / 3600000)} h` : `${Math.round(ms / 86400000)} d`;
}

// Times of the interface are of UTC, without a zone.
export function time(text) {
	const t = new Date(text.endsWith("Z") ? text : `${text}Z`);
	const today = t.toDateString() === new Date().toDateString();
	return today ? t.toLocaleTimeString() : t.toLocaleString();
}

// Write a text where it differs, so that what is selected or focused stays so.
export function write(e, text) {
	if (e.textContent !== text)
		e.textContent = text;
}

// Ask before something is lost. The event "close" comes late, when the next question may be there already.
export function sure(question, verb) {
	const dialog = $("sure");
	$("sure-text").textContent = question;
	$("sure-yes").textContent = verb;
	dialog.showModal();
	$("sure-no").focus();
	return new Promise((resolve) => {
		const answer = (value) => {
			dialog.close();
			resolve(value);
		};
		$("sure-yes").onclick = () => answer(true);
		$("sure-no").onclick = () => answer(false);
		dialog.oncancel = () => resolve(false);
	});
}

let hides;

export function notice(text) {
	const e = $("notice");
	clearTimeout(hides);
	write(e, text);
	e.hidden = !text;
	if (text)
		hides = setTimeout(() => notice(""), 12000);
}

// What a person has begun may be refused, and the page says so.
export function guarded(action) {
	return async (...args) => {
		try {
			return await action(...args);
		} catch (e) {
			notice(e.message);
			return undefined;
		}
	};
}
