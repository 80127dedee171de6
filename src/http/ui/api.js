// The REST interface. The token is kept here and nowhere else: no cookie carries it, so no other page can have the
// browser send it, and it is gone with this page.
let token = "";

export function signIn(text) {
	token = text;
}

export class Refusal extends Error {
	constructor(status, message) {
		super(message);
		this.status = status;
	}
}

// The segments of a path of a session's file, or of anything else, each with %XX.
export function path(...parts) {
	return parts.join("/").split("/").map(encodeURIComponent).join("/");
}

async function refusal(response) {
	let said;
	try {
		said = await response.json();
	} catch {
		said = {};
	}
	const text = typeof said.detail === "string" ? said.detail : said.message;
	return new Refusal(response.status, typeof text === "string" ? text : `status ${response.status}`);
}

export async function ask(method, url, { body, json, accept, signal } = {}) {
	const headers = {};
	if (token)
		headers.Authorization = `Bearer ${token}`;
	if (accept)
		headers.Accept = accept;
	if (json) {
		headers["Content-Type"] = "application/json";
		body = JSON.stringify(json);
	}
	let response;
	try {
		response = await fetch(url, { method, headers, body, signal, cache: "no-store", credentials: "omit", redirect: "error" });
	} catch (e) {
		if (e.name === "AbortError")
			throw e;
		throw new Refusal(0, "codeboxd does not answer");
	}
	if (!response.ok)
		throw await refusal(response);
	return response;
}

export async function get(url) {
	return (await ask("GET", url)).json();
}

export async function post(url, json) {
	return (await ask("POST", url, { json })).json();
}

// Lines of JSON, as they come.
export async function* lines(url) {
	const reader = (await ask("GET", url, { accept: "application/x-ndjson" })).body.getReader();
	const decoder = new TextDecoder();
	let rest = "";
	for (;;) {
		const { done, value } = await reader.read();
		if (done)
			return;
		const parts = (rest + decoder.decode(value, { stream: true })).split("\n");
		rest = parts.pop();
		for (const part of parts)
			if (part)
				yield JSON.parse(part);
	}
}
