// Cells of the sessions that were opened in this page; they run on while another session is looked at.
import * as api from "./api.js";
import { $, duration, element, guarded, notice, sure } from "./dom.js";
import { Outputs } from "./output.js";

const consoles = new Map(); // by session: { cells, running: Map of requests, draft }
let current = null;

function of(id) {
	if (!consoles.has(id))
		consoles.set(id, { cells: element("div"), running: new Map(), draft: "" });
	return consoles.get(id);
}

function showRunning() {
	$("interrupt").disabled = !current || !of(current).running.size;
}

export function open(session) {
	if (current !== session.session_id) {
		if (current)
			of(current).draft = $("code").value;
		current = session.session_id;
		$("cells").replaceChildren(of(current).cells);
		$("code").value = of(current).draft;
		const languages = session.languages?.length ? session.languages : ["python"];
		$("language").replaceChildren(...languages.map((l) => element("option", { value: l }, l)));
	}
	showRunning();
}

export function forget(id) {
	consoles.delete(id);
	if (current === id)
		current = null;
}

export function forgetAll() {
	consoles.clear();
	current = null;
	$("cells").replaceChildren();
	$("code").value = "";
}

async function follow(request, outputs, state) {
	for (let tries = 0; tries < 20; tries++) {
		outputs.clear(); // a stream begins with all that there is
		try {
			for await (const event of api.lines(`execute/${api.path(request)}/stream`)) {
				tries = 0;
				if (event.type === "start")
					state("running");
				else if (event.type === "output")
					outputs.text(event.stream, event.text);
				else if (event.type === "display")
					outputs.display(event.data);
				else if (event.type === "clear")
					outputs.clear();
				else if (event.type === "omitted")
					outputs.omitted(event.bytes);
				else if (event.type === "end")
					return event.results;
			}
		} catch (e) {
			if (e.status)
				throw e;
		}
		await new Promise((later) => setTimeout(later, 1000));
	}
	throw new Error("The connection to codeboxd was lost.");
}

function newCell(code) {
	const state = element("span", { className: "state queued" }, "queued");
	const took = element("span");
	const out = element("div", { className: "out", tabIndex: 0, role: "group", "aria-label": "Output" });
	const number = element("span");
	const cell = element("article", { className: "cell", "aria-label": "Cell" },
		element("pre", { className: "code" }, code), element("div", { className: "about" }, number, state, took), out);
	const set = (text) => {
		state.className = `state ${text}`;
		state.textContent = text;
	};
	return { cell, out, number, took, set };
}

async function run() {
	const id = current, code = $("code").value, mine = of(id);
	if (!id || !code.trim())
		return;
	const { cell, out, number, took, set } = newCell(code);
	const outputs = new Outputs(out), began = performance.now();
	mine.cells.append(cell);
	$("code").value = mine.draft = "";
	cell.scrollIntoView({ block: "nearest" });
	let request = null;
	try {
		const language = $("language").selectedIndex > 0 ? { language: $("language").value } : {};
		request = (await api.post("execute", { session_id: id, code, ...language })).request_id;
		number.textContent = `No. ${request.split(".").pop()}`;
		mine.running.set(request, true);
		showRunning();
		const results = await follow(request, outputs, set);
		outputs.error(results.error);
		set(results.status);
	} catch (e) {
		outputs.error(e.message);
		set("error");
	}
	took.textContent = duration(performance.now() - began);
	mine.running.delete(request);
	showRunning();
	if (current === id)
		cell.scrollIntoView({ block: "nearest" });
}

async function interrupt() {
	for (const request of of(current).running.keys())
		await api.post(`execute/${api.path(request)}/interrupt`);
}

// An execution of the list, with what is known of it.
export async function show(request, to) {
	const { cell, out, number, set } = newCell("");
	const whole = await api.get(`execute/${api.path(request)}`);
	const outputs = new Outputs(out), x = whole.execution;
	cell.querySelector(".code").remove();
	number.textContent = `No. ${x.execution_id}`;
	set(x.status);
	if (x.output)
		outputs.text("stdout", x.output);
	for (const d of x.displays ?? [])
		if (d.data)
			outputs.display(d.data);
	outputs.error(x.error ? { ename: x.error.name, evalue: x.error.value, traceback: [x.error.traceback ?? ""] } : x.message);
	to.replaceChildren(cell);
	cell.scrollIntoView({ block: "nearest" });
}

// Enter keeps the indentation of its line, and adds to it behind a colon.
function indent(event) {
	const box = $("code"), before = box.value.slice(box.value.lastIndexOf("\n", box.selectionStart - 1) + 1, box.selectionStart);
	const deeper = /:\s*$/.test(before) ? "    " : "";
	const spaces = /^[ \t]*/.exec(before)[0] + deeper;
	if (!spaces)
		return;
	event.preventDefault();
	box.setRangeText(`\n${spaces}`, box.selectionStart, box.selectionEnd, "end");
}

$("cell-form").addEventListener("submit", (event) => {
	event.preventDefault();
	run();
});
$("code").addEventListener("keydown", (event) => {
	if (event.key !== "Enter" || event.isComposing)
		return;
	if (event.shiftKey || event.ctrlKey || event.metaKey) {
		event.preventDefault();
		run();
	} else {
		indent(event);
	}
});
$("interrupt").addEventListener("click", guarded(interrupt));
$("restart").addEventListener("click", guarded(async () => {
	const id = current;
	if (!await sure(`Give ${id} a new interpreter? Its variables go, its files stay.`, "Restart"))
		return;
	await api.post(`sessions/${api.path(id)}/restart`);
	of(id).cells.append(element("p", { className: "faint" }, "The session has a new interpreter."));
	notice("");
}));
