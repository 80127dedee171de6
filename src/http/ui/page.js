// The page: who is signed in, which session is open, and what it uses. The place is in the address, behind the "#".
import * as api from "./api.js";
import * as cells from "./console.js";
import * as files from "./files.js";
import { $, duration, element, guarded, notice, size, sure, time, write } from "./dom.js";

const TABS = ["console", "files", "executions", "log", "details"];
const EVERY_MS = 2000;
const POINTS = 60;
let timer = null, asking = false, signedIn = false;
let place = { session: null, tab: "console" };
const known = new Map(); // sessions, by id: { info, cpu: [], memory: [] }

// ---- who ----

function signOut(why) {
	signedIn = false;
	api.signIn("");
	clearTimeout(timer);
	known.clear();
	cells.forgetAll();
	$("sessions").replaceChildren();
	$("main").hidden = $("leave").hidden = true;
	$("login").hidden = false;
	write($("login-error"), why);
	write($("total"), "");
	$("token").value = "";
	$("token").focus();
}

function signedInWith(token) {
	signedIn = true;
	$("login").hidden = true;
	$("leave").hidden = !token;
	$("main").hidden = false;
	route();
}

async function signIn(token) {
	api.signIn(token);
	try {
		await api.get("sessions");
	} catch (e) {
		if (e.status !== 401 && e.status !== 403)
			notice(e.message);
		signOut(token ? e.message : "");
		return;
	}
	signedInWith(token);
}

// ---- the list ----

function entry(id) {
	const state = element("span", { className: "state" }), name = element("span", { className: "name" }, id);
	const use = element("span", { className: "use faint" });
	const meter = element("meter", { min: 0, max: 1, "aria-label": `Memory of ${id}` });
	const link = element("a", { href: `#${encodeURIComponent(id)}/console` }, name, state, use, meter);
	return { item: element("li", {}, link), link, state, use, meter };
}

function useOf(info) {
	const u = info.usage ?? {};
	return { cpu: typeof u.cpus === "number" ? `${Math.round(u.cpus * 100)} %` : "–",
		memory: typeof u.memory_bytes === "number" ? size(u.memory_bytes) : "–" };
}

function remember(info) {
	let k = known.get(info.session_id);
	if (!k) {
		k = { cpu: [], memory: [], entry: entry(info.session_id) };
		known.set(info.session_id, k);
		$("sessions").append(k.entry.item);
	}
	k.info = info;
	for (const [list, value] of [[k.cpu, info.usage?.cpus], [k.memory, info.usage?.memory_bytes]]) {
		list.push(value ?? 0);
		list.splice(0, list.length - POINTS);
	}
	const { cpu, memory } = useOf(info), { state, use, meter } = k.entry;
	state.className = `state ${info.state}`;
	write(state, info.state);
	write(use, `CPU ${cpu} · ${memory} · ${info.image}`);
	meter.value = Math.min(1, (info.usage?.memory_bytes ?? 0) / (info.limits?.memory_bytes || 1));
}

function showList(sessions) {
	let cpus = 0, memory = 0;
	const there = new Set(sessions.map((s) => s.session_id));
	for (const info of sessions) {
		remember(info);
		cpus += info.usage?.cpus ?? 0;
		memory += info.usage?.memory_bytes ?? 0;
	}
	for (const [id, k] of known) {
		if (!there.has(id)) {
			k.entry.item.remove();
			known.delete(id);
			cells.forget(id);
		}
	}
	$("none").hidden = sessions.length > 0;
	write($("total"), sessions.length ? `${sessions.length} sessions · ${Math.round(cpus * 100)} % · ${size(memory)}` : "");
}

async function refresh() {
	clearTimeout(timer);
	if (!signedIn || asking)
		return;
	asking = true;
	try {
		showList((await api.get("sessions?usage=now")).sessions);
		showSession();
		if (known.has(place.session) && place.tab === "log")
			await showLog();
		if (known.has(place.session) && place.tab === "executions")
			await showExecutions();
	} catch (e) {
		if (e.status === 401)
			signOut(e.message);
		else if (e.status !== 404)
			notice(e.message);
	}
	asking = false;
	if (signedIn && !document.hidden)
		timer = setTimeout(refresh, EVERY_MS);
}

// ---- the session ----

function drawLine(id, values, most) {
	if (values.length < 3)
		values = [];
	const top = Math.max(most, ...values);
	$(id).firstElementChild.setAttribute("points",
		values.map((v, i) => `${i},${(15 - 14 * v / top).toFixed(2)}`).join(" "));
}

function showFacts(info) {
	const nodes = [];
	const add = (prefix, object) => {
		for (const [key, value] of Object.entries(object)) {
			if (value && typeof value === "object" && !Array.isArray(value)) {
				add(`${prefix}${key}.`, value);
				continue;
			}
			const text = Array.isArray(value) ? value.map((v) => (typeof v === "object" ? JSON.stringify(v) : v)).join(", ") : String(value);
			nodes.push(element("dt", {}, (prefix + key).replaceAll("_", " ")),
				element("dd", {}, key.endsWith("_bytes") ? size(value) : text));
		}
	};
	add("", info);
	$("facts").replaceChildren(...nodes);
}

function showSession() {
	const k = known.get(place.session);
	for (const [id, other] of known) {
		if (id === place.session)
			other.entry.link.setAttribute("aria-current", "page");
		else
			other.entry.link.removeAttribute("aria-current");
	}
	$("session").hidden = !k;
	$("welcome").hidden = Boolean(k);
	$("main").classList.toggle("open", Boolean(k));
	document.title = k ? `${place.session} – codebox` : "codebox";
	if (!k)
		return;
	const { info } = k, { cpu, memory } = useOf(info);
	write($("session-name"), info.session_id);
	write($("session-state"), info.state);
	$("session-state").className = `state ${info.state}`;
	write($("cpu"), cpu);
	write($("memory"), info.limits?.memory_bytes ? `${memory} of ${size(info.limits.memory_bytes)}` : memory);
	write($("image"), info.image);
	write($("runs"), String(info.executions ?? 0));
	write($("expires"), duration((info.expires_in_s ?? 0) * 1000));
	drawLine("cpu-line", k.cpu, 1);
	drawLine("memory-line", k.memory, info.limits?.memory_bytes || 1);
	cells.open(info);
}

async function showExecutions() {
	const list = await api.get(`sessions/${api.path(place.session)}/executions`);
	const text = JSON.stringify(list);
	if ($("execution-rows").shown === text)
		return;
	$("execution-rows").shown = text;
	$("execution-rows").replaceChildren(...list.executions.map((x) => {
		const number = x.request_id.split(".").pop();
		const open = element("button", { className: "small", "aria-label": `Show execution ${number}`,
			onclick: guarded(() => cells.show(x.request_id, $("execution"))) }, "Show");
		return element("tr", {}, element("td", { className: "number" }, number),
			element("td", {}, element("span", { className: `state ${x.outcome}` }, x.outcome)),
			element("td", { className: "code" }, x.code.split("\n").slice(0, 3).join("\n")),
			element("td", { className: "number" }, duration(x.ran_ms)),
			element("td", { className: "number wide" }, duration(x.cpu_ms)),
			element("td", {}, element("div", { className: "row" }, open)));
	}));
}

function logText(e) {
	const what = { made: "The session was asked for", ready: "It was ready", cell: `Cell ${e.id} was queued`, ran: `Cell ${e.id} ended`,
		command: `Command ${e.id} began`, exited: `Command ${e.id} ended`, packages: "Packages were installed",
		interrupted: `Cell ${e.id} was interrupted`, restarted: "Its interpreters were restarted",
		network: "Network", denied: "Refused" }[e.event] ?? e.event;
	const parts = [e.outcome, e.duration_ms === undefined ? null : duration(e.duration_ms), e.why].filter((part) => part);
	return parts.length ? `${what}: ${parts.join(", ")}` : what;
}

async function showLog() {
	const { log } = await api.get(`sessions/${api.path(place.session)}/log`);
	const text = JSON.stringify(log);
	if ($("log-lines").shown === text)
		return;
	$("log-lines").shown = text;
	$("log-lines").replaceChildren(...log.reverse().map((e) => element("li", {}, element("time", { dateTime: `${e.at}Z` }, time(e.at)),
		element("span", {}, logText(e)))));
}

async function showTab() {
	for (const tab of TABS) {
		const chosen = tab === place.tab;
		$(tab).hidden = !chosen;
		$(`tab-${tab}`).setAttribute("aria-selected", String(chosen));
		$(`tab-${tab}`).tabIndex = chosen ? 0 : -1;
	}
	if (!known.has(place.session))
		return;
	if (place.tab === "files")
		await files.open(place.session);
	else if (place.tab === "details")
		showFacts(await api.get(`sessions/${api.path(place.session)}`));
	else if (place.tab === "executions")
		await showExecutions();
	else if (place.tab === "log")
		await showLog();
}

// ---- the place ----

const route = guarded(async () => {
	const [id, tab] = location.hash.slice(1).split("/");
	let session = null;
	try {
		session = id ? decodeURIComponent(id) : null;
	} catch {
		session = null;
	}
	if (session !== place.session)
		$("execution").replaceChildren();
	place = { session, tab: TABS.includes(tab) ? tab : "console" };
	if (!signedIn)
		return;
	asking = false;
	await refresh();
	await showTab();
});

function openTab(tab) {
	location.hash = `#${encodeURIComponent(place.session)}/${tab}`;
}

for (const [i, tab] of TABS.entries()) {
	$(`tab-${tab}`).addEventListener("click", () => openTab(tab));
	$(`tab-${tab}`).addEventListener("keydown", (event) => {
		const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
		if (!step)
			return;
		const next = TABS[(i + step + TABS.length) % TABS.length];
		$(`tab-${next}`).focus();
		openTab(next);
	});
}

$("login-form").addEventListener("submit", (event) => {
	event.preventDefault();
	signIn($("token").value.trim());
});
$("leave").addEventListener("click", () => signOut(""));
$("new").addEventListener("click", () => {
	write($("new-error"), "");
	$("new-dialog").showModal();
});
$("new-cancel").addEventListener("click", () => $("new-dialog").close());
$("new-form").addEventListener("submit", async (event) => {
	event.preventDefault();
	const spec = {};
	for (const [key, id] of [["session_id", "new-name"], ["image", "new-image"], ["memory", "new-memory"]])
		if ($(id).value.trim())
			spec[key] = $(id).value.trim();
	$("new-make").disabled = true;
	try {
		const made = await api.post("sessions", spec);
		$("new-dialog").close();
		$("new-form").reset();
		location.hash = `#${encodeURIComponent(made.session_id)}/console`;
	} catch (e) {
		write($("new-error"), e.message);
	}
	$("new-make").disabled = false;
});
$("end").addEventListener("click", guarded(async () => {
	const id = place.session;
	if (!await sure(`End ${id}? Its variables and files are gone.`, "End it"))
		return;
	await api.ask("DELETE", `sessions/${api.path(id)}`);
	location.hash = "#";
}));
window.addEventListener("hashchange", route);
document.addEventListener("visibilitychange", refresh);

guarded(async () => {
	const door = await api.get("ui/door.json");
	write($("version"), door.version);
	if (door.token)
		signOut("");
	else
		await signIn("");
})();
