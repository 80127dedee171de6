// SPDX-License-Identifier: Apache-2.0
// A server of S3 that verifies signatures of Version 4, of headers and of links (npm @20minutes/s3rver), for objects.py:
//
//   node s3server.mjs NODE_MODULES DIRECTORY ACCESS_KEY SECRET
//
// It prints its port. What has no signature is refused, as a bucket that is private does it. POST to /-/fail?n=N&status=S,
// /-/die?n=N or /-/hang?n=N lets the N requests after the next M (&after=M) be answered by S, ends the server in the middle
// of a request, or never answers it; GET /-/log says what was asked for.
import http from "node:http";
import { createRequire } from "node:module";
import path from "node:path";

const [modules, directory, key, secret] = process.argv.slice(2);
const require = createRequire(path.join(modules, "x.js"));
const S3rver = require("@20minutes/s3rver");
const Account = require(path.join(modules, "@20minutes/s3rver/lib/models/account.js"));
Account.registry.get("S3RVER").revokeAccessKey("S3RVER");
Account.DUMMY_ACCOUNT.createKeyPair(key, secret);

const s3 = new S3rver({ directory, silent: true, vhostBuckets: false, configureBuckets: [{ name: "artifacts" }] });
await s3.configureBuckets();
const handle = s3.callback();
const log = [];
let plan = { n: 0, after: 0 };

function control(url, res) {
	const what = url.pathname.slice(3);
	if (what !== "log") plan = { what, n: Number(url.searchParams.get("n")), after: Number(url.searchParams.get("after")),
		status: Number(url.searchParams.get("status")) };
	const text = JSON.stringify(log);
	if (what !== "log") log.length = 0;
	res.end(text);
}

http.createServer((req, res) => {
	const url = new URL(req.url, "http://x");
	if (url.pathname.startsWith("/-/")) return control(url, res);
	log.push({ method: req.method, url: req.url, type: req.headers["content-type"], sha256: req.headers["x-amz-content-sha256"] });
	if (!req.headers.authorization && !url.searchParams.has("X-Amz-Signature")) {
		res.writeHead(403);
		return res.end("<Error><Code>AccessDenied</Code><Message>There is no signature</Message></Error>");
	}
	if (plan.after > 0) {
		plan.after--;
	} else if (plan.n > 0) {
		plan.n--;
		if (plan.what === "fail") {
			req.resume();
			res.writeHead(plan.status);
			return res.end("<Error><Code>SlowDown</Code><Message>Please reduce your request rate</Message></Error>");
		}
		if (plan.what === "die") return req.once("data", () => process.exit(3));
		if (plan.what === "hang") return req.resume();
	}
	handle(req, res);
}).listen(0, "127.0.0.1", function () { console.log(this.address().port); });
