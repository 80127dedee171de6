# SPDX-License-Identifier: Apache-2.0
"""pip and uv as a session has them: `pip install` asks codebox for the packages, since code here has no network.

The programs pip, pip3 and uv (bin/, first in PATH) run this file; so does `python -m pip`, by a finder that a .pth file in
the user's site directory brings in. codebox resolves, judges by the policy, and installs; what is here only reads the
arguments, asks by a socket of the sandbox's first process, and says what pip would say. All other commands, and whatever
is to be installed from files of the session (--no-index), are the image's own pip's, or are answered from the metadata of
what is installed. Nothing here guards anything: code could ask by itself.
"""
import os
import sys

DOOR = "\0codebox"
QUESTION_MAX = 60 << 10
ANSWER_MAX = 64 << 10
PATH = "/run/codebox/python/pip.py"
PROGRAMS = "/run/codebox/python/bin"

REMEDY = "codebox installs from the index that its policy names"
IMPORTED = "Note: imported already, and in use until the interpreter is restarted (or importlib.reload): %s"
FLAGS = {  # that change nothing here
    "-q", "--quiet", "-v", "--verbose", "--user", "-U", "--upgrade", "--no-input", "--prefer-binary",
    "--disable-pip-version-check", "--no-cache-dir", "--no-cache", "--no-color", "--no-warn-script-location", "--system",
    "--no-warn-conflicts", "--break-system-packages", "--no-python-version-warning", "--no-compile", "--compile", "--isolated",
    "--require-virtualenv", "--no-progress", "--no-build", "--use-pep517", "--native-tls", "--strict", "-y", "--yes",
}
VALUES = {  # likewise, each with a value
    "--progress-bar", "--root-user-action", "--retries", "--timeout", "--default-timeout", "--upgrade-strategy", "--log",
    "--cache-dir", "--exists-action", "--only-binary", "--color", "--link-mode",
}
REFUSED = {  # what names another source, or another place; True: it has a value
    "-i": True, "--index-url": True, "--extra-index-url": True, "--index": True, "--default-index": True, "-f": True,
    "--find-links": True, "--trusted-host": True, "--proxy": True, "--cert": True, "--client-cert": True, "--pypi-url": True,
    "--index-strategy": True, "--keyring-provider": True, "--allow-insecure-host": True, "-e": True, "--editable": True,
    "-t": True, "--target": True, "--prefix": True, "--root": True, "--src": True, "-c": True, "--constraint": True,
    "--no-binary": True, "--python": True, "-p": True, "--python-version": True, "--platform": True, "--abi": True,
    "--implementation": True, "--no-deps": False, "--pre": False, "--prerelease": True, "--force-reinstall": False,
    "-I": False, "--ignore-installed": False, "--reinstall": False, "--dry-run": False,
    "--no-build-isolation": False, "--config-settings": True, "--global-option": True, "--report": True, "--group": True,
    "--override": True, "--exclude-newer": True, "--resolution": True, "--no-clean": False, "--ignore-requires-python": False,
}
UNDONE = {"uninstall": "packages stay until the session ends; restart its interpreter to forget what is imported",
          "download": "code here has no network; use pip install", "wheel": "nothing is built here; use pip install",
          "index": "code here has no network; pip install says which versions there are", "sync": "use uv pip install",
          "search": "PyPI has no search for pip", "compile": "use uv pip install"}


class Refused(Exception):
    pass


def say(text, *values):
    print(text % values, flush=True)


# ---- what is asked for ----

class Arguments:
    def __init__(self, program, words):
        self.program = program
        self.names, self.files = [], []
        self.quiet = self.upgrade = self.hashes = False
        words = list(words)
        while words:
            self.take(words.pop(0), words)

    def take(self, word, rest):
        name, equals, value = word.partition("=")
        if not word.startswith("-") or word == "-":
            self.names.append(word)
            return
        if len(word) > 2 and not word.strip("qvUyI-") and not word.startswith("--"):
            rest[:0] = ["-" + c for c in word[1:]]
            return
        if not name.startswith("--") and len(word) > 2 and word[:2] in ("-r", "-i", "-f", "-e", "-t", "-c"):
            name, equals, value = word[:2], "=", word[2:]
        if name in ("-r", "--requirement", "--requirements") or name in VALUES or REFUSED.get(name):
            if not equals:
                if not rest:
                    raise Refused("%s needs a value" % name)
                value = rest.pop(0)
        if name in ("-r", "--requirement", "--requirements"):
            self.files.append(value)
        elif name in ("-U", "--upgrade"):
            self.upgrade = True
        elif name in ("-q", "--quiet"):
            self.quiet = True
        elif name == "--require-hashes":
            self.hashes = True
        elif name in REFUSED:
            raise Refused("%s cannot be used here: %s" % (name, REMEDY))
        elif name not in FLAGS and name not in VALUES:
            raise Refused("no such option: %s" % name)

    def requirements(self):
        for path in self.files:
            self.read(path, [])
        if not self.names:
            raise Refused('You must give at least one requirement to install (see "%s install --help")' % self.program)
        for name in self.names:
            if "://" in name or " @ " in name or name.startswith(("git+", "hg+", "svn+", "bzr+", "file:")):
                raise Refused("%s: an address cannot be installed from; %s" % (name, REMEDY))
            if name.startswith((".", "/", "~")) or name.endswith((".whl", ".tar.gz", ".zip")):
                raise Refused("%s: a path cannot be installed from; %s. For files that are here and need nothing "
                              "else, add --no-index" % (name, REMEDY))
            if self.hashes and " --hash" not in name:
                raise Refused("Hashes are required in --require-hashes mode, but there is none of %s" % name)
        return self.names

    def read(self, path, parents):
        path = os.path.normpath(path)
        if path in parents or len(parents) > 8:
            raise Refused("%s: it includes itself" % path)
        try:
            with open(path, encoding="utf-8-sig") as f:
                lines = f.read(4 << 20).replace("\r\n", "\n").replace("\\\n", " ").split("\n")
        except (OSError, ValueError) as e:
            raise Refused("Could not open requirements file: %s" % e)
        for line in lines:
            line = line.split("#")[0].strip() if line.lstrip().startswith("#") else line.split(" #")[0].strip()
            if not line:
                continue
            if line.startswith(("-r", "--requirement")):
                other = line.replace("=", " ", 1).split(None, 1)[1] if " " in line or "=" in line else line[2:]
                self.read(os.path.join(os.path.dirname(path), other), parents + [path])
            elif line == "--require-hashes":
                self.hashes = True
            elif line.startswith("-"):
                raise Refused("%s: %s cannot be used here: %s" % (path, line.split("=")[0].split()[0], REMEDY))
            else:
                self.names.append(line)


# ---- asking ----

def ask(names):
    """The answer, or None: nobody answers here."""
    import json
    import _socket
    question = json.dumps({"packages": names}, ensure_ascii=False).encode()
    if len(question) > QUESTION_MAX:
        raise Refused("these are more requirements, or hashes, than can be asked for at once; install them in parts, or from "
                      "outside with codebox pip install -r")
    door = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    try:
        door.connect(DOOR)
    except OSError:
        return None
    try:
        door.send(question)
        answer = door.recv(ANSWER_MAX)
    except OSError:
        answer = b""
    finally:
        door.close()
    if not answer:
        raise Refused("the installation was given up")
    return json.loads(answer.decode("utf-8", "replace"))


def ask_for(names, otherwise):
    """What was installed. None: packages are not to be had here by asking, and there is another way."""
    answer = ask(names)
    if answer is None or answer.get("error", {}).get("kind") == "not_here":
        if otherwise:
            return None
        raise Refused("packages cannot be installed in this session: its policy does not let that be (packages.install); "
                      "use what the image has")
    if "error" in answer:
        raise Refused(answer["error"]["message"])
    return answer


def bare(name):
    import re
    return re.sub(r"[-_.]+", "-", re.match(r"[A-Za-z0-9._-]*", name).group()).lower()


def has_proxy():
    """The session reaches some hosts: the image's pip may do what it can."""
    return any(os.environ.get(v) for v in ("https_proxy", "HTTPS_PROXY"))


def install(program, words):
    if "--no-index" in words:  # nothing is fetched: all options are for the image's own
        return real(program, ["install"] + list(words))
    arguments = Arguments(program, words)
    names = arguments.requirements()
    tell = (lambda *a: None) if arguments.quiet else say
    for name in names:
        tell("Collecting %s", name.split(" --hash")[0].strip())
    answer = ask_for(["-U"] * arguments.upgrade + names, has_proxy())
    if answer is None:
        return real(program, ["install"] + list(words))
    for p in answer["already"]:
        tell("Requirement already satisfied: %s (%s)", p["name"], p["version"])
    if answer["installed"]:
        tell("Installing collected packages: %s", ", ".join(p["name"] for p in answer["installed"]))
        tell("Successfully installed %s", " ".join("%s-%s" % (p["name"], p["version"]) for p in answer["installed"]))
    for warning in answer.get("warnings", ()):
        print("WARNING: %s" % warning, file=sys.stderr, flush=True)
    stale = ["%s %s (now %s)" % (p["name"], p["version"], p["installed"]) for p in answer.get("imported", ())]
    if stale:  # of an interpreter that waits; one that runs a cell tells it itself
        say(IMPORTED, ", ".join(stale))
    return 0


# ---- what is not an installation ----

def real(program, words):
    """The image's own."""
    if program == "uv":
        import shutil
        path = os.pathsep.join(p for p in os.environ.get("PATH", "").split(os.pathsep) if p != PROGRAMS)
        uv = shutil.which("uv", path=path)
        if not uv:
            raise Refused("there is no uv in this image but for: uv pip install, list, show, freeze")
        os.execv(uv, [uv] + words)
    import importlib.util
    import runpy
    sys.meta_path[:] = [f for f in sys.meta_path if not getattr(f, "of_codebox", False)]
    sys.path[:] = [p for p in sys.path if p != PROGRAMS]
    sys.argv = [program] + words
    spec = importlib.util.find_spec("pip")
    if spec is None or not spec.origin:
        return from_metadata(program, words)
    runpy.run_module("pip", run_name="__main__", alter_sys=True)
    return 0


def from_metadata(program, words):
    """What an image without pip can say: list, freeze and show."""
    from importlib import metadata
    found = {}
    for d in metadata.distributions():
        if d.metadata["Name"]:
            found.setdefault(bare(d.metadata["Name"]), d)
    command, rest = (words or [""])[0], words[1:]
    if command in ("--version", "-V"):
        say("%s of codebox (python %d.%d)", program, *sys.version_info[:2])
    elif command == "list":
        width = max([len("Package")] + [len(d.metadata["Name"]) for d in found.values()])
        say("%-*s Version\n%s %s", width, "Package", "-" * width, "-" * 7)
        for name in sorted(found):
            say("%-*s %s", width, found[name].metadata["Name"], found[name].version)
    elif command == "freeze":
        for name in sorted(found):
            say("%s==%s", found[name].metadata["Name"], found[name].version)
    elif command == "show":
        missing = [name for name in rest if not name.startswith("-") and bare(name) not in found]
        for name in rest:
            d = found.get(bare(name))
            if d:
                say("Name: %s\nVersion: %s\nSummary: %s\nLocation: %s\nRequires: %s", d.metadata["Name"], d.version,
                    d.metadata["Summary"] or "", d.locate_file(""), ", ".join(bare(r) for r in d.requires or ()))
        for name in missing:
            print("WARNING: Package(s) not found: %s" % name, file=sys.stderr)
        return 1 if missing else 0
    else:
        raise Refused("this image has no pip but for: pip install, list, show, freeze")
    return 0


def command_of(words):
    """(command, arguments): options may stand before the command."""
    for i, word in enumerate(words):
        if not word.startswith("-"):
            return word, list(words[:i]) + list(words[i + 1:])
    return "", list(words)


def run(program, words):
    given = list(words)
    command, rest = command_of(words)
    if program == "uv" and command == "pip":
        command, rest = command_of(rest)
        if command in ("list", "show", "freeze"):
            return from_metadata("pip", [command] + rest)
    elif program == "uv":
        if command in ("add", "sync", "run", "tool", "lock", "venv"):
            return real(program, given)
        command = ""
    if "--help" in rest or "-h" in rest:
        command = ""
    if command == "install":
        return install(program, rest)
    if command in UNDONE and not has_proxy():
        raise Refused("%s: %s" % (command, UNDONE[command]))
    return real(program, given)


def main(program, words):
    try:
        return run(program, words)
    except Refused as e:
        print("ERROR: %s" % e, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("ERROR: Operation cancelled by user", file=sys.stderr)
        return 1


# ---- python -m pip ----

class Finder:
    """Has `python -m pip` run this file. A package that is not there is made up, for it alone."""

    of_codebox = True

    def find_spec(self, name, path=None, target=None):
        if name not in ("pip", "pip.__main__", "uv", "uv.__main__"):
            return None
        from importlib.machinery import ModuleSpec, SourceFileLoader
        if name.endswith(".__main__"):
            return ModuleSpec(name, SourceFileLoader(name, PATH), origin=PATH)
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target) if finder is not self and hasattr(finder, "find_spec") else None
            if spec is not None:
                return spec
        return ModuleSpec(name, None, is_package=True)


if __name__ == "codebox_pip":
    sys.meta_path.insert(0, Finder())
elif __name__ == "__main__":
    spec = globals().get("__spec__")
    program = spec.name.split(".")[0] if spec else os.path.basename(sys.argv[0]).rstrip("3")
    sys.exit(main(program, sys.argv[1:]))
