# SPDX-License-Identifier: Apache-2.0
"""An HTTP server of a test, on a free port of the loopback interface."""
import http.server
import threading


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 64
    daemon_threads = True

    def __init__(self, handler):
        super().__init__(("127.0.0.1", 0), handler)
        self.host = f"127.0.0.1:{self.server_port}"
        self.thread = None

    def serve(self):
        """From the first call on, in the process that makes it: a script may fork before its tests."""
        if not self.thread:
            self.thread = threading.Thread(target=self.serve_forever, daemon=True)
            self.thread.start()

    def handle_error(self, request, address):
        pass  # a client that had enough
