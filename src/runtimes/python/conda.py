# SPDX-License-Identifier: Apache-2.0
"""conda and mamba as a session has them: `conda install` asks codebox for the packages, since code here has no network.

The programs (bin/, first in PATH) run this file. codebox resolves, judges by the policy, and installs; what is here only
reads the arguments, asks as pip.py does, and says what was installed. All other commands are the image's own conda's,
where it has one. Nothing here guards anything: code could ask by itself.
"""
import os
import runpy
import sys

PROGRAMS = "/run/codebox/python/bin"
INSTALLED = "/run/codebox-packages/"
pip = runpy.run_path(os.path.join(os.path.dirname(PROGRAMS), "pip.py"), run_name="codebox_pip_parts")
Refused, say = pip["Refused"], pip["say"]

FLAGS = {"-y", "--yes", "-v", "--verbose", "--no-update-deps", "--freeze-installed", "--strict-channel-priority",
         "--no-banner", "--no-pin", "-S", "--satisfied-skip-solve"}  # that change nothing here
VALUES = {"--solver", "--experimental-solver"}  # likewise, each with a value
REFUSED = {"-n": True, "--name": True, "-p": True, "--prefix": True, "--revision": True, "--repodata-fn": True,
           "--no-deps": False, "--only-deps": False, "--force-reinstall": False, "-k": False, "--insecure": False,
           "--use-local": False, "--dry-run": False, "-d": False, "--download-only": False, "--offline": False,
           "--override-channels": False, "-C": False, "--use-index-cache": False, "--copy": False, "--clobber": False,
           "--update-all": False, "--all": False, "--dev": False, "--no-channel-priority": False,
           "--from-history": False}  # True: it has a value
UNDONE = {"create": "a session has one environment; use conda install", "env": "a session has one environment; use conda install",
          "activate": "a session has one environment, which is in use", "deactivate": "a session has one environment",
          "init": "nothing has to be set up here; use conda install", "remove": "packages stay until the session ends",
          "uninstall": "packages stay until the session ends", "search": "code here has no network; conda install says what there is",
          "config": "the policy says which channels there are", "run": "programs of packages are in PATH; run them by their names"}


class Arguments:
    def __init__(self, words):
        self.names, self.files, self.channels = [], [], []
        self.quiet = False
        words = list(words)
        while words:
            self.take(words.pop(0), words)

    def take(self, word, rest):
        name, equals, value = word.partition("=")
        if not word.startswith("-"):
            self.names.append(word)
            return
        if not word.startswith("--") and len(word) > 2:
            if word[:2] in ("-c", "-n", "-p"):
                name, equals, value = word[:2], "=", word[2:]
            else:
                rest[:0] = ["-" + c for c in word[1:]]
                return
        if name in ("-c", "--channel", "--file", "-f") or name in VALUES or REFUSED.get(name):
            if not equals:
                if not rest:
                    raise Refused("%s needs a value" % name)
                value = rest.pop(0)
        if name in ("-c", "--channel"):
            self.channels.append(value)
        elif name in ("--file", "-f"):
            self.read(value)
        elif name in ("-q", "--quiet"):
            self.quiet = True
        elif name in REFUSED:
            raise Refused("%s cannot be used here: codebox installs for this session, from the channels of its policy" % name)
        elif name not in FLAGS and name not in VALUES:
            raise Refused("unrecognized arguments: %s" % name)

    def read(self, path):
        try:
            with open(path, encoding="utf-8-sig") as f:
                lines = f.read(1 << 20).split("\n")
        except (OSError, ValueError) as e:
            raise Refused("%s cannot be read: %s" % (path, e))
        if path.endswith((".yml", ".yaml")):
            raise Refused("%s: files of environments are not read; name the packages" % path)
        self.names += [line for line in (line.split("#")[0].strip() for line in lines) if line]


def install(program, given):
    words, upgrade = given[1:], given[0] != "install"
    arguments = Arguments(words)
    for i, name in enumerate(arguments.names):
        channel, colons, bare = name.partition("::")
        if colons:
            arguments.channels.append(channel)
            arguments.names[i] = bare
    if not arguments.names:
        raise Refused("name packages, as in: conda install numpy")
    tell = (lambda *a: None) if arguments.quiet else say
    answer = pip["ask_for"](["-U"] * upgrade + ["--channel %s" % c for c in dict.fromkeys(arguments.channels)] +
                            ["conda:%s" % name for name in arguments.names], own(program))
    if answer is None:
        return real(program, given)
    for p in answer["already"]:
        tell("There already: %s %s", p["name"], p["version"])
    if answer["installed"]:
        tell("The following packages were installed:\n%s", "\n".join(
            "  %s %s" % (p["name"], p["version"]) for p in answer["installed"]))
    for warning in answer.get("warnings", ()):
        print("WARNING: %s" % warning, file=sys.stderr, flush=True)
    stale = ["%s %s (now %s)" % (p["name"], p["version"], p["installed"]) for p in answer.get("imported", ())]
    if stale:  # of an interpreter that waits; one that runs a cell tells it itself
        say(pip["IMPORTED"], ", ".join(stale))
    return 0


def prefix():
    """That of the packages which were installed last."""
    found = [p for p in os.environ.get("PATH", "").split(":") if p.startswith(INSTALLED)]
    found = [os.path.dirname(p) for p in found if os.path.isdir(os.path.join(os.path.dirname(p), "conda-meta"))]
    return found[0] if found else None


def listing():
    import json
    at = prefix()
    rows = []
    for name in sorted(os.listdir(os.path.join(at, "conda-meta"))) if at else ():
        with open(os.path.join(at, "conda-meta", name)) as f:
            record = json.load(f)
        rows.append((record["name"], record["version"], record["build"]))
    say("# packages of conda in this session:\n#")
    for row in rows:
        say("%-24s %-15s %s", *row)
    return 0


def own(program):
    """The image's; None: it has none."""
    import shutil
    return shutil.which(program, path=os.pathsep.join(p for p in os.environ.get("PATH", "").split(os.pathsep) if p != PROGRAMS))


def real(program, words):
    found = own(program)
    if found:
        os.execv(found, [found] + words)
    command = next((w for w in words if not w.startswith("-")), "")
    if command in UNDONE:
        raise Refused("%s: %s" % (command, UNDONE[command]))
    raise Refused("this image has no %s but for: install, update, list" % program)


def main(program, words):
    command = words[0] if words else ""
    try:
        if command in ("install", "update", "upgrade") and not {"-h", "--help"} & set(words):
            return install(program, words)
        if command == "list" and prefix():
            return listing()
        if command in ("--version", "-V"):
            say("%s of codebox (python %d.%d)", program, *sys.version_info[:2])
            return 0
        return real(program, words)
    except Refused as e:
        print("ERROR: %s" % e, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("ERROR: interrupted", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(os.path.basename(sys.argv[0]), sys.argv[1:]))
