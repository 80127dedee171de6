# SPDX-License-Identifier: Apache-2.0
"""A model's side of codebox mcp, over stdio: tools are called, and their results come back as they are."""
import json
import subprocess

from cbxtest import CODEBOX


class Model:
    def __init__(self, box, *args):
        self.process = subprocess.Popen([CODEBOX, "mcp", *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=box.env)
        self.n = 0
        self.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {},
                                "clientInfo": {"name": "t", "version": "1"}})
        self.send({"method": "notifications/initialized"})

    def send(self, message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, method, params):
        self.n += 1
        self.send({"id": self.n, "method": method, "params": params})
        while True:
            answer = json.loads(self.process.stdout.readline())
            if answer.get("id") == self.n:
                return answer["result"]

    def call(self, tool, **arguments):
        return self.ask("tools/call", {"name": tool, "arguments": arguments})

    def close(self):
        self.process.stdin.close()
        self.process.wait()
