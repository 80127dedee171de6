// Files of a session. Names are what code in it has made of them: they are shown as text, and sent with %XX.
import * as api from "./api.js";
import { $, element, guarded, size, sure, time } from "./dom.js";

const UPLOAD_MAX = 24 * 1024 * 1024;
let session = null, directory = "", skip = 0;

const url = (name) => `sessions/${api.path(session)}/files/${api.path(directory ? `${directory}/${name}` : name)}`;

function go(to) {
	directory = to;
	skip = 0;
	return load();
}

function crumbs() {
	const parts = directory ? directory.split("/") : [];
	const nodes = [element("button", { className: "link", onclick: guarded(() => go("")) }, "workspace")];
	parts.forEach((part, i) => {
		const to = parts.slice(0, i + 1).join("/");
		nodes.push("/", element("button", { className: "link", onclick: guarded(() => go(to)) }, part));
	});
	$("path").replaceChildren(...nodes);
}

async function download(name) {
	const response = await api.ask("GET", url(name));
	const blob = new Blob([await response.blob()], { type: "application/octet-stream" });
	const link = element("a", { href: URL.createObjectURL(blob), download: name });
	link.click();
	setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

async function remove(name) {
	if (!await sure(`Delete ${name}?`, "Delete"))
		return;
	await api.ask("DELETE", url(name));
	await load();
}

function row(f) {
	const isDirectory = f.type === "directory";
	const label = isDirectory ? `${f.name}/` : f.name;
	const name = isDirectory
		? element("button", { className: "link", onclick: guarded(() => go(directory ? `${directory}/${f.name}` : f.name)) }, label)
		: element("span", {}, f.type === "link" ? `${label} (link)` : label);
	const actions = element("div", { className: "row" });
	if (!isDirectory)
		actions.append(element("button", { className: "small", "aria-label": `Download ${f.name}`, onclick: guarded(() => download(f.name)) }, "Download"));
	actions.append(element("button", { className: "small danger", "aria-label": `Delete ${f.name}`, onclick: guarded(() => remove(f.name)) }, "Delete"));
	return element("tr", {}, element("td", { className: "name" }, name),
		element("td", { className: "number" }, isDirectory ? "" : size(f.size)),
		element("td", { className: "wide" }, time(f.modified_at)), element("td", {}, actions));
}

async function load() {
	const query = `path=${encodeURIComponent(directory)}&skip=${skip}`;
	const asked = session;
	const list = await api.get(`sessions/${api.path(session)}/files?${query}`);
	if (asked !== session)
		return;
	crumbs();
	const rows = list.files.map(row);
	if (list.next)
		rows.push(element("tr", {}, element("td", { colspan: "4" },
			element("button", { className: "small", onclick: guarded(() => {
				skip = list.next;
				return load();
			}) }, "More"))));
	$("entries").replaceChildren(...rows);
	$("files-status").textContent = rows.length ? "" : "This directory is empty.";
}

async function upload(files) {
	for (const file of files) {
		if (file.size > UPLOAD_MAX)
			throw new Error(`${file.name}: ${size(file.size)} are more than the ${size(UPLOAD_MAX)} that are taken at once`);
		$("files-status").textContent = `Uploading ${file.name} ...`;
		await api.ask("PUT", url(file.name), { body: file });
	}
	await load();
}

export function open(id) {
	if (session !== id) {
		session = id;
		directory = "";
		skip = 0;
	}
	return load();
}

$("upload").addEventListener("change", guarded(async () => {
	await upload([...$("upload").files]);
	$("upload").value = "";
}));
for (const kind of ["dragover", "dragleave", "drop"]) {
	$("files").addEventListener(kind, (event) => {
		event.preventDefault();
		$("files").classList.toggle("over", kind === "dragover");
	});
}
$("files").addEventListener("drop", guarded((event) => upload([...event.dataTransfer.files])));
