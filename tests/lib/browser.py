# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, driven over a pipe by its DevTools protocol: pages, real clicks and keys, and what went wrong.

Debian's chromium-headless-shell is enough; no library and no driver program are needed."""
import base64
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time

PATIENCE = int(os.environ.get("CBX_PATIENCE", 120))  # seconds that only bound a failing test
PROGRAMS = ("chromium-headless-shell", "chromium", "google-chrome")
OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
           "--disable-background-networking", "--disable-component-update", "--disable-sync", "--mute-audio",
           "--force-color-profile=srgb", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--remote-debugging-pipe")


def program():
    return next((p for p in map(shutil.which, PROGRAMS) if p), None)


class Browser:
    """--no-sandbox: root has no other choice, and the only pages are those of the test."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="cbx-browser")
        their_in, self.out = os.pipe()
        self.inp, their_out = os.pipe()

        def descriptors():
            a, b = os.dup(their_in), os.dup(their_out)
            os.dup2(a, 3)
            os.dup2(b, 4)
            for fd in range(5, 40):
                try:
                    os.close(fd)
                except OSError:
                    pass

        env = dict(os.environ, HOME=self.dir, XDG_CONFIG_HOME=self.dir, XDG_CACHE_HOME=self.dir)
        self.log = open(os.path.join(self.dir, "log"), "w+")
        self.process = subprocess.Popen([program(), *OPTIONS, f"--user-data-dir={self.dir}/profile", "about:blank"], env=env,
                                        preexec_fn=descriptors, close_fds=False, start_new_session=True,
                                        stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        os.close(their_in)
        os.close(their_out)
        self.buffer, self.number, self.answers, self.listeners = b"", 0, {}, []

    def read(self, seconds):
        """What has come, if something does in time."""
        if not select.select([self.inp], [], [], seconds)[0]:
            return
        data = os.read(self.inp, 1 << 20)
        if not data:
            self.log.seek(0)
            raise AssertionError("the browser has ended: " + self.log.read()[-2000:])
        *whole, self.buffer = (self.buffer + data).split(b"\0")
        for text in whole:
            message = json.loads(text)
            if "id" in message:
                self.answers[message["id"]] = message
            else:
                for listener in self.listeners:
                    listener(message["method"], message["params"], message.get("sessionId"))

    def send(self, method, session=None, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params, **({"sessionId": session} if session else {})}
        os.write(self.out, json.dumps(message).encode() + b"\0")
        return self.number

    def call(self, method, session=None, **params):
        number, end = self.send(method, session, **params), time.monotonic() + PATIENCE
        while number not in self.answers:
            assert time.monotonic() < end, f"{method} is not answered"
            self.read(0.5)
        answer = self.answers.pop(number)
        assert "error" not in answer, (method, answer["error"])
        return answer["result"]

    def page(self, url, **kw):
        return Page(self, url, **kw)

    def stop(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        for fd in (self.inp, self.out):
            os.close(fd)
        self.log.close()
        shutil.rmtree(self.dir, ignore_errors=True)


class Page:
    """One tab, in a context of its own: with its frames it has no cookies or caches of others."""

    def __init__(self, browser, url, width=1280, height=860, dark=False, mobile=False):
        self.browser = browser
        self.problems, self.requests = [], []
        self.context = browser.call("Target.createBrowserContext")["browserContextId"]
        target = browser.call("Target.createTarget", url="about:blank", browserContextId=self.context)["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.sessions = {self.session}
        browser.listeners.append(self.hear)
        self.enable(self.session)
        self.call("Page.enable")
        self.size(width, height, mobile)
        self.dark(dark)
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def enable(self, session):
        for domain in ("Runtime", "Log", "Network"):
            self.browser.send(f"{domain}.enable", session)
        self.browser.send("Target.setAutoAttach", session, autoAttach=True, waitForDebuggerOnStart=False, flatten=True)

    def hear(self, method, params, session):
        if session not in self.sessions:
            return
        if method == "Target.attachedToTarget": # a frame with a process of its own
            self.sessions.add(params["sessionId"])
            self.enable(params["sessionId"])
        elif method == "Runtime.exceptionThrown":
            self.problems.append("exception: " + json.dumps(params["exceptionDetails"])[:600])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.problems.append("console: " + json.dumps(params["args"])[:600])
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.problems.append("log: " + params["entry"]["text"] + " " + params["entry"].get("url", ""))
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def size(self, width, height, mobile=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)

    def dark(self, on):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if on else "light"}])

    def run(self, script):
        """The value of an expression."""
        r = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in r, (script, r["exceptionDetails"])
        return r["result"].get("value")

    def wait(self, condition):
        """Until an expression is true; its value."""
        end = time.monotonic() + PATIENCE
        while True:
            value = self.run(condition)
            if value:
                return value
            assert time.monotonic() < end, (f"{condition} does not become true", self.problems, self.run("document.body.innerText")[:3000])
            self.browser.read(0.05)

    def text(self, selector):
        return self.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")

    def see(self, selector, text):
        self.wait(f"[...document.querySelectorAll({json.dumps(selector)})].some((e) => e.innerText.includes({json.dumps(text)}))")

    def click(self, selector):
        """Where a person would: the element must be there, and nothing above it."""
        s = json.dumps(selector)
        self.wait(f"!!document.querySelector({s})")
        at = self.wait("(() => { const e = document.querySelector(" + s + "); e.scrollIntoView({ block: 'center' });"
                       "const r = e.getBoundingClientRect(), x = r.x + r.width / 2, y = r.y + r.height / 2;"
                       "const top = document.elementFromPoint(x, y);"
                       "return !e.disabled && top && (e === top || e.contains(top)) ? [x, y] : null; })()")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=at[0], y=at[1], button="left", clickCount=1)

    def type(self, text, into=None):
        if into:
            self.run(f"document.querySelector({json.dumps(into)}).focus()")
        self.call("Input.insertText", text=text)

    def key(self, key, shift=False):
        codes = {"Enter": 13, "Tab": 9, "Escape": 27, "ArrowLeft": 37, "ArrowRight": 39}
        common = {"key": key, "code": key, "windowsVirtualKeyCode": codes[key], "modifiers": 8 if shift else 0}
        self.call("Input.dispatchKeyEvent", type="keyDown", **common, **({"text": "\r"} if key == "Enter" else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def shot(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as f:
            f.write(base64.b64decode(data))

    def upload(self, selector, *paths):
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", nodeId=node, files=list(paths))

    def downloads_to(self, directory):
        self.browser.call("Browser.setDownloadBehavior", behavior="allow", browserContextId=self.context, downloadPath=directory)

    def close(self):
        self.browser.listeners.remove(self.hear)
        self.browser.call("Target.disposeBrowserContext", browserContextId=self.context)
