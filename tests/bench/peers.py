# SPDX-License-Identifier: Apache-2.0
"""What codebox is measured beside. Every peer runs the same interpreter, on the files of the same image.

The image's Python runs without a container by the image's own loader (or is the machine's, for the image "host"). A
peer counts as there when it has run a program once; else the report says why not.
"""
import atexit
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from measure import check

HERE = os.path.dirname(os.path.abspath(__file__))
STACK = ("numpy", "pandas", "matplotlib.pyplot", "IPython.core.interactiveshell")


def run(argv, env=None, want=None, **kw):
    """Run a command to its end; its output must be as wanted."""
    r = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kw)
    check(r.returncode == 0, f"{' '.join(argv)[:200]} -> {r.returncode}: {r.stderr.decode(errors='replace')[-300:]}")
    if want is not None:
        check(r.stdout.decode() == want, f"{argv[0]}: printed {r.stdout[:200]!r}, not {want!r}")
    return r


def mirror(source, to, root):
    """A directory of links to what is in another one of the root file system, and to what links there mean in it."""
    os.mkdir(to)
    for name in os.listdir(source):
        path = os.path.join(source, name)
        if os.path.islink(path) and os.readlink(path).startswith("/"):
            path = root + os.readlink(path)
        os.symlink(path, os.path.join(to, name))


class Image:
    """A directory with a root file system, and its Python as a command outside of any container."""

    def __init__(self, name, box):
        self.name = name
        candidates = [os.environ.get("CODEBOX_DATA_DIR"), box.env.get("XDG_DATA_HOME", "") and
                      os.path.join(box.env["XDG_DATA_HOME"], "codebox"),
                      os.path.expanduser("~/.local/share/codebox"), "/var/lib/codebox"]
        roots = [os.path.join(c, "images", name, "rootfs") for c in candidates if c]
        self.root = next((r for r in roots if name != "host" and os.path.isfile(os.path.join(r, "usr/bin/python3"))),
                         None)
        self.env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": tempfile.gettempdir(), "LANG": "C.UTF-8",
                    "PYTHONDONTWRITEBYTECODE": "1", "MPLCONFIGDIR": tempfile.gettempdir()}
        self.python = ["/usr/bin/python3"]
        if self.root:
            libs = f"{self.root}/usr/lib/{platform.machine()}-linux-gnu"
            loader = next((os.path.join(self.root, p) for p in ("lib64/ld-linux-x86-64.so.2",
                                                                "lib/ld-linux-aarch64.so.1")
                           if os.path.exists(os.path.join(self.root, p))), None)
            if loader:
                self.env["PYTHONHOME"] = f"{self.root}/usr"
                self.env["PYTHONNOUSERSITE"] = "1"
                self.own_data_of_matplotlib()
                self.python = [loader, "--argv0", f"{self.root}/usr/bin/python3", "--library-path",
                               f"{libs}:{libs}/blas:{libs}/lapack", f"{self.root}/usr/bin/python3"]
        self.version = run(self.python + ["-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
                           self.env).stdout.decode().strip()
        have = run(self.python + ["-c", "from importlib.util import find_spec as f\n"
                                  f"print([m for m in {STACK!r} if f(m.split('.')[0])])"], self.env).stdout.decode()
        self.stack = [m for m in STACK if repr(m) in have]

    def own_data_of_matplotlib(self):
        """Debian's matplotlib looks for its data at a fixed place of the machine, unless they are beside it."""
        package = f"{self.root}/usr/lib/python3/dist-packages/matplotlib"
        data = f"{self.root}/usr/share/matplotlib/mpl-data"
        if not os.path.isdir(package) or not os.path.isdir(data):
            return
        self.env["MATPLOTLIBRC"] = f"{self.root}/etc/matplotlibrc"
        self.env["PYTHONPATH"] = tempfile.mkdtemp(prefix="cbxbench")
        atexit.register(shutil.rmtree, self.env["PYTHONPATH"], ignore_errors=True)
        beside = os.path.join(self.env["PYTHONPATH"], "matplotlib")
        mirror(package, beside, self.root)
        if not os.path.exists(os.path.join(beside, "mpl-data")):
            mirror(data, os.path.join(beside, "mpl-data"), self.root)

    def bwrap(self, *command):
        """The command line that runs a command on these files in bubblewrap, with all of its namespaces."""
        if self.root:
            files = ["--ro-bind", self.root, "/"]
        else:
            files = ["--ro-bind", "/usr", "/usr"]
            for name in ("bin", "sbin", "lib", "lib64"):
                if os.path.islink("/" + name):
                    files += ["--symlink", "usr/" + name, "/" + name]
        return ["bwrap", "--unshare-all", "--die-with-parent", *files, "--proc", "/proc", "--dev", "/dev", "--tmpfs",
                "/tmp", *command]


class Runc:
    """An OCI bundle of a root file system, run without root."""

    def __init__(self, root):
        self.dir = tempfile.mkdtemp(prefix="cbxbench")
        self.root, self.count = root, 0
        run(["runc", "spec", "--rootless"], cwd=self.dir)
        with open(os.path.join(self.dir, "config.json")) as f:
            self.config = json.load(f)
        self.config["root"] = {"path": root, "readonly": True}
        self.config["process"]["terminal"] = False

    def __call__(self, *command):
        """The command line; the bundle is written, so only one at a time."""
        self.config["process"]["args"] = list(command)
        with open(os.path.join(self.dir, "config.json"), "w") as f:
            json.dump(self.config, f)
        self.count += 1
        return ["runc", "--root", os.path.join(self.dir, "state"), "run", "--bundle", self.dir, f"b{self.count}"]

    def close(self):
        shutil.rmtree(self.dir, ignore_errors=True)


class Podman:
    """Containers on a root file system, without root; what it keeps of them is in a directory that goes with it."""

    def __init__(self, root):
        self.root = root
        self.dir = tempfile.mkdtemp(prefix="cbxbench")
        self.env = dict(os.environ, XDG_RUNTIME_DIR=self.dir)
        run(self("/usr/bin/python3", "-c", "pass"), self.env)

    def __call__(self, *command):
        return ["podman", "--root", os.path.join(self.dir, "storage"), "run", "--rm", "--network", "none",
                "--read-only", "--rootfs", self.root, *command]

    def close(self):
        try:
            with open(os.path.join(self.dir, "libpod/tmp/pause.pid")) as f:
                os.kill(int(f.read()), signal.SIGKILL)  # what keeps podman's user namespace for the next container
        except OSError:
            pass
        shutil.rmtree(self.dir, ignore_errors=True)


class Worker:
    """worker.py under some command: a bare interpreter that answers cells."""

    def __init__(self, argv, env, cwd=None):
        with open(os.path.join(HERE, "worker.py")) as f:
            source = f.read()
        self.p = subprocess.Popen(argv + ["-c", source], env=env, cwd=cwd, stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE)

    def __call__(self, code):
        self.p.stdin.write(json.dumps(code).encode() + b"\n")
        self.p.stdin.flush()
        line = self.p.stdout.readline()
        check(line, "the bare Python has ended")
        return json.loads(line)

    def close(self):
        self.p.stdin.close()
        self.p.wait()


class Kernel:
    """An IPython kernel on the image's Python, through jupyter_client."""

    def __init__(self, image, directory):
        from jupyter_client import KernelManager
        from jupyter_client.kernelspec import KernelSpec
        site = next(p for p in sys.path if p.endswith("site-packages"))
        os.environ["JUPYTER_RUNTIME_DIR"] = directory
        path = os.pathsep.join(p for p in (image.env.get("PYTHONPATH"), site) if p)
        env = dict(image.env, PYTHONPATH=path, IPYTHONDIR=directory)
        self.manager = KernelManager(transport="ipc", connection_file=os.path.join(directory, f"k{id(self)}.json"))
        self.manager._kernel_spec = KernelSpec(
            argv=image.python + ["-m", "ipykernel_launcher", "-f", "{connection_file}"], language="python",
            display_name="bench", env=env)
        self.manager.start_kernel(env=env)
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=600)

    def __call__(self, code):
        """The value of the cell, once both it and the reply have come."""
        ident, value = self.client.execute(code, store_history=False), ""
        while True:
            m = self.client.get_iopub_msg(timeout=600)
            if m["parent_header"].get("msg_id") != ident:
                continue
            if m["msg_type"] == "execute_result":
                value = m["content"]["data"]["text/plain"]
            if m["msg_type"] == "error":
                check(False, m["content"]["evalue"])
            if m["msg_type"] == "status" and m["content"]["execution_state"] == "idle":
                break
        while self.client.get_shell_msg(timeout=600)["parent_header"].get("msg_id") != ident:
            pass
        return value

    def pid(self):
        return self.manager.provisioner.process.pid

    def close(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


class Peers:
    """Which peers are there; each is tried once."""

    def __init__(self, report, image, true, none=False):
        self.report, self.image = report, image
        self.runc = self.podman = None
        self.dir = tempfile.mkdtemp(prefix="cbxbench")
        if none:
            report.absent.update(dict.fromkeys(("bubblewrap", "unshare", "firejail", "runc", "podman", "docker",
                                                "IPython kernel"), "not asked for"))
            return
        self._try("bubblewrap", ["bwrap", "--version"], lambda: run(image.bwrap("/usr/bin/python3", "-c", "pass")))
        self._try("unshare", ["unshare", "--version"], lambda: run(self.unshare(true)))
        self._try("firejail", ["firejail", "--version"], lambda: run(self.firejail(true)))
        self._try("runc", ["runc", "--version"], self._runc)
        self._try("podman", ["podman", "--version"], self._podman)
        self._try("docker", ["docker", "--version"], self._docker)
        self._kernel()

    def has(self, name):
        return name in self.report.peers

    def _try(self, name, version, attempt):
        if not shutil.which(version[0]):
            self.report.absent[name] = "not installed"
            return
        try:
            text = run(version).stdout.decode().splitlines()[0]
            attempt()
            self.report.peers[name] = next((w.rstrip(",") for w in text.split() if w[0].isdigit()), text)
        except Exception as e:
            self.report.absent[name] = "it does not run here: " + " ".join(str(e).split())[-160:]

    def unshare(self, *command):
        return ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--net", "--ipc", "--uts",
                "--cgroup", *command]

    def firejail(self, *command):
        return ["firejail", "--quiet", "--noprofile", "--net=none", "--", *command]

    def _runc(self):
        check(self.image.root, "the image has no directory of its own")
        self.runc = Runc(self.image.root)
        run(self.runc("/usr/bin/python3", "-c", "pass"))

    def _podman(self):
        check(self.image.root, "the image has no directory of its own")
        self.podman = Podman(self.image.root)

    def _docker(self):
        run(["docker", "info"])
        check(False, "there is no image of the same files in it")

    def _kernel(self):
        try:
            import ipykernel
            import jupyter_client
        except ImportError:
            self.report.absent["IPython kernel"] = "tests/clients/setup.sh kernel could not install it"
            return
        try:
            check(self.image.version == "%d.%d" % sys.version_info[:2],
                  f"this Python is {sys.version.split()[0]}, the image's {self.image.version}")
            self.kernel().close()
            client = f"jupyter_client {jupyter_client.__version__}"
            self.report.peers["IPython kernel"] = f"{ipykernel.__version__} ({client})"
        except Exception as e:
            self.report.absent["IPython kernel"] = f"it does not run here: {' '.join(str(e).split())[:160]}"

    def kernel(self):
        return Kernel(self.image, self.dir)

    def close(self):
        for peer in (self.runc, self.podman):
            if peer:
                peer.close()
        shutil.rmtree(self.dir, ignore_errors=True)


def first_output(argv, env, want):
    """Seconds until a command has printed its first line; then it is waited for."""
    start = time.perf_counter()
    p = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    line = p.stdout.readline().decode().strip()
    seconds = time.perf_counter() - start
    p.stdout.close()
    check(p.wait() == 0 and line == want, f"{argv[0]}: printed {line[:200]!r}, not {want!r}")
    return seconds
