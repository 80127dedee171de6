# SPDX-License-Identifier: Apache-2.0
"""A client of the control socket (src/client/protocol.h), for tests and benchmarks."""
import json
import os
import socket


class ControlError(Exception):
    def __init__(self, error):
        super().__init__(f"{error.get('kind')}: {error.get('message')}")
        self.kind = error.get("kind")


class Control:
    def __init__(self, box):
        box("session", "ls", check=True)  # starts the daemon where it does not run
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(os.path.join(box.env["CODEBOX_RUNTIME_DIR"], "control.sock"))
        self.file = self.sock.makefile("rb")
        self.next_id = 1

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.file.close()
        self.sock.close()

    def send(self, method, **params):
        self.next_id += 1
        line = json.dumps({"id": self.next_id, "method": method, "params": params})
        self.sock.sendall(line.encode() + b"\n")
        return self.next_id

    def recv(self):
        line = self.file.readline()
        if not line:
            raise EOFError("codeboxd closed the connection")
        return json.loads(line)

    def call(self, method, **params):
        """Send and wait for the answer; events on the way are dropped."""
        number = self.send(method, **params)
        while True:
            m = self.recv()
            if m.get("id") == number and "event" not in m:
                if "error" in m:
                    raise ControlError(m["error"])
                return m["result"]
