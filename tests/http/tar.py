#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Directories of a session as archives, in and out, by curl and GNU tar; and archives that nobody should unpack."""
import gzip
import hashlib
import http.client
import io
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import tarfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from common_http import DAEMON, PATIENCE, Daemon, Skip, wait_until  # noqa: E402
import cbxtest  # noqa: E402

servers = {}
MIB = 1 << 20


def daemon():
    if "daemon" not in servers:
        for program in "curl", "tar":
            if not shutil.which(program):
                raise Skip(f"there is no {program}")
        servers["daemon"] = Daemon()
    return servers["daemon"]


def ask(method, path, body=None, port=None, **headers):
    """Status, headers and body."""
    c = http.client.HTTPConnection("127.0.0.1", port or daemon().port, timeout=PATIENCE)
    c.request(method, path, body, {k.replace("_", "-"): v for k, v in headers.items()})
    r = c.getresponse()
    data = r.read()
    c.close()
    return r.status, r.headers, data


def session(**fields):
    status, _, data = ask("POST", "/sessions", json.dumps(fields), Content_Type="application/json")
    assert status == 200, data
    return json.loads(data)["session_id"]


def run(s, code):
    """What code prints."""
    status, _, data = ask("POST", "/execute", json.dumps({"session_id": s, "code": code}), Content_Type="application/json")
    assert status == 200, data
    _, _, data = ask("GET", f"/execute/{json.loads(data)['request_id']}/results?wait=60")
    r = json.loads(data)
    assert r["status"] == "completed", r
    return "".join(o["content"] for o in r["output"])


def url(s, query=""):
    return f"http://127.0.0.1:{daemon().port}/sessions/{s}/files{query}"


def curl(*args, **kw):
    return subprocess.run(["curl", "-sS", *args], capture_output=True, timeout=PATIENCE, **kw)


def put(s, data, query="", kind="application/x-tar", **headers):
    status, headers, body = ask("POST", f"/sessions/{s}/files{query}", data, Content_Type=kind, **headers)
    return status, headers, json.loads(body)


def archive(*entries, **kw):
    """Of entries as fields of TarInfo, and "data"."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", **kw) as t:
        for fields in entries:
            info = tarfile.TarInfo()
            data = fields.get("data", b"")
            for key in fields.keys() - {"data"}:
                setattr(info, key, fields[key])
            info.size = fields.get("size", len(data))
            t.addfile(info, io.BytesIO(data))
    return out.getvalue()


def names(s):
    return run(s, "import os\nfor d, ds, fs in os.walk('.'):\n  for n in sorted(ds + fs): print(os.path.join(d, n))").splitlines()


def tree(top):
    """What is below a directory: of each path its type, mode, and contents or time and the like."""
    found, links = {}, {}
    for directory, directories, files in os.walk(os.fsencode(top)):
        for name in directories + files:
            path = os.path.join(directory, name)
            st, key = os.lstat(path), os.path.relpath(path, os.fsencode(top))
            if stat.S_ISLNK(st.st_mode):
                found[key] = ("link", os.readlink(path), int(st.st_mtime))
            elif stat.S_ISDIR(st.st_mode):
                found[key] = ("directory", stat.S_IMODE(st.st_mode))
            else:
                found[key] = ("file", stat.S_IMODE(st.st_mode), int(st.st_mtime), Path(os.fsdecode(path)).read_bytes())
                links.setdefault(st.st_ino, []).append(key)
    return found, sorted(sorted(v) for v in links.values() if len(v) > 1)


def make_tree(top):
    files = {b"plain": 5, b"empty": 0, b"a block": 512, "n\u00e4 \u4e2d\U0001f600".encode(): 600, b"new\nline": 1, b"-dash": 2,
             b"back\\slash*": 3, b"\xff\xfe bytes": 4, b"l" * 200: 5, b"d e/f/" + b"g" * 90 + b"/" + b"h" * 90: 6,
             b"one piece": 61440, b"pieces": 200001, b"d e/script": 10}
    for i, (name, size) in enumerate(files.items()):
        path = os.path.join(os.fsencode(top), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(os.urandom(size))
        os.chmod(path, [0o644, 0o600, 0o444, 0o755][i % 4])
        os.utime(path, (10 ** 9 + i, 10 ** 9 + i))
    os.makedirs(f"{top}/nothing/at all")
    os.chmod(f"{top}/nothing", 0o700)
    os.chmod(f"{top}/nothing/at all", 0o1777)
    os.chmod(f"{top}/d e", 0o750)
    os.symlink("../plain", f"{top}/d e/up")
    os.symlink("d e/f", f"{top}/down")
    os.symlink("not there", f"{top}/dangling")
    os.symlink("x" * 150, f"{top}/long")
    os.link(f"{top}/plain", f"{top}/d e/again")


def unpacked(data, into):
    os.makedirs(into)
    r = subprocess.run(["tar", "--no-same-owner", "-xpf", "-", "-C", into], input=data, capture_output=True, timeout=PATIENCE)
    assert r.returncode == 0 and not r.stderr, r.stderr
    return tree(into)[0]


def test_round_trip():
    """By tar and curl, as the formats of GNU and POSIX and compressed; what was there before is replaced."""
    top = os.path.join(daemon().box.dir, "tree")
    os.makedirs(top)
    make_tree(top)
    want, links = tree(top)
    s = session()
    for i, (flags, kind) in enumerate([("--format=gnu -cf", "application/x-tar"), ("--format=posix -cf", "application/x-tar"),
                                       ("-czf", "application/gzip; charset=binary")]):
        query = f"?path=in/{i % 2}"
        r = subprocess.run(f"tar -C '{top}' {flags} - . | curl -sS -T - -X POST -H 'Content-Type: {kind}' '{url(s, query)}'",
                           shell=True, capture_output=True, timeout=PATIENCE)
        a = json.loads(r.stdout)
        size = sum(len(v[3]) for v in want.values() if v[0] == "file") - 5  # that of two names counts once
        assert a == {"path": f"in/{i % 2}", "entries": len(want) + 1, "size": size}, (a, r.stderr, len(want), size)
        r = curl("-D", "-", "-o", f"{top}.{i}.tar", url(s, f"{query}&format=tar"))
        assert r.returncode == 0 and b"Content-Type: application/x-tar\r\n" in r.stdout, r
        got = unpacked(Path(f"{top}.{i}.tar").read_bytes(), f"{top}.{i}")
        assert got == want, [(k, got.get(k), want.get(k)) for k in {**got, **want} if got.get(k) != want.get(k)][:3]
        for a, b in links:  # another name of a file is one there, too
            at = b"in/%d/" % (i % 2)
            assert run(s, f"import os; print(os.path.samefile({at + a}, {at + b}))") == "True\n"
    assert not [n for n in names(s) if ".codebox-" in n]
    with tarfile.open(f"{top}.0.tar") as t:  # nobody's in particular, and down from where it is
        assert {(m.uid, m.gid, m.uname) for m in t} == {(0, 0, "")}
        assert not [m.name for m in t if m.name.startswith("/") or ".." in m.name.split("/")]
    ask("DELETE", f"/sessions/{s}")


def peak(pid):
    return next(int(line.split()[1]) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM"))


def test_a_large_one():
    """More than codeboxd would take into its memory."""
    s = session(memory="1G", disk="300M")
    top = os.path.join(daemon().box.dir, "large")
    os.makedirs(f"{top}/in")
    with open(f"{top}/in/large", "wb") as f:
        for i in range(100):
            f.write(os.urandom(MIB))
    subprocess.run(["tar", "-C", f"{top}/in", "-cf", f"{top}/large.tar", "large"], check=True)
    before = peak(daemon().pid)
    with open(f"{top}/large.tar", "rb") as f:  # in one chunk, which clients may cut as they like
        c = http.client.HTTPConnection("127.0.0.1", daemon().port, timeout=PATIENCE)
        c.request("POST", f"/sessions/{s}/files", iter([f.read()]), {"Content-Type": "application/x-tar"}, encode_chunked=True)
        assert c.getresponse().status == 200
        c.close()
    r = curl("-T", f"{top}/large.tar", "-X", "POST", "-H", "Content-Type: application/x-tar", url(s))
    assert json.loads(r.stdout) == {"path": "", "entries": 1, "size": 100 * MIB}, r
    r = curl("-o", f"{top}/back.tar", url(s, "?format=tar"))
    assert r.returncode == 0, r
    assert peak(daemon().pid) - before < 50 * 1024, (before, peak(daemon().pid))
    os.mkdir(f"{top}/out")
    subprocess.run(["tar", "-C", f"{top}/out", "-xf", f"{top}/back.tar"], check=True)
    subprocess.run(["cmp", f"{top}/in/large", f"{top}/out/large"], check=True)
    ask("DELETE", f"/sessions/{s}")
    shutil.rmtree(top)


def link(name, target, kind=tarfile.SYMTYPE):
    return dict(name=name, type=kind, linkname=target)


def refused(s, what, status, kind, *says):
    """It is not unpacked, but for the entry before what is bad; the answer says that."""
    got, headers, body = put(s, what, "?path=bad")
    text = body.get("message") or body.get("detail")
    assert (got, headers["Codebox-Error"]) == (status, kind), (got, headers["Codebox-Error"], body)
    for part in says:
        assert part in text, (part, text)
    there = names(s)
    assert not [n for n in there if "after" in n or ".codebox-" in n or "evil" in n], there
    run(s, "import shutil; shutil.rmtree('bad', ignore_errors=True)")


def test_hostile_archives():
    s = session()
    good, after = dict(name="good", data=b"x"), dict(name="after", data=b"y")
    for bad, status, kind, says in [
            (dict(name="/evil", data=b"z"), 400, "invalid_archive", "/evil: a path that is absolute"),
            (dict(name="../evil", data=b"z"), 400, "invalid_archive", "../evil: a path"),
            (dict(name="a/../../evil", data=b"z"), 400, "invalid_archive", "a/../../evil: a path"),
            (dict(name="a//evil", data=b"z"), 400, "invalid_archive", "empty part"),
            (link("evil", "/etc/passwd"), 400, "invalid_archive", "evil: a link that leads out (to /etc/passwd)"),
            (link("evil", ".."), 400, "invalid_archive", "leads out"),
            (link("a/evil", "../../b"), 400, "invalid_archive", "leads out"),
            (link("evil", "good/../../b"), 400, "invalid_archive", "leads out"),
            (link("evil", "../good", tarfile.LNKTYPE), 400, "invalid_archive", "a path"),
            (link("evil", "/etc/passwd", tarfile.LNKTYPE), 400, "invalid_archive", "a path"),
            (link("evil", "none", tarfile.LNKTYPE), 404, "file_not_found", "evil: "),
            (dict(name="evil", type=tarfile.FIFOTYPE), 400, "invalid_archive", "evil: a named pipe"),
            (dict(name="evil", type=tarfile.CHRTYPE, devmajor=1, devminor=3), 400, "invalid_archive", "evil: a device"),
            (dict(name="evil", type=tarfile.BLKTYPE), 400, "invalid_archive", "evil: a device"),
            (dict(name="evil", mode=0o4755), 400, "invalid_archive", "evil: set-user-ID or set-group-ID (mode 4755)"),
            (dict(name="evil", mode=0o2755), 400, "invalid_archive", "set-group-ID"),
            (dict(name="evil", type=b"S"), 400, "invalid_archive", "sparse"),
            (dict(name="evil", type=b"Z"), 400, "invalid_archive", 'of type "Z"'),
            (dict(name="evil", type=tarfile.DIRTYPE, size=512, data=bytes(512)), 400, "invalid_archive", "only files"),
            (dict(name="evil", pax_headers={"GNU.sparse.major": "1"}), 400, "invalid_archive", "sparse"),
            (dict(name="evil", pax_headers={"path": "../evil"}), 400, "invalid_archive", "../evil: a path"),
            (dict(name="evil", pax_headers={"size": "99999999999999"}), 413, "archive_too_large", "evil: the files"),
            (dict(name="evil", pax_headers={"comment": "c" * 70000}), 400, "invalid_archive", "extended header"),
            (dict(name="e/" * 1990 + "vil", data=b"z"), 400, "invalid_archive", "too long"),
            (dict(name="good/evil", data=b"z"), 409, "not_a_directory", "good/evil: ")]:
        refused(s, archive(good, bad, after, format=tarfile.PAX_FORMAT), status, kind, says, "1 entry is in place")
    # What leads through a link that the archive has made, or that was there.
    through = archive(dict(name="d", type=tarfile.DIRTYPE, mode=0o755), link("l", "d"), dict(name="l/evil", data=b"z"), after)
    refused(s, through, 409, "not_a_directory", "l/evil: ", "2 entries are in place")
    run(s, "import os; os.makedirs('bad'); os.makedirs('other'); os.symlink('/workspace/other', 'bad/o')")
    refused(s, archive(good, dict(name="o/evil", data=b"z"), after), 409, "not_a_directory", "o/evil: ", "1 entry is")
    # A link at the end of a path is replaced, and what it leads to stays as it is.
    run(s, "import os; os.makedirs('bad'); os.symlink('/workspace/other/x', 'bad/good'); open('other/x', 'w').write('old')")
    assert put(s, archive(good), "?path=bad")[0] == 200
    read = "import os; print(os.path.islink('bad/good'), open('bad/good').read(), open('other/x').read())"
    assert run(s, read) == "False x old\n"
    ask("DELETE", f"/sessions/{s}")


def test_damaged_archives():
    s = session()
    whole = archive(dict(name="good", data=b"x" * 700), dict(name="more", data=b"y" * 70000))
    for n in [0, 1, 511, 512, 900, 1536, 1537, 2048, 2560, 60000, 72000, 72192]:
        done = "0 entries are" if n < 512 + 700 else "1 entry is" if n < 2048 + 70000 else "2 entries are"
        refused(s, whole[:n], 400, "invalid_archive", "cut off", done)
    for n in [0, 100, 1536 + 5, 1536 + 130]:
        refused(s, whole[:n] + bytes([whole[n] ^ 1]) + whole[n + 1:], 400, "invalid_archive", "checksum")
    refused(s, b"PK" + os.urandom(2000), 400, "invalid_archive", "not one of tar")
    refused(s, whole[:72704] + bytes(2 * MIB), 400, "invalid_archive", "follow its end", "2 entries are in place")
    assert put(s, whole + bytes(MIB // 2))[0] == 200
    zipped = gzip.compress(whole)

    def unzip(data, **headers):
        status, headers, body = put(s, data, kind=headers.pop("kind", "application/gzip"), **headers)
        return status, body.get("entries"), body.get("message", "")

    assert unzip(zipped)[:2] == unzip(zipped, kind="application/x-tar", Content_Encoding="gzip")[:2] == (200, 2)
    halves = gzip.compress(whole[:1000]) + gzip.compress(whole[1000:])
    assert unzip(halves)[:2] == (200, 2)
    wrong = zipped[:-8] + bytes([zipped[-8] ^ 1]) + zipped[-7:]  # of its checksum
    for data, says in [(whole, "not of gzip"), (zipped[:len(zipped) // 2], "cut off"), (zipped[:-4], "cut off"), (wrong, "damaged"),
                       (zipped + b"rest", "not of gzip"), (b"", "cut off")]:
        status, _, text = unzip(data)
        assert status == 400 and says in text, (status, says, text)
    for coding in ["br", "gzip, gzip"]:
        assert put(s, whole, Content_Encoding=coding)[0] == 400
    assert put(s, zipped, kind="application/gzip", Content_Encoding="gzip")[0] == 400
    ask("DELETE", f"/sessions/{s}")


def test_bombs():
    """What is small on the way, and large where it is unpacked."""
    s = session(disk="20M")
    out = io.BytesIO()
    with gzip.open(out, "wb", 1) as z:
        z.write(archive(dict(name="good", data=b"x"))[:1024])
        info = tarfile.TarInfo("evil")
        info.size = 300 * MIB
        z.write(info.tobuf())
        for _ in range(300):
            z.write(bytes(MIB))
        z.write(bytes(1024))
    status, headers, body = put(s, out.getvalue(), "?path=b", "application/gzip")
    assert (status, headers["Codebox-Error"]) == (507, "disk_full"), (status, body)
    assert "evil: " in body["detail"] and "1 entry is in place" in body["detail"], body
    assert wait_until(lambda: names(s) == ["./b", "./b/good"]), names(s)
    assert put(s, archive(dict(name="next", data=b"x" * MIB)))[0] == 200  # there is room again
    ask("DELETE", f"/sessions/{s}")


def test_bodies():
    """How an archive comes: with a length and without, asked for, and not to its end."""
    s = session()
    whole = archive(dict(name="d/good", data=b"x"), dict(name="d/more", data=os.urandom(300000)))
    c = http.client.HTTPConnection("127.0.0.1", daemon().port, timeout=PATIENCE)
    for size in 1000, 100000:  # chunks; on one connection
        c.request("POST", f"/sessions/{s}/files", iter([whole[i:i + size] for i in range(0, len(whole), size)]),
                  {"Content-Type": "application/x-tar"}, encode_chunked=True)
        r = c.getresponse()
        assert (r.status, json.loads(r.read())["entries"]) == (200, 2)
    c.close()

    def begin(head, data=b""):
        k = socket.create_connection(("127.0.0.1", daemon().port), PATIENCE)
        k.sendall(f"POST /sessions/{s}/files?path=half HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-tar\r\n"
                  f"{head}\r\n\r\n".encode() + data)
        return k

    for head, status in [("Content-Length: 100000000000", 413), ("Content-Length: 1000000000000000000", 413),
                         ("Transfer-Encoding: chunked", 400)]:
        k = begin(head, b"nonsense\r\n" if status == 400 else b"")
        assert int(k.recv(4096).split()[1]) == status, head
        k.close()
    k = begin("Content-Length: 700000\r\nExpect: 100-continue")
    assert k.recv(4096).startswith(b"HTTP/1.1 100 Continue\r\n\r\n")
    k.sendall(whole[:200000])  # a part of the second file, and then nothing more
    assert wait_until(lambda: [n for n in names(s) if ".codebox-" in n])
    assert "./half/d/good" in names(s)
    k.close()
    assert wait_until(lambda: not [n for n in names(s) if ".codebox-" in n])
    assert "./half/d/good" in names(s) and "./half/d/more" not in names(s)
    # Who is refused before the end hears of it, and keeps nobody busy.
    large = os.path.join(daemon().box.dir, "zeros")
    with open(large, "wb") as f:
        f.truncate(50 * MIB)
    for path in "none", s:
        r = curl("-w", "%{http_code}", "-o", large + ".out", "-T", large, "-X", "POST", "-H", "Content-Type: application/x-tar",
                 url(path))
        assert r.stdout == (b"404" if path == "none" else b"400"), (path, r)
    r = curl("-w", "%{http_code}", "-o", large + ".out", "-T", large, "-X", "POST", "-H", "Content-Type: text/plain", url(s))
    assert r.stdout == b"413", r
    ask("DELETE", f"/sessions/{s}")


def test_many_at_once():
    """Of one tenant, and of all; with an end of each there is room for another."""
    d = Daemon(tenants={f"t{i}": {} for i in range(5)})
    try:
        token = [d.token(f"t{i}") for i in range(5)]
        for i in range(5):
            status, _, data = ask("POST", "/sessions", '{"session_id": "s"}', d.port, Content_Type="application/json",
                                  Authorization="Bearer " + token[i])
            assert status == 200, data

        def begin(i):
            k = socket.create_connection(("127.0.0.1", d.port), PATIENCE)
            k.sendall(b"POST /sessions/s/files HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-tar\r\nExpect: 100-continue"
                      b"\r\nAuthorization: Bearer %s\r\nContent-Length: 1000\r\n\r\n" % token[i].encode())
            return k, int(k.recv(4096).split()[1])

        there = []
        for i in range(4):
            there += [begin(i) for _ in range(32)]
            k, status = begin(i)
            k.close()
            assert status == 429, (i, status)
        assert [status for _, status in there] == [100] * 128
        status, headers, data = ask("GET", "/sessions/s/files?format=tar", port=d.port, Authorization="Bearer " + token[4])
        assert (status, headers["Codebox-Error"]) == (429, "too_many_transfers"), data
        for k, _ in there[:2]:
            k.close()

        def again():
            return ask("GET", "/sessions/s/files?format=tar", port=d.port, Authorization="Bearer " + token[4])[0] == 200

        assert wait_until(again)
        assert again()  # an answer ends, too
        for k, _ in there:
            k.close()
    finally:
        assert d.stop() == 0


def test_deep_and_wide():
    """More directories above one another than have their entries in memory, with more in each than one answer has."""
    s = session()
    run(s, "import os\np = 'top'\nfor d in range(24):\n  os.makedirs(p)\n"
        "  for i in range(30): open(f'{p}/f{i:02}' + 'x' * 60, 'w').close()\n  p += '/m'\nos.makedirs('wide')\nfor i in range(3000): open(f'wide/{i:04}' + 'y' * 40, 'w').write('z')")
    for top in "top", "wide":
        here = run(s, f"import hashlib\nnames = sorted(os.path.relpath(os.path.join(d, n), '{top}') for d, ds, fs in os.walk('{top}') "
                      "for n in ds + fs)\nprint(len(names), hashlib.sha256('\\n'.join(names).encode()).hexdigest())")
        _, _, data = ask("GET", f"/sessions/{s}/files?path={top}&format=tar")
        with tarfile.open(fileobj=io.BytesIO(data)) as t:
            got = sorted(m.name for m in t)
        assert here == f"{len(got)} {hashlib.sha256(chr(10).join(got).encode()).hexdigest()}\n", (here, len(got), got[:3])
    ask("DELETE", f"/sessions/{s}")


def test_what_is_sent():
    s = session()
    run(s, """import os, socket
os.makedirs('d/e'); os.mkfifo('d/pipe'); open('d/s', 'w').close(); os.chmod('d/s', 0o755)
socket.socket(socket.AF_UNIX).bind('d/socket')
for i, target in enumerate(['/etc/passwd', '../d', '../../x', 'e/../../x', 'e', 's', './s']): os.symlink(target, f'd/l{i}')
os.makedirs('.codebox/x', exist_ok=True)""")
    status, headers, data = ask("GET", f"/sessions/{s}/files?path=d", Accept="text/html, application/x-tar;q=0.9")
    assert (status, headers["Content-Type"], headers["X-Content-Type-Options"]) == (200, "application/x-tar", "nosniff")
    assert headers["Content-Disposition"] == f'attachment; filename="{s}.tar"', headers
    with tarfile.open(fileobj=io.BytesIO(data)) as t:
        assert {m.name: (m.type, m.mode, m.linkname) for m in t} == {
            "e": (tarfile.DIRTYPE, 0o755, ""), "s": (tarfile.REGTYPE, 0o755, ""), "l4": (tarfile.SYMTYPE, 0o777, "e"),
            "l5": (tarfile.SYMTYPE, 0o777, "s"), "l6": (tarfile.SYMTYPE, 0o777, "./s")}, t.getmembers()
    assert put(s, data, "?path=back")[0] == 200  # what is sent can be unpacked
    _, _, data = ask("GET", f"/sessions/{s}/files?format=tar", Accept="application/json")
    with tarfile.open(fileobj=io.BytesIO(data)) as t:
        assert "d/s" in t.getnames() and not [n for n in t.getnames() if n.startswith(".codebox")], t.getnames()
    for query, status in [("path=none&format=tar", 404), ("path=d/s&format=tar", 409), ("format=zip", 400),
                          ("path=../x&format=tar", 400), ("path=d&format=json", 200)]:
        got, headers, data = ask("GET", f"/sessions/{s}/files?{query}", Accept="application/x-tar")
        assert got == status and headers["Content-Type"] == "application/json", (query, got, data)
    status, headers, data = ask("HEAD", f"/sessions/{s}/files?format=tar")
    assert (status, headers["Content-Type"], data) == (200, "application/x-tar", b"")
    # What cannot be read is not omitted in silence.
    run(s, "os.chmod('d/s', 0)")
    r = curl("-o", os.devnull, url(s, "?format=tar"))
    # The connection ends in the middle, or before a head was sent.
    assert r.returncode in (18, 52) and not json.loads(curl(url(s, "?path=d")).stdout).get("detail"), r
    ask("DELETE", f"/sessions/{s}")


def test_the_end():
    if "daemon" in servers:
        assert servers["daemon"].stop() == 0


if __name__ == "__main__":
    if not os.access(DAEMON, os.X_OK) and not shutil.which(DAEMON):
        print("1..0 # SKIP there is no codeboxd")
        sys.exit(0)
    cbxtest.run(globals())
