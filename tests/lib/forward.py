# SPDX-License-Identifier: Apache-2.0
"""A proxy on the loopback interface, for plain HTTP and CONNECT, which knows a few names and reaches nothing else."""
import base64
import select
import socket
import urllib.parse

import loopback


class Forward:
    """names: {"host:port": port on 127.0.0.1}. What it was asked for is in `asked`, as "host:port"."""

    def __init__(self, names, user=None):
        self.names, self.user, self.asked = names, user, []
        forward = self

        class Handler(loopback.Handler):
            def reach(self, where):
                forward.asked.append(where)
                login = self.headers.get("Proxy-Authorization")
                if forward.user and login != "Basic " + base64.b64encode(forward.user.encode()).decode():
                    self.refuse(407)
                elif where not in forward.names:
                    self.refuse(502)
                else:
                    return socket.create_connection(("127.0.0.1", forward.names[where]))

            def refuse(self, status):
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()
                self.close_connection = True

            def between(self, peer):
                ends = {self.connection: peer, peer: self.connection}
                while True:
                    for s in select.select(list(ends), [], [])[0]:
                        data = s.recv(65536)
                        if not data:
                            return
                        ends[s].sendall(data)

            def do_CONNECT(self):
                peer = self.reach(self.path)
                self.close_connection = True
                if peer:
                    with peer:
                        self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                        self.between(peer)

            def do_GET(self):
                url = urllib.parse.urlsplit(self.path)
                peer = self.reach(url.netloc if ":" in url.netloc else url.netloc + ":80")
                self.close_connection = True
                if peer:
                    kept = "".join(f"{k}: {v}\r\n" for k, v in self.headers.items() if not k.lower().startswith("proxy-"))
                    with peer:
                        peer.sendall(f"GET {url.path or '/'} HTTP/1.1\r\n{kept}Connection: close\r\n\r\n".encode())
                        self.between(peer)

        self.server = loopback.Server(Handler)
        self.server.serve()
        self.host = self.server.host
        self.url = f"http://{self.host}"
