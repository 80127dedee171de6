#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CPython's own tests, with an image's Python in a session and with the same Python outside of codebox (under bwrap),
test by test. Where it comes out worse in the session, the file "differences" must say so and why. What comes out worse
runs again, up to twice, and must come out worse each time: tests that watch the clock fail by chance on a busy machine.

    run.py [MODULE...]      default: those that are quick; CBX_CPYTHON=all: all (make check-cpython)

The tests are Debian's package libpython3.x-testsuite of the image's version, fetched by apt-get download once; those of
sqlite3 are not in it."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
from cbxtest import Box, Skip  # noqa: E402
from store import images_dir  # noqa: E402

QUICK = "posix os tempfile shutil mmap threading signal".split()
LONG = """subprocess socket asyncio multiprocessing_fork multiprocessing_spawn multiprocessing_forkserver select
    selectors epoll poll fcntl resource file io pathlib glob time concurrent_futures zipfile tarfile posixpath platform
    pwd grp""".split()
SECONDS = 900
CACHE = os.path.join(os.environ.get("CODEBOX_TEST_CACHE") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "codebox-tests"), "cpython")
box = Box(CODEBOX_POOL="0")


def link(source, target):
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)


def with_tests(image):
    """A store of images that has this one, with CPython's tests where they belong. Made once a version."""
    with open(os.path.join(images_dir(), image, "manifest.json")) as f:
        packages = {p["name"]: p["version"] for p in json.load(f).get("packages", [])}
    found = [(m[1], packages[m[0]]) for m in (re.fullmatch(r"libpython(3\.\d+)-stdlib", n) for n in packages) if m]
    if not found:
        raise Skip(f"the image {image} was not made of Debian's packages")
    (python, version), = found
    made = os.path.join(CACHE, f"{image}-{version}")
    if os.path.exists(made):
        return made
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise Skip("there is no apt-get to fetch the tests with")
    os.makedirs(CACHE, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as d:
        # The smaller part of the package "test", which the tests stand on, is in the library's package.
        wanted = [f"libpython{python}-{part}={version}" for part in ("testsuite", "stdlib")]
        r = subprocess.run(["apt-get", "-o", "Acquire::Retries=5", "download", *wanted], cwd=d, text=True,
                           capture_output=True)
        debs = [n for n in os.listdir(d) if n.endswith(".deb")]
        if r.returncode != 0 or len(debs) != 2:
            raise Skip(f"apt-get cannot download {wanted[0]}")
        for deb in debs:
            subprocess.run(["dpkg-deb", "-x", deb, "tree"], cwd=d, check=True)
        to = os.path.join(d, "store/images", image)
        shutil.copytree(os.path.join(images_dir(), image), to, symlinks=True, copy_function=link)
        lib = f"usr/lib/python{python}/test"
        shutil.rmtree(os.path.join(to, "rootfs", lib), ignore_errors=True)
        shutil.copytree(os.path.join(d, "tree", lib), os.path.join(to, "rootfs", lib), symlinks=True)
        os.rename(os.path.join(d, "store"), made)
    return made


ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/home/user", "LANG": "C.UTF-8", "TMPDIR": "/tmp",
               "PYTHONDONTWRITEBYTECODE": "1", "USER": "user", "LOGNAME": "user"}


def outside(image, data, module):
    root = os.path.join(data, "images", image, "rootfs")
    work = os.path.join(box.dir, "outside-" + module)
    home = os.path.join(box.dir, "home-" + module)
    os.mkdir(work)
    os.mkdir(home)
    shutil.copy(os.path.join(HERE, "worker.py"), work)
    setenv = [w for k, v in ENVIRONMENT.items() for w in ("--setenv", k, v)]
    subprocess.run(["bwrap", "--unshare-all", "--uid", "1000", "--gid", "1000", "--hostname", "codebox",
                    "--die-with-parent", "--new-session", "--clearenv", *setenv, "--ro-bind", root, "/",
                    "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--bind", work, "/workspace",
                    "--bind", home, "/home/user", "--chdir", "/workspace", "/usr/bin/python3", "worker.py", module,
                    "/workspace/results"],
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=SECONDS + 60)
    with open(os.path.join(work, "results"), encoding="utf-8") as f:
        return f.read()


INSIDE = """
import subprocess
try:
    subprocess.run(["/usr/bin/python3", "/workspace/worker.py", %r, "/workspace/results"], env=%r, cwd="/workspace",
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=%d,
                   start_new_session=True)
except subprocess.TimeoutExpired:
    pass
"""


def inside(image, module):
    name = module.replace("_", "-")
    to = os.path.join(box.dir, f"results-{module}")
    if os.path.exists(to):
        os.remove(to)
    box("run", "--session", name, "--image", image, "--memory", "4G", "--disk", "2G", "-c", "pass", check=True)
    try:
        box("cp", os.path.join(HERE, "worker.py"), f"{name}:worker.py", check=True)
        r = box("run", "--session", name, "--timeout", str(SECONDS + 30), "-c", INSIDE % (module, ENVIRONMENT, SECONDS),
                timeout=SECONDS + 120)
        box("cp", f"{name}:results", to, check=True)
        assert r.returncode == 0, r.stderr
    finally:
        box("session", "rm", name)
    with open(to, encoding="utf-8") as f:
        return f.read()


def outcomes(text):
    out, ended = {}, False
    for line in text.splitlines():
        what, name, why = line.split("\t", 2)
        if what == "start":
            out[name] = ("hangs", "")
        elif what == "end":
            ended = True
        elif out.get(name, ("", ""))[0] != "fail":
            out[name] = (what, why)
    return out, ended


def listed():
    """[(pattern, outside, inside)]"""
    with open(os.path.join(HERE, "differences"), encoding="utf-8") as f:
        lines = [re.split(r" {2,}", line.strip(), maxsplit=3) for line in f if line.strip() and line[0] != "#"]
    assert all(len(x) == 4 for x in lines), "differences: TEST  OUTSIDE  INSIDE  REASON"
    return [tuple(x[:3]) for x in lines]


def judge(outside, inside, module, known):
    """({test: line} of what comes out worse inside, those of "differences" that were seen)"""
    (a, _), (b, ended) = outcomes(outside), outcomes(inside)
    assert any(x[0] == "ok" for x in a.values()), f"{module}: nothing passes outside: {outside[:300]}"
    wrong, used = {}, set()
    for name in sorted(set(a) | set(b)):
        x, y = a.get(name, ("none", "")), b.get(name, ("none", ""))
        if x[0] == y[0] or y[0] == "ok" or x[0] in ("fail", "hangs"):
            continue  # what comes out better inside, or fails outside as well, is not a defect of the sandbox
        match = next((k for k in known if re.fullmatch(k[0], name) and x[0] in k[1].split("/") and
                      y[0] in k[2].split("/")), None)
        if match:
            used.add(match)
        else:
            wrong[name] = f"{name}  {x[0]}  {y[0]}  {y[1]}"
    if not ended:
        wrong[""] = f"{module} did not come to its end"
    return wrong, used, len(b)


def compare(image, data, module, known):
    got = {}
    threads = [threading.Thread(target=lambda: got.__setitem__("outside", outside(image, data, module))),
               threading.Thread(target=lambda: got.__setitem__("inside", inside(image, module)))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(got) == 2, f"{module} was not run {'inside' if 'outside' in got else 'outside'}; see above"
    wrong, used, n = judge(got["outside"], got["inside"], module, known)
    for _ in range(2):
        if not wrong:
            break
        print(f"# {module} runs again: {'; '.join(wrong.values())}", flush=True)
        again, more, _ = judge(got["outside"], inside(image, module), module, known)
        wrong, used = {k: v for k, v in wrong.items() if k in again}, used | more
    return list(wrong.values()), used, n


def main():
    modules = sys.argv[1:] or ["test_" + m for m in (QUICK + LONG if os.environ.get("CBX_CPYTHON") == "all" else QUICK)]
    try:
        if os.getuid() == 0:  # the store is in its cache, where root's codeboxd, which is another user, does not get
            raise Skip("the ordinary user's run does this")
        image = box.image("python-minimal", "python")
        if not shutil.which("bwrap"):
            raise Skip("there is no bwrap to run the same Python outside of codebox with")
        data = with_tests(image)
    except Skip as e:
        print(f"1..0 # SKIP {e}")
        return 0
    box.env["CODEBOX_DATA_DIR"] = data
    known, failed = listed(), 0
    print(f"1..{len(modules)}", flush=True)
    for number, module in enumerate(modules, 1):
        try:
            wrong, used, n = compare(image, data, module, known)
            stale = [k[0] for k in known if module in k[0] and k not in used and k[2] != "-"]
            wrong += [f"listed as different, and is not: {k}" for k in stale]
        except (AssertionError, OSError, subprocess.SubprocessError, KeyError) as e:
            wrong, n = [f"{type(e).__name__}: {e}"], 0
        failed += bool(wrong)
        print(f"{'not ok' if wrong else 'ok'} {number} - {module}, {n} tests", flush=True)
        for line in wrong:
            print(f"#   {line}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
