#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files by REST: whole, in ranges, as a form, and what their names may be."""
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from common_http import DAEMON, PATIENCE  # noqa: E402
from common_rest import ask, daemon, results, same, session, stop  # noqa: E402
import cbxtest  # noqa: E402


def test_files():
    s = session()
    at = f"/sessions/{s}/files"
    data = os.urandom(300000)
    a = ask("PUT", f"{at}/dir/b%20c%C3%A9.bin", data)
    same((a.status, a.json), (201, {"path": "dir/b cé.bin", "size": 300000}))
    same(results(s, "import os; os.path.getsize('dir/b cé.bin')")["output"][0]["content"], "300000")
    a = ask("GET", f"{at}/dir/b%20c%C3%A9.bin")
    same((a.status, a.data == data, a.headers["Content-Length"]), (200, True, "300000"))
    tag = a.headers["ETag"]
    same(a.headers["X-Content-Type-Options"], "nosniff")
    url = f"{at}/dir/b%20c%C3%A9.bin"
    for header, want, status in [("bytes=0-0", data[:1], 206), ("bytes=100-", data[100:], 206), ("bytes=-7", data[-7:], 206),
                                 ("bytes=299999-400000", data[-1:], 206), ("bytes=5-2", data, 200), ("bytes=x", data, 200),
                                 ("bytes=0-1,5-6", data, 200), ("lines=1-2", data, 200)]:
        a = ask("GET", url, Range=header)
        same((header, a.status, a.data == want), (header, status, True))
    same(ask("GET", url, Range="bytes=5-9").headers["Content-Range"], "bytes 5-9/300000")
    a = ask("GET", url, Range="bytes=300000-")
    same((a.status, a.headers["Content-Range"]), (416, "bytes */300000"))
    a = ask("GET", url, If_None_Match=tag)
    same((a.status, a.data), (304, b""))
    same(ask("GET", url, Range="bytes=0-1", If_Range='"other"').status, 200)
    a = ask("HEAD", url)
    same((a.status, a.headers["Content-Length"], a.data), (200, "300000", b""))
    time.sleep(0.02)
    same(ask("PUT", url, b"short").status, 200)
    same(ask("GET", url, If_None_Match=tag).data, b"short")
    same(ask("PUT", f"{at}/empty", b"").status, 201)
    same(ask("GET", f"{at}/empty").data, b"")
    a = ask("GET", at)
    same([(f["name"], f["type"]) for f in sorted(a.json["files"], key=lambda f: f["name"])],
         [("dir", "directory"), ("empty", "file")])
    same(ask("GET", f"{at}?path=dir").json["files"][0]["size"], 5)
    results(s, "for i in range(700): open(f'dir/{i:03}', 'w').close()")
    names, skip = [], 0
    while skip is not None:
        page = ask("GET", f"{at}?path=dir&skip={skip}").json
        names += [f["name"] for f in page["files"]]
        skip = page.get("next")
    same((len(names), len(set(names))), (701, 701))
    for path, status in [("none", 404), ("dir", 409), ("../etc/passwd", 400), ("%2e%2e/x", 400), ("a//b", 400), ("a%00b", 404),
                         ("%zz", 404), ("%2Fetc/passwd", 400)]:
        a = ask("GET", f"{at}/{path}")
        same((path, a.status), (path, status))
    same(ask("DELETE", f"{at}/dir").json, {"path": "dir", "status": "deleted"})
    same(ask("DELETE", f"{at}/dir").status, 404)
    results(s, "import os; os.mkfifo('pipe'); os.symlink('/etc/passwd', 'link')")
    same(ask("GET", f"{at}/pipe").status, 409)
    same(ask("PUT", "/sessions/none/files/x", b"").json, {"detail": "Session not found"})
    big = os.urandom(20 << 20)
    same(ask("PUT", f"{at}/big", big).status, 201)
    assert ask("GET", f"{at}/big").data == big
    ask("DELETE", f"/sessions/{s}")


def test_plus_is_a_space_in_queries_alone():
    s = session()
    at = f"/sessions/{s}/files"
    for path, name in [("a%20b/c+d", "a b/c+d"), ("a+b/c%20d", "a+b/c d"), ("a%2Bb/e%2bf", "a+b/e+f")]:
        a = ask("PUT", f"{at}/{path}", b"x")
        same((path, a.status, a.json["path"]), (path, 201, name))
    same(ask("GET", f"{at}/a+b/c+d").status, 404)
    for query, path, names in [("a+b", "a b", ["c+d"]), ("a%20b", "a b", ["c+d"]), ("a%2Bb", "a+b", ["c d", "e+f"]),
                               ("a%2bb", "a+b", ["c d", "e+f"])]:
        a = ask("GET", f"{at}?path={query}")
        same((query, a.json["path"], sorted(f["name"] for f in a.json["files"])), (query, path, names))
    for query in ["skip=+1", "skip=1+", "skip=%2B1", "path=a%", "path=a%2", "path=a%2g", "path=a%00b", "path=%+1", "pa+th=a"]:
        a = ask("GET", f"{at}?{query}")
        same((query, a.status, a.json["status"]), (query, 400, "error"))
    if shutil.which("curl"):  # as its users write it
        url = f"http://127.0.0.1:{daemon().port}{at}"
        r = subprocess.run(["curl", "-sG", "--data-urlencode", "path=a+b", url], capture_output=True, text=True, timeout=PATIENCE)
        same(json.loads(r.stdout)["path"], "a+b")
    ask("DELETE", f"/sessions/{s}")


def form(*parts, boundary="b0"):
    """A body of multipart/form-data: of each part the headers and the data."""
    body = b"".join(b"--%s\r\n%s\r\n\r\n%s\r\n" % (boundary.encode(), head.encode(), data) for head, data in parts)
    return body + f"--{boundary}--\r\n".encode()


def file(name, more=""):
    return f'Content-Disposition: form-data; name="file"; filename="{name}"{more}'


def test_forms_with_files():
    s = session()
    at = f"/sessions/{s}/files"

    def post(body, query="", kind='multipart/form-data; boundary="b0"'):
        return ask("POST", at + query, body, Content_Type=kind)

    big = os.urandom(200000) + b"\r\n--b\r\n--" * 9
    a = post(form((file("a b.bin"), big), (file("empty") + "\r\nContent-Type: text/plain", b""), (file("%22é%22+.txt"), b"x")),
             "?path=new/in+it")
    same((a.status, a.json), (200, {"files": [{"path": "new/in it/a b.bin", "size": len(big)}, {"path": "new/in it/empty", "size": 0},
                                              {"path": 'new/in it/"é"+.txt', "size": 1}]}))
    assert ask("GET", f"{at}/new/in%20it/a%20b.bin").data == big
    same(ask("GET", f"{at}/new/in%20it/%22%C3%A9%22+.txt").data, b"x")
    same(post(form((file("empty"), b"not now")), "?path=new/in+it").status, 200)
    same(ask("GET", f"{at}/new/in%20it/empty").data, b"not now")
    # Nothing is written unless all of it is right.
    good, names = (file("good"), b"x"), ["", ".", "..", "../x", "a/b", "/etc/passwd", "a\\b", "a\tb", "a%0Ab", "%0d", "n" * 256]
    bad = [(form(good, (file(name), b"x")), "filename") for name in names]
    bad += [(form(good, (file("a\x00b"), b"x")), "malformed"), (form(good, (file("x"), b"")).replace(b'"x"', b'"\xff"'), "filename"),
            (form(good, good), "twice"), (form(good, (file("b", '; filename="c"'), b"")), "twice"),
            (form(good, (file("b", "; filename*=UTF-8''c"), b"")), "filename*"),
            (form(good, ('Content-Disposition: form-data; name="x"', b"1")), "not a file"),
            (form(good, ('Content-Disposition: attachment; filename="x"', b"1")), "form-data"),
            (form(good, ("Content-Type: text/plain", b"1")), "Content-Disposition"),
            (form(good, (file("b") + "\r\n" + file("c"), b"1")), "two"),
            (form(good, (file("b") + "\r\nContent-Transfer-Encoding: base64", b"1")), "Content-Transfer-Encoding"),
            (form(good, (file("b") + "\r\n folded", b"1")), "malformed"), (form(good, (file("b") + "\r\nX: " + "y" * 4096, b"")), "long"),
            (form(good, (file("b") + "\r\nX: y" * 17, b"")), "many"), (form(*((file(str(i)), b"") for i in range(257))), "256"),
            (form(), "no files"), (b"", "begin"), (b"before" + form(good), "begin"), (form(good)[:-8], "missing"),
            (form(good)[:-4], "malformed"), (form(good) + b"behind", "malformed"), (form(good).replace(b"\r\n", b"\n"), "malformed"),
            (form(good, boundary="b1"), "begin")]
    for body, why in bad:
        a = post(body)
        same((body[:300], a.status, why in a.json.get("message", "")), (body[:300], 400, True))
    for kind in ["multipart/form-data", "multipart/form-data; boundary=", "multipart/mixed; boundary=b0", "application/json", "text/plain",
                 "multipart/form-data; boundary=b0; boundary=b0", f"multipart/form-data; boundary={'b' * 71}"]:
        a = post(form(good), kind=kind)
        same((kind, a.status, "Content-Type" in a.json["message"]), (kind, 400, True))
    for query in ["?path=..", "?path=/etc", "?path=a//b", "?paths=a", f"?path={'a/' * 1990}a"]:
        same((query[:20], post(form(good), query).status), (query[:20], 400))
    same([f["name"] for f in ask("GET", at).json["files"]], ["new"])
    # What the sandbox refuses is said, with its name.
    same(ask("PUT", f"{at}/plain", b"").status, 201)
    a = post(form(good), "?path=plain")
    same((a.status, a.json["detail"].startswith("plain/good: ")), (409, True))
    results(s, "import os; os.symlink('/etc', 'out')")
    same((post(form((file("passwd"), b"x")), "?path=out").status, ask("GET", f"{at}/out/passwd").status), (403, 200))
    same(ask("POST", "/sessions/none/files", form(good), Content_Type="multipart/form-data; boundary=b0").status, 404)
    if shutil.which("curl"):
        directory = os.path.join(daemon().box.dir, "form")
        os.mkdir(directory)
        Path(directory, 'a"b').write_bytes(big)
        r = subprocess.run(["curl", "-s", "-F", 'file=@"a\\"b"', "-F", 'other=@"a\\"b";filename=second',
                            f"http://127.0.0.1:{daemon().port}{at}?path=c"], cwd=directory, capture_output=True, text=True, timeout=PATIENCE)
        same(json.loads(r.stdout)["files"], [{"path": 'c/a"b', "size": len(big)}, {"path": "c/second", "size": len(big)}])
        assert ask("GET", f"{at}/c/a%22b").data == big
    ask("DELETE", f"/sessions/{s}")


def test_the_end():
    stop()


if __name__ == "__main__":
    if not os.access(DAEMON, os.X_OK) and not shutil.which(DAEMON):
        print("1..0 # SKIP there is no codeboxd")
        sys.exit(0)
    cbxtest.run(globals())
