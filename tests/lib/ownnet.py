# SPDX-License-Identifier: Apache-2.0
"""A network for a test, with hosts, a name server and nothing behind it: enter() moves the calling script into network
and mount namespaces of its own, an ordinary user's within a user namespace, where all addresses are on the loopback. So what
codeboxd is asked to reach is there, and no packet leaves the machine. The servers are processes of that namespace's root; the
script, and the codeboxd that it starts, are its ordinary user again."""
import contextlib
import ctypes
import fcntl
import hashlib
import os
import shutil
import signal
import socket
import socketserver
import ssl
import struct
import subprocess
import tempfile
import threading
import time

LIBC = ctypes.CDLL(None, use_errno=True)
NEWNS, NEWUSER, NEWNET = 0x20000, 0x10000000, 0x40000000
PUBLIC, OTHER, CLOSED = "93.184.216.34", "93.184.216.35", "93.184.216.36"
GOOD, WRONG, OLD = "93.184.216.37", "93.184.216.38", "93.184.216.39"
PUBLIC6 = "2606:2800:220:1::1"
NAME_SERVER = "10.0.0.5"
# With a router: its addresses, and the machine's.
ROUTER, MACHINE, SECOND, ROUTER6, MACHINE6 = "93.184.216.49", "93.184.216.50", "93.184.216.60", "2606:2800:220:2::1", "2606:2800:220:2::2"
V4 = [PUBLIC, OTHER, CLOSED, GOOD, WRONG, OLD, "10.0.0.5", "169.254.169.254", "100.64.0.1", "192.0.2.1", "198.18.0.1", "203.0.113.9"]
V6 = [PUBLIC6, "fd00::5", "64:ff9b::a00:5", "2002:a00:5::1", "2001:0:a00:5::1", "2001:db8::1"]
# What the name server says; a list of lists: one after the other, for each question.
NAMES = {"pub.test": [PUBLIC], "other.test": [OTHER], "closed.test": [CLOSED], "lo.test": ["127.0.0.1"],
         "meta.test": ["169.254.169.254"], "ten.test": ["10.0.0.5"], "cgnat.test": ["100.64.0.1"],
         "doc.test": ["192.0.2.1"], "bench.test": ["198.18.0.1"], "zero.test": ["0.0.0.0"],
         "mixed.test": ["10.0.0.5", PUBLIC], "six.test": [PUBLIC6], "mapped.test": ["::ffff:127.0.0.1"],
         "nat64.test": ["64:ff9b::a00:5"], "sixtofour.test": ["2002:a00:5::1"], "teredo.test": ["2001:0:a00:5::1"],
         "ula.test": ["fd00::5"], "lo6.test": ["::1"], "doc6.test": ["2001:db8::1"], "named.test": ["10.0.0.5"],
         "rebind.test": [[PUBLIC], ["127.0.0.1"]], "fallback.test": [CLOSED, "10.0.0.5"], "api.test": [PUBLIC], "cname.test": "lo.test",
         "multicast.test": ["224.0.0.1"], "late.test": [PUBLIC], "file.test": [PUBLIC],
         # By HTTPS: certificates of the machine's authority, for this name, for another one, and of a time that is over.
         "key.test": [GOOD], "api.example.com": [GOOD], "bare.test": [GOOD],
         "both.test": ["10.0.0.5", "100.64.0.1"], "keyed.test": ["10.0.0.5"], "wrong.test": [WRONG], "old.test": [OLD]}
# Where they are shown, their file, its names, and when its time is over.
OF_MACHINE = [((GOOD, "10.0.0.5"), "good", "key.test,DNS:api.example.com,DNS:bare.test,DNS:keyed.test", "20400101000000Z"),
              ((WRONG,), "wrong", "other.test", "20400101000000Z"), ((OLD,), "old", "old.test", "20200201000000Z")]


class Impossible(Exception):
    pass


def unshare(flags):
    if LIBC.unshare(flags) < 0:
        raise Impossible(f"unshare: {os.strerror(ctypes.get_errno())}")


def map_ids(inside, outside):
    for name, text in (("setgroups", "deny"), ("uid_map", f"{inside[0]} {outside[0]} 1"),
                       ("gid_map", f"{inside[1]} {outside[1]} 1")):
        with open(f"/proc/self/{name}", "w") as f:
            f.write(text)


def set_up_interfaces():
    four, six = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    fcntl.ioctl(four, 0x8914, struct.pack("16sH22x", b"lo", 0x41))  # SIOCSIFFLAGS: up, running
    for i, address in enumerate(V4):
        fcntl.ioctl(four, 0x8916, struct.pack("16sHH4s16x", f"lo:{i}".encode(), socket.AF_INET, 0,
                                              socket.inet_aton(address)))  # SIOCSIFADDR
        fcntl.ioctl(four, 0x891C, struct.pack("16sHH4s16x", f"lo:{i}".encode(), socket.AF_INET, 0, b"\xff" * 4))
    for address in V6:
        fcntl.ioctl(six, 0x8916, struct.pack("16sIi", socket.inet_pton(socket.AF_INET6, address), 128, 1))
    four.close()
    six.close()


# ---- servers ----

class Names(socketserver.BaseRequestHandler):
    """Of asked.NAME the last number of the address says how often NAME was asked for. mute.test is never answered, late.test
    later than some wait."""
    asked = {}

    def handle(self):
        data, sock = self.request
        at, labels = 12, []
        while data[at]:
            labels.append(data[at + 1:at + 1 + data[at]].decode("latin-1"))
            at += 1 + data[at]
        kind, name = struct.unpack(">H", data[at + 1:at + 3])[0], ".".join(labels).lower()
        turn = self.asked[name, kind] = self.asked.get((name, kind), -1) + 1
        if name == "mute.test":
            return
        if name == "late.test":
            time.sleep(2.5)
        known, answers = NAMES.get(name), []
        if name.startswith("asked."):
            known = [f"192.0.2.{min(255, self.asked.get((name[6:], 1), -1) + 1)}"]
        if isinstance(known, str):
            target = b"".join(bytes([len(x)]) + x.encode() for x in known.split(".")) + b"\0"
            answers.append((b"\xc0\x0c", 5, target))
            owner, known = target, NAMES[known]
        else:
            owner = b"\xc0\x0c"
        if known and isinstance(known[0], list):
            known = known[min(turn, len(known) - 1)]
        for address in known or ():
            v6 = ":" in address
            if kind == (28 if v6 else 1):
                answers.append((owner, kind, socket.inet_pton(socket.AF_INET6 if v6 else socket.AF_INET, address)))
        reply = data[:2] + struct.pack(">HHHHH", 0x8180 if known else 0x8183, 1, len(answers), 0, 0) + data[12:at + 5]
        for who, what, value in answers:
            reply += who + struct.pack(">HHIH", what, 1, 0, len(value)) + value
        sock.sendto(reply, self.client_address)


def read_request(sock):
    """The head, and what comes with and behind it until nothing comes for a moment."""
    data = b""
    with contextlib.suppress(OSError):
        while b"\r\n\r\n" not in data:
            piece = sock.recv(65536)
            if not piece:
                return data
            data += piece
        sock.settimeout(0.1)
        while len(data) < 100000:
            piece = sock.recv(65536)
            if not piece:
                break
            data += piece
    sock.settimeout(60)
    return data


def answer(sock, status, body, more=""):
    sock.sendall(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{more}\r\n".encode() + body)


class Web(socketserver.BaseRequestHandler):
    """Says whom it is, shows what it was sent, redirects, and stands still."""

    def handle(self):
        sock = self.request
        if isinstance(sock, ssl.SSLSocket):
            with contextlib.suppress(OSError):
                sock.do_handshake()
        with contextlib.suppress(OSError):
            self.serve(sock)

    def serve(self, sock):
        where = sock.getsockname()[0].encode()
        first = b"" if isinstance(sock, ssl.SSLSocket) else sock.recv(12, socket.MSG_PEEK)
        if first == b"POST /early ":
            answer(sock, "413 Content Too Large", b"early\n")
            return
        if first == b"POST /later ":
            sock.shutdown(socket.SHUT_WR)
            time.sleep(1)
            while n := len(sock.recv(65536)):
                later[0] += n
            return
        data = read_request(sock)
        path = data.split(b" ")[1].decode() if data.count(b" ") > 1 else "/"
        path = path[path.find("/", 8) if path.startswith("http") else 0:]
        path = path[3:] if path.startswith("/v1/") else path
        if path.startswith("/redirect/"):
            answer(sock, "302 Found", b"", f"Location: {path[10:]}\r\n")
        elif path.startswith("/stall"):
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
            sock.recv(1)
        elif path.startswith("/cut"):
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
        elif path.startswith("/big/"):
            left = int(path[5:])
            sock.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {left}\r\n\r\n".encode())
            while left:
                n = min(left, 1 << 20)
                sock.sendall(bytes(n))
                left -= n
        elif path.startswith("/forever"):
            sock.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            while True:
                sock.sendall(bytes(65536))
        elif path.startswith("/silent"):
            sock.recv(1)
        elif path.startswith("/upgrade"):
            sock.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\nsecret of 101")
        elif path.startswith("/digest/"):
            name = path[8:].lower().encode()
            said = [line.partition(b":")[2].strip() for line in data.split(b"\r\n") if line.lower().startswith(name + b":")]
            answer(sock, "200 OK", b" ".join(hashlib.sha256(v).hexdigest().encode() for v in said))
        elif path.startswith("/slow-echo"):
            body = data.split(b"\r\n\r\n")[0]
            sock.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            for i in range(0, len(body), 5):
                sock.sendall(body[i:i + 5])
                time.sleep(0.005)
        elif path.startswith("/again/"):
            lines = [line for line in data.split(b"\r\n") if line.lower().startswith((b"authorization:", b"x-api-key:"))]
            answer(sock, "200 OK", b"".join(line + b"\n" for line in lines) * int(path[7:]))
        elif path.startswith("/count"):
            counted[0] += 1
            answer(sock, "200 OK", b"counted: %d\n" % counted[0])
        elif path.startswith("/taken-later"):
            answer(sock, "200 OK", b"taken: %d\n" % later[0])
        elif path.startswith("/file"):
            answer(sock, "200 OK", b"contents of a file\n", "Content-Type: text/plain\r\n")
        else:
            answer(sock, "200 OK", b"hello from " + where + b"\n" + data)


later = [0]  # bytes that /later has taken
counted = [0]  # requests for /count


class Banner(socketserver.BaseRequestHandler):
    """One that speaks first."""

    def handle(self):
        self.request.sendall(b"220 banner\r\n")
        with contextlib.suppress(OSError):
            self.request.sendall(b"got " + self.request.recv(1000))


class TCP(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request, client_address):
        pass


class TCP6(TCP):
    address_family = socket.AF_INET6

    def server_bind(self):
        self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        super().server_bind()


def certificate(directory):
    """Of an authority of the test's own; where it is, for clients."""
    path = os.path.join(directory, "pem")
    names = ",".join(f"DNS:{n}" for n in NAMES)
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-keyout", path + ".key", "-out", path, "-days", "2", "-subj", "/CN=test", "-addext",
                    f"subjectAltName={names}"], check=True, capture_output=True)
    return path


def authority(directory):
    """The machine's, in a store of one. Returns where its certificates for names are."""
    where = os.path.join(directory, "authority")
    os.mkdir(where)

    def openssl(*args):
        subprocess.run(["openssl", *args], check=True, capture_output=True, cwd=where)

    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    with open(os.path.join(where, "conf"), "w") as f:
        f.write("[ca]\ndefault_ca=c\n[c]\ndatabase=index\nserial=serial\nnew_certs_dir=.\ncertificate=root\n"
                "private_key=root.key\ndefault_md=sha256\npolicy=p\ncopy_extensions=copy\nunique_subject=no\n"
                "[p]\ncommonName=supplied\n")
    open(os.path.join(where, "index"), "w").close()
    with open(os.path.join(where, "serial"), "w") as f:
        f.write("01\n")
    openssl("req", "-x509", *key, "-keyout", "root.key", "-out", "root", "-days", "2", "-subj", "/CN=machine",
            "-addext", "keyUsage=critical,keyCertSign")
    for _, name, hosts, end in OF_MACHINE:
        openssl("req", "-new", *key, "-keyout", name + ".key", "-out", name + ".csr", "-subj", f"/CN={name}", "-addext",
                f"subjectAltName=DNS:{hosts}")
        openssl("ca", "-batch", "-config", "conf", "-in", name + ".csr", "-out", name, "-startdate", "20200101000000Z",
                "-enddate", end, "-notext")
    return where


def serve(pem):
    servers = [socketserver.ThreadingUDPServer((host, 53), Names) for host in ("127.0.0.1", NAME_SERVER)]
    for port, handler in ((80, Web), (8080, Web), (25, Banner), (2525, Banner)):
        servers += [TCP(("0.0.0.0", port), handler), TCP6(("::", port), handler)]
    certified = {address: name for addresses, name, _, _ in OF_MACHINE for address in addresses}
    for address in ["127.0.0.1", PUBLIC, OTHER, *certified]:
        tls = TCP((address, 443), Web)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        path = os.path.join(os.path.dirname(pem), "authority", certified[address]) if address in certified else pem
        if os.path.exists(path):
            context.load_cert_chain(path, path + ".key")
        tls.socket = context.wrap_socket(tls.socket, server_side=True, do_handshake_on_connect=False)
        servers.append(tls)
    # Connections that nobody takes: the queue is full at once.
    silent = socket.create_server((PUBLIC, 8888), backlog=0)
    for s in servers:
        threading.Thread(target=s.serve_forever, daemon=True).start()
    return silent


def behind(beyond):
    """Move to a network namespace of the machine's own, which has what is there so far beyond a router: the process
    `beyond` is in that. Of the machine's own is a web server, at port 8081; its name server has a private address."""
    def ip(*args, there=False):
        r = subprocess.run([*(["nsenter", "-t", str(beyond), "-n"] if there else []), "ip", *args], capture_output=True, text=True)
        if r.returncode:
            raise Impossible(f"ip {' '.join(args)}: {r.stderr.strip()}")

    unshare(NEWNET)
    ip("link", "set", "lo", "up")
    ip("link", "add", "ext", "type", "veth", "peer", "name", "int", "netns", str(beyond))
    for there, device, four, six in ((True, "int", ROUTER + "/30", ROUTER6 + "/64"), (False, "ext", MACHINE + "/30", MACHINE6 + "/64")):
        ip("addr", "add", four, "dev", device, there=there)
        ip("link", "set", device, "up", there=there)
        ip("-6", "addr", "add", six, "dev", device, "nodad", there=there)
    ip("addr", "add", SECOND + "/32", "dev", "lo")
    ip("route", "add", "default", "via", ROUTER)
    ip("-6", "route", "add", "default", "via", ROUTER6)
    parent = os.getpid()
    servers = [TCP(("0.0.0.0", 8081), Web), TCP6(("::", 8081), Web)]
    if os.fork() == 0:
        LIBC.prctl(1, signal.SIGKILL)
        for s in servers:
            threading.Thread(target=s.serve_forever, daemon=True).start()
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(0)
    for s in servers:
        s.server_close()


def enter(router=False):
    """Returns the directory of the certificate. To be called while there is one thread. router: what is there is not
    the machine's own, but behind()."""
    uid, gid = os.getuid(), os.getgid()
    unshare((NEWUSER if uid else 0) | NEWNS | NEWNET)
    try:
        if uid:
            map_ids((0, 0), (uid, gid))
    except OSError as e:
        raise Impossible(f"map ids: {e}")
    if LIBC.mount(None, b"/", None, 0x44000, None) < 0:  # MS_REC | MS_PRIVATE: root's would reach the machine's
        raise Impossible(f"make mounts private: {os.strerror(ctypes.get_errno())}")
    directory = tempfile.mkdtemp(prefix="cbxnet")
    os.chmod(directory, 0o755)
    set_up_interfaces()
    for name, text in (("resolv.conf", f"nameserver {NAME_SERVER if router else '127.0.0.1'}\noptions timeout:3 attempts:1\n"),
                       ("hosts", "127.0.0.1 localhost\n10.0.0.5 hosts.test\n")):
        path = os.path.join(directory, name)
        with open(path, "w") as f:
            f.write(text)
        if LIBC.mount(path.encode(), os.path.realpath("/etc/" + name).encode(), None, 4096, None) < 0:
            raise Impossible(f"mount {name}: {os.strerror(ctypes.get_errno())}")
    pem, store = certificate(directory), "/etc/ssl/certs/ca-certificates.crt"
    if os.path.exists(store) and LIBC.mount(os.path.join(authority(directory), "root").encode(),
                                            os.path.realpath(store).encode(), None, 4096, None) < 0:
        raise Impossible(f"mount {store}: {os.strerror(ctypes.get_errno())}")
    ready, done = os.pipe()
    parent = os.getpid()
    servers = os.fork()
    if servers == 0:
        LIBC.prctl(1, signal.SIGKILL)
        silent = serve(pem)
        os.write(done, b"x")
        while os.getppid() == parent:
            time.sleep(0.5)
        del silent
        os._exit(0)
    os.close(done)
    if not os.read(ready, 1):
        raise Impossible("the servers did not start")
    os.close(ready)
    if router:
        behind(servers)
    if uid:
        unshare(NEWUSER | NEWNS)
        map_ids((uid, gid), (0, 0))
    return directory


def leave(directory):
    shutil.rmtree(directory, ignore_errors=True)
