#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page at /ui: its files by http.client, and the page itself in a headless Chromium, by real clicks and keys. What
cells and names say is hostile: it may set no global, send no request, and break no rule of the page's policy."""
import http.client
import http.server
import os
import re
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from common_http import PATIENCE, Daemon, Skip, wait_until  # noqa: E402
import browser  # noqa: E402
import cbxtest  # noqa: E402

SHOTS = os.environ.get("CODEBOX_SCREENSHOTS")  # a directory, for whoever wants to look
TOP = Path(__file__).resolve().parent.parent.parent
shared = {}


def daemon():
    if "daemon" not in shared:
        d = shared["daemon"] = Daemon(tenants={"acme": {"sessions": 8}})
        shared["token"] = d.token("acme")
    return shared["daemon"]


def chromium():
    if not browser.program():
        raise Skip("there is no chromium-headless-shell")
    if "browser" not in shared:
        shared["browser"] = browser.Browser()
    return shared["browser"]


def ask(path, method="GET", port=None, **headers):
    c = http.client.HTTPConnection("127.0.0.1", port or daemon().port, timeout=PATIENCE)
    c.request(method, path, headers={k.replace("_", "-"): v for k, v in headers.items()})
    r = c.getresponse()
    r.data = r.read()
    return r


def api(method, path, body=None):
    import json
    c = http.client.HTTPConnection("127.0.0.1", daemon().port, timeout=PATIENCE)
    headers = {"Authorization": "Bearer " + shared["token"], "Content-Type": "application/json"}
    c.request(method, path, json.dumps(body) if isinstance(body, dict) else body, headers)
    r = c.getresponse()
    data = r.read()
    assert r.status < 300, (r.status, data)
    return json.loads(data) if r.headers["Content-Type"] == "application/json" else data


def page(**kw):
    return chromium().page(f"http://127.0.0.1:{daemon().port}/ui", **kw)


def sign_in(**kw):
    p = page(**kw)
    p.wait("document.activeElement?.id === 'token'")
    p.type(shared["token"])
    p.key("Enter")
    p.wait("!document.getElementById('main').hidden")
    return p


def make(p, name):
    p.click("#new")
    p.type(name, into="#new-name")
    p.click("#new-make")
    p.wait(f"document.getElementById('session-name').textContent === '{name}' && !document.getElementById('session').hidden")


def run(p, code, state="completed"):
    """A cell, by the keyboard; waits for its end."""
    p.wait("!document.getElementById('console').hidden")
    n = p.run("document.querySelectorAll('#cells .cell').length")
    p.type(code, into="#code")
    p.key("Enter", shift=True)
    p.wait(f"document.querySelectorAll('#cells .cell').length === {n + 1} && "
           f"[...document.querySelectorAll('#cells .cell')].pop().querySelector('.state').textContent === '{state}'")


def last(p, selector):
    return p.run(f"[...document.querySelectorAll('#cells .cell')].pop().querySelector('{selector}')?.innerText ?? null")


def clean(p, allowed=()):
    """Nothing went wrong, and nothing was asked of anybody else."""
    p.run("new Promise((r) => requestAnimationFrame(() => setTimeout(r, 50)))")
    assert not [x for x in p.problems if not any(re.search(a, x) for a in allowed)], p.problems
    origin = f"http://127.0.0.1:{daemon().port}/"
    others = [u for u in p.requests if not u.startswith((origin, "blob:" + origin, "about:", "data:,"))]
    assert not others, others


def shot(p, name):
    if SHOTS:
        p.run("new Promise((r) => requestAnimationFrame(() => setTimeout(r, 300)))")
        p.shot(os.path.join(SHOTS, name + ".png"))


# ---- its files ----

def test_files_of_the_page():
    r = ask("/ui")
    assert r.status == 200 and r.headers["Content-Type"] == "text/html; charset=utf-8", r.headers
    policy = r.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy, policy
    assert r.headers["X-Content-Type-Options"] == "nosniff" and r.headers["X-Frame-Options"] == "DENY", r.headers
    assert r.headers["Cache-Control"] == "no-cache", r.headers
    names = re.findall(r'(?:href|src)="(ui/[^"]+)"', r.data.decode())
    assert {"ui/page.css", "ui/page.js", "ui/icon.svg"} <= set(names), names
    types = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
    for f in sorted((TOP / "src/http/ui").iterdir()):
        if f.suffix == ".html":
            continue
        r = ask(f"/ui/{f.name}")
        assert r.status == 200 and r.data == f.read_bytes() and r.headers["Content-Type"].startswith(types[f.suffix]), f.name
        again = ask(f"/ui/{f.name}", If_None_Match=r.headers["ETag"])
        assert (again.status, again.data, again.headers["ETag"]) == (304, b"", r.headers["ETag"]), again.headers
        assert again.headers["Cache-Control"] == "no-cache", again.headers
        assert ask(f"/ui/{f.name}", If_None_Match='"other"').status == 200
    head = ask("/ui", "HEAD")
    assert (head.status, head.data) == (200, b"") and int(head.headers["Content-Length"]) > 1000, head.headers


def test_what_it_does_not_serve():
    for path in ("/ui/nothing", "/ui/../etc/passwd", "/ui/%2e%2e/x", "/ui/page.js/", "/uix"):
        r = ask(path)
        assert r.status in (401, 404), (path, r.status)
    r = ask("/ui", "POST")
    assert (r.status, r.headers["Allow"]) == (405, "GET, HEAD"), r.status
    assert ask("/ui", Host="evil.example.org").status == 403
    assert b'"token":true' in ask("/ui/door.json").data
    assert ask("/sessions").status == 401  # the page needs no token; what it shows does


def test_it_can_be_turned_off():
    d = Daemon("--no-ui")
    try:
        assert ask("/ui", port=d.port).status == 404 and ask("/ui/page.js", port=d.port).status == 404
        assert ask("/version", port=d.port).status == 200
    finally:
        assert d.stop() == 0


# ---- the page ----

def test_a_wrong_token_and_the_right_one():
    p = page()
    p.wait("document.activeElement?.id === 'token'")
    assert p.run("document.getElementById('main').hidden")
    shot(p, "login")
    p.type("cbx_wrong_token")
    p.key("Enter")
    p.see("#login-error", "not valid")
    assert p.run("document.getElementById('main').hidden && document.cookie === '' && localStorage.length + sessionStorage.length === 0")
    p.type(shared["token"], into="#token")
    p.click("#login-form .primary")
    p.wait("!document.getElementById('main').hidden")
    p.see("#none", "no sessions")
    p.click("#leave")
    p.wait("!document.getElementById('login').hidden && document.getElementById('token').value === ''")
    assert p.run("document.cookie === '' && localStorage.length + sessionStorage.length === 0")
    clean(p, allowed=[r"status of 401"])  # Chromium says so of the wrong one
    p.close()


def test_without_a_token_there_is_no_form():
    d = Daemon()
    try:
        p = chromium().page(f"http://127.0.0.1:{d.port}/ui")
        p.wait("!document.getElementById('main').hidden")
        assert p.run("document.getElementById('login').hidden && document.getElementById('leave').hidden")
        assert not p.problems, p.problems
        p.close()
    finally:
        assert d.stop() == 0


FIGURE = """import pandas as pd, matplotlib.pyplot as plt
plt.plot([3, 1, 4, 1, 5]); plt.title('rain'); plt.show()
pd.DataFrame({'city': ['Oslo', 'Rome <b>'], 'rain': [63.5, 21.0]})"""


def test_a_cell_with_text_a_table_an_image_and_an_error():
    p = sign_in()
    make(p, "cells")
    run(p, "import sys\nprint('hello <i>you</i>')\nprint('careful', file=sys.stderr)\n6 * 7")
    assert "hello <i>you</i>" in last(p, ".stdout") and "careful" in last(p, ".out") and "42" in last(p, ".out")
    run(p, FIGURE)
    p.wait("[...document.querySelectorAll('.cell img')].some((e) => e.complete && e.naturalWidth > 100)")
    html = p.wait("document.querySelector('.cell iframe')?.srcdoc")
    assert "<td>Rome &lt;b&gt;</td>" in html and "style" not in html.replace("stylesheet", "") and "class" not in html, html
    assert p.run("document.querySelector('.cell iframe').getAttribute('sandbox') === ''")
    run(p, "def f(x):\n    return 1 / x\nf(0)", state="error")
    assert "ZeroDivisionError" in last(p, ".traceback") and "\x1b" not in last(p, ".traceback")
    run(p, "for i in range(101): print(f'\\r{i} %', end='')")
    assert last(p, ".stdout").strip() == "100 %", last(p, ".stdout")
    run(p, "from IPython.display import clear_output\nprint('gone')\nclear_output()\nprint('stays')")
    assert last(p, ".out").strip() == "stays", last(p, ".out")
    p.wait("/%/.test(document.getElementById('cpu').textContent) && /of/.test(document.getElementById('memory').textContent)")
    p.wait("document.getElementById('runs').textContent === '5'")
    p.run("document.querySelectorAll('.cell')[1].scrollIntoView()")
    shot(p, "console-light")
    p.dark(True)
    shot(p, "console-dark")
    p.size(390, 844, mobile=True)
    assert p.run("document.documentElement.scrollWidth <= 390"), "it is wider than a phone"
    shot(p, "console-phone")
    clean(p)
    p.close()


def test_an_endless_cell_streams_and_is_interrupted():
    p = sign_in()
    make(p, "loop")
    p.type("import time\nn = 0\nwhile True:\n    n += 1; print('turn', n, flush=True); time.sleep(0.05)", into="#code")
    p.click("#run")
    p.see(".cell .stdout", "turn 3")
    assert p.text("#cells .state") == "running"
    p.wait("document.getElementById('session-state').textContent === 'busy'")
    p.click("#interrupt")
    p.wait("document.querySelector('#cells .state').textContent === 'error'")
    p.wait("document.getElementById('interrupt').disabled")
    run(p, "n > 2")
    assert "True" in last(p, ".out")
    clean(p)
    p.close()


def test_files_go_up_and_come_down():
    p = sign_in()
    make(p, "files")
    where = os.path.join(daemon().box.dir, "down")
    os.mkdir(where)
    p.downloads_to(where)
    source = os.path.join(daemon().box.dir, "a b#?%41.csv")
    data = bytes(range(256)) * 40
    Path(source).write_bytes(data)
    p.click("#tab-files")
    p.see("#files-status", "empty")
    p.upload("#upload", source)
    p.see("#entries .name", "a b#?%41.csv")
    run_elsewhere = "import os\nos.makedirs('sub/deep')\nopen('sub/deep/x.txt', 'w').write('deep')"
    p.click("#tab-console")
    run(p, run_elsewhere + "\nlen(open('a b#?%41.csv', 'rb').read())")
    assert str(len(data)) in last(p, ".out")
    p.click("#tab-files")
    p.see("#entries .name", "sub/")
    p.click("#entries [aria-label='Download a b#?%41.csv']")
    # Chromium names it otherwise, and the name is there before the bytes.
    assert wait_until(lambda: p.run("1") and any(f.endswith(".csv") and Path(where, f).read_bytes() == data
                                                 for f in os.listdir(where)), PATIENCE), os.listdir(where)
    shot(p, "files")
    p.run("[...document.querySelectorAll('#entries .link')].find((e) => e.textContent === 'sub/').click()")
    p.see("#entries .name", "deep/")
    p.run("document.querySelector('#path .link').click()")
    p.see("#entries .name", "a b#?%41.csv")
    p.click("#entries [aria-label='Delete a b#?%41.csv']")
    p.click("#sure-yes")
    p.wait("!document.querySelector(\"[aria-label='Delete a b#?%41.csv']\")")
    assert [f["name"] for f in api("GET", "/sessions/files/files")["files"]] == ["sub"]
    clean(p)
    p.close()


class Beacons:
    """Whoever asks here was made to by a cell."""

    def __init__(self):
        heard = self.heard = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                heard.append(self.path)
                self.send_response(204)
                self.end_headers()

            do_POST = do_GET

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


HOSTILE = """<script>top.owned = parent.owned = window.owned = 1</script>
<img src=x onerror="top.owned = 1"><img src="URLimg"><svg onload="top.owned = 1"><script>top.owned = 1</script></svg>
<iframe srcdoc="<script>top.owned = 1</script>"></iframe><iframe src="javascript:top.owned=1"></iframe>
<style>@import url(URLimport); body { background: url(URLstyle) }</style><link rel=stylesheet href="URLlink">
<meta http-equiv=refresh content="0;url=URLmeta"><base href="URLbase/"><form action="URLform"><input autofocus onfocus="top.owned=1"></form>
<a href="javascript:top.owned=1" ping="URLping">link text</a><object data="URLobject"></object><embed src="URLembed">
<table background="URLtable" onclick="top.owned=1"><tr style="background:url(URLrow)"><td id=main class=notice colspan=2>kept text</td></table>
<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=top.owned=1&gt;"></table></mtext></math>
<template><img src=URLtemplate onerror="top.owned=1"></template><noscript><p title="</noscript><img src=x onerror=top.owned=1>"></noscript>
<video poster="URLposter"><source src="URLvideo" onerror="top.owned=1"></video><details ontoggle="top.owned=1" open>d</details>"""
SVG = """<svg xmlns="http://www.w3.org/2000/svg" width="40" height="40" onload="top.owned=1"><script>top.owned=1</script>
<image href="URLsvg" width="9" height="9"/><foreignObject><img xmlns="http://www.w3.org/1999/xhtml" src="URLforeign" onerror="top.owned=1"/></foreignObject>
<rect width="40" height="40" fill="red"/></svg>"""
NAMES = ["<img src=x onerror=top.owned=1>", "\"onmouseover=\"top.owned=1", "javascript:top.owned=1", "<script>top.owned=1<", "‮gnp.exe",
         "a\nb\x1b[31m"]


def test_what_a_cell_shows_cannot_act():
    p, b = sign_in(), Beacons()
    make(p, "hostile")
    show = "from IPython.display import display, HTML, SVG, Markdown, Javascript, JSON\n"
    run(p, show + f"display(HTML({HOSTILE.replace('URL', b.url)!r}))")
    html = p.wait("document.querySelector('.cell iframe')?.srcdoc")
    assert "kept text" in html and "link text" in html, html
    assert not re.search(r"<(script|img|svg|style|object|embed|form|base|meta http|a )|\son\w+=|href=\"java|" + re.escape(b.url), html), html
    run(p, show + f"display(SVG({SVG.replace('URL', b.url)!r}))")
    p.wait("[...document.querySelectorAll('.cell img')].some((e) => e.complete && e.naturalWidth === 40)")
    run(p, show + "display(Javascript('top.owned = 1; fetch(\"" + b.url + "js\")'))\n"
        f"display(Markdown('<img src=x onerror=top.owned=1> ![]({b.url}md)'))\n"
        "display({'text/html': '<p>a<script>top.owned=1</script>', '__proto__': {'x': 1}, 'application/x-evil': '<b>'}, raw=True)\n"
        "display({'image/png': 'not base64!', 'text/plain': 'instead'}, raw=True)")
    p.see(".cell .out", "instead")
    run(p, "raise Exception('<img src=x onerror=top.owned=1>\\x1b]0;title\\x07\\x1b[2J')", state="error")
    assert "<img src=x" in last(p, ".traceback") and "\x1b" not in last(p, ".traceback")
    run(p, "class E(Exception): pass\nE.__name__ = '<script>top.owned=1</script>'\nprint('<script>top.owned=1</script>\\x1b[31mred')\nraise E",
        state="error")
    frames = p.call("Page.getFrameTree")["frameTree"].get("childFrames", [])
    assert all(f["frame"]["url"] == "about:srcdoc" for f in frames), frames
    assert p.run("typeof window.owned === 'undefined' && document.querySelectorAll('#main').length === 1")
    assert not b.heard, b.heard
    clean(p)
    p.close()


def test_names_cannot_act():
    p, b = sign_in(), Beacons()
    make(p, "names")
    run(p, f"import os\nfor n in {NAMES!r}: open(n.replace('/', '_'), 'w').write('x')\nos.mkdir('<img src=x onerror=top.owned=2>')")
    p.click("#tab-files")
    p.see("#entries .name", NAMES[0])
    p.see("#entries .name", "javascript:top.owned=1")
    p.run("[...document.querySelectorAll('#entries .link')].find((e) => e.textContent.startsWith('<img')).click()")
    p.see("#path", "<img src=x onerror=top.owned=2>")
    shot(p, "names")
    p.click("#tab-executions")
    p.see("#execution-rows .code", "<img src=x")
    p.click("#execution-rows .small")
    p.see("#execution .state", "ok")
    p.click("#tab-log")
    p.see("#log-lines", "Cell 1 ended: ok")
    shot(p, "log")
    # Names of sessions are checked by codeboxd; the address is anybody's.
    p.run("location.hash = '#' + encodeURIComponent('<img src=x onerror=top.owned=1>') + '/files'")
    p.wait("document.getElementById('session').hidden")
    p.run("location.hash = '#%E0%A4%A/files'")
    p.run("location.hash = '#__proto__/log'")
    p.click("#sessions a")
    p.wait("!document.getElementById('session').hidden")
    assert p.run("typeof window.owned === 'undefined'") and not b.heard
    clean(p)
    p.close()


def test_by_the_keyboard_and_for_those_who_cannot_see():
    p = sign_in()
    p.wait("document.querySelectorAll('#sessions a').length > 0")
    p.run("document.querySelector('#sessions a').focus()")
    p.key("Enter")
    p.wait("!document.getElementById('session').hidden")
    p.run("document.getElementById('tab-console').focus()")
    for tab in ("files", "executions", "log", "details"):
        p.key("ArrowRight")
        p.wait(f"document.activeElement.id === 'tab-{tab}' && !document.getElementById('{tab}').hidden && "
               f"document.activeElement.getAttribute('aria-selected') === 'true'")
    p.see("#facts", "limits.memory bytes")
    shot(p, "details")
    p.key("Tab")
    assert p.run("document.activeElement.id !== 'tab-details'")
    # Each thing that can be used has a name, as the browser itself computes it for a reader of screens.
    p.run("location.hash = location.hash.replace(/[^/]*$/, 'console')")
    p.wait("!document.getElementById('console').hidden")
    p.call("Accessibility.enable")
    nodes = p.call("Accessibility.getFullAXTree")["nodes"]
    used = [n for n in nodes if not n.get("ignored") and n["role"]["value"] in
            ("button", "link", "textbox", "combobox", "tab", "tabpanel", "meter", "dialog", "navigation", "log", "main")]
    assert len(used) > 12, used
    nameless = [n for n in used if not n.get("name", {}).get("value") and n["role"]["value"] not in ("main",)]
    assert not nameless, nameless
    clean(p)
    p.close()


def test_a_session_ends():
    p = sign_in()
    make(p, "last")
    run(p, "x = 1")
    p.click("#restart")
    p.click("#sure-yes")
    p.see("#cells", "new interpreter")
    run(p, "x", state="error")
    p.click("#end")
    p.click("#sure-no")
    p.click("#end")
    p.click("#sure-yes")
    p.wait("document.getElementById('session').hidden && ![...document.querySelectorAll('#sessions .name')].some((e) => e.textContent === 'last')")
    p.size(390, 844, mobile=True)
    shot(p, "list-phone")
    # One that somebody else ends goes, too.
    api("DELETE", "/sessions/loop")
    p.wait("![...document.querySelectorAll('#sessions .name')].some((e) => e.textContent === 'loop')")
    clean(p)
    p.close()


if __name__ == "__main__":
    try:
        cbxtest.run(globals())
    finally:
        if "browser" in shared:
            shared["browser"].stop()
        if "daemon" in shared:
            shared["daemon"].stop()
