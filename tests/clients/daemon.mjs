// SPDX-License-Identifier: Apache-2.0
// A run-time directory, and so a codeboxd, of the importing script alone: another build's may be running.
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import os from "node:os";
import path from "node:path";

const dir = mkdtempSync(path.join(os.tmpdir(), "cbx"));
process.env.CODEBOX_RUNTIME_DIR = path.join(dir, "run");
process.env.CODEBOX_STATE_DIR = path.join(dir, "state");
process.on("exit", () => {
	spawnSync(process.env.CODEBOX || "codebox", ["stop"], { stdio: "ignore" });
	rmSync(dir, { recursive: true, force: true });
});
