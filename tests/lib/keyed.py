# SPDX-License-Identifier: Apache-2.0
"""A session whose policy adds secrets to requests, in a network of the test's own (ownnet.py)."""
import glob
import hashlib
import json
import os
import shutil
import subprocess
import sys

import ownnet
from cbxtest import Box, named, run
from control import Control

HERE = os.path.dirname(os.path.abspath(__file__))
OF_ENV, OF_FILE, OF_CREDENTIAL = "env-7f3a9c51d2", "file-b81e06c4aa", "cred-55d0e9f327"
DIGESTS = {k: hashlib.sha256(v.encode()).hexdigest() for k, v in (
    ("env", "Bearer " + OF_ENV), ("file", OF_FILE), ("credential", "token " + OF_CREDENTIAL))}

state = {}


def rule(host, **more):
    return {"host": host, "secrets": [{"header": "Authorization", "value": "Bearer {}", "environment": "CBX_TEST_KEY"}], **more}


def policy():
    return {"include": ["default"], "network": {"allow": [
        rule("key.test"), rule("keyed.test", addresses=["10.0.0.5"], methods=["GET"], paths=["/digest/"]),
        rule("wrong.test"), rule("old.test"), rule("pub.test"), rule("lo.test"),
        {"host": "api.test", "plain": True, "ports": [80], "secrets": [
            {"header": "X-Api-Key", "file": os.path.join(state["dir"], "key")},
            {"header": "X-Token", "value": "token {}", "credential": "token"}]},
        {"host": "named.test", "plain": True, "addresses": ["10.0.0.5"], "secrets": [
            {"header": "X-Api-Key", "file": os.path.join(state["dir"], "none")}]},
        {"host": "six.test", "plain": True, "secrets": [{"header": "X-Api-Key", "environment": "CBX_TEST_SHORT"}]},
        {"host": "both.test", "plain": True, "ports": [80], "addresses": ["10.0.0.5"], "secrets": [
            {"header": "X-Api-Key", "file": os.path.join(state["dir"], "key")}]},
        {"host": "both.test", "plain": True, "ports": [80], "addresses": ["100.64.0.1"], "secrets": [
            {"header": "X-Token", "credential": "token"}]},
        "other.test", "bare.test"]}, "mounts": {"allow": [{"path": state["python"]}] if state["python"] else []}}


def box():
    if "box" not in state:
        directory = state["dir"]
        os.mkdir(os.path.join(directory, "credentials"))
        for name, text in (("key", OF_FILE + "\n"), ("credentials/token", OF_CREDENTIAL), ("policy.json", json.dumps(policy()))):
            with open(os.path.join(directory, name), "w") as f:
                f.write(text)
            os.chmod(f.name, 0o600)
        b = Box(CODEBOX_POLICY=os.path.join(directory, "policy.json"), CBX_TEST_KEY=OF_ENV, CBX_TEST_SHORT="short",
                CREDENTIALS_DIRECTORY=os.path.join(directory, "credentials"))
        client = Control(b)
        client.call("session.create", session_id="s")
        client.call("run", session_id="s", code="import requests, os, socket, ssl, subprocess, sys, urllib.request, urllib.error\n"
                    "def get(url, **more):\n"
                    "    try:\n        r = requests.get(url, timeout=20, **more); return f'{r.status_code} {r.text}'\n"
                    "    except Exception as e: return f'{type(e).__name__} {e}'\n")
        state["box"] = b, client
    return state["box"]


def cell(code, session="s"):
    r = box()[1].call("run", session_id=session, code=code)
    return r.get("output", "") + "".join(str(r.get(k) or "") for k in ("error", "traceback"))


def log():
    with open(os.path.join(box()[0].env["CODEBOX_STATE_DIR"], "codeboxd.log")) as f:
        return f.read()


def programs(name):
    """Those of this test's codeboxd; others may run others."""
    return named(box()[0].daemon_pid(), name)


def helpers():
    return len(programs("codebox-tls"))


def main(tests):
    os.environ.pop("CREDENTIALS_DIRECTORY", None)
    setup = subprocess.run([os.path.join(HERE, "..", "clients", "setup.sh"), "httpx"], capture_output=True, text=True)
    found = glob.glob(os.path.join(setup.stdout.strip() or "/nowhere", "lib", "python3*", "site-packages"))
    state["python"], state["no_python"] = None, setup.stderr.strip()
    try:
        state["dir"] = ownnet.enter()
    except ownnet.Impossible as e:
        print(f"1..0 # SKIP no network of its own can be made here: {e}")
        sys.exit(0)
    try:
        if found:  # a copy: the cache may be below root's own directory, which no session's id can pass
            state["python"] = shutil.copytree(found[0], os.path.join(state["dir"], "python"),
                                              ignore=shutil.ignore_patterns("pip*", "setuptools*"))
        box()
        only = os.environ.get("CBX_NETWORK_TEST", "")  # network_mutants.py
        run({k: v for k, v in tests.items() if not k.startswith("test_") or only == k[5:] or not only})
    finally:
        ownnet.leave(state["dir"])
