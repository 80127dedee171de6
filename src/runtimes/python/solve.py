# SPDX-License-Identifier: Apache-2.0
"""Which packages of conda are needed, and in which versions: run in a sandbox of the image conda, for a session of another.

There is no network here; questions and answers are those of resolve.py, but that each is for the list of a directory of a
channel. rattler searches in these, with what facts.py says of the session's image. The session's Python stands for the
package of that name: no other can be chosen, and it is not installed. With several channels, the first that has a package
of a name is the one it comes from. Everything in the result is checked by who reads it.
"""
import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from resolve import WHY_MAX, Index, Refused, say  # noqa: E402

PREFIX = "conda:"
LIST_MAX = 4 << 30  # bytes of a list, unpacked
WINDOW_MAX = 1 << 27
PLATFORMS = {"x86_64": "linux-64", "aarch64": "linux-aarch64", "ppc64le": "linux-ppc64le", "riscv64": "linux-riscv64",
             "s390x": "linux-s390x"}
OWN = "file:///session"  # a channel that has the session's Python alone
INVERSE = {">=": "<", "<=": ">", ">": "<=", "<": ">=", "==": "!=", "!=": "=="}


# ---- lists of packages ----

class Lists:
    def __init__(self, index, channels, subdirs):
        self.index = index
        self.directory = tempfile.mkdtemp()
        self.sparse = []  # in the order of the channels
        places = [(channel, subdir) for channel in channels for subdir in subdirs]
        for channel, subdir in places:
            index.want(url=channel + subdir + "/repodata.json.zst")
        found = {channel: 0 for channel in channels}
        for channel, subdir in places:
            path = self.fetch(channel + subdir + "/repodata.json")
            if path:
                self.open(channel, subdir, path)
                found[channel] += 1
        for channel in channels:
            if not found[channel]:
                raise Refused("not_found", "%s: there is no list of packages (repodata.json)" % channel)

    def fetch(self, url):
        try:
            data, packed = self.get(url + ".zst"), True
            data = data if data is not None else self.get(url)
            packed = data is not None and data[:4] == b"\x28\xb5\x2f\xfd"
        except Refused as e:
            raise Refused(e.kind, "%s: %s" % (url, e))
        if data is None:
            return None
        handle, path = tempfile.mkstemp(dir=self.directory)
        with os.fdopen(handle, "wb") as out:
            if packed:
                self.unpack(url, data, out)
            else:
                out.write(data)
        return path

    def get(self, url):
        try:
            head, data = self.index.get(url=url)
            self.index.answers[self.index.want(url=url)] = head, b""  # it is large, and not asked for again
            return data
        except Refused as e:
            if e.kind != "not_found":
                raise
            return None

    @staticmethod
    def unpack(url, data, out):
        import zstandard
        size = 0
        try:
            with zstandard.ZstdDecompressor(max_window_size=WINDOW_MAX).stream_reader(data) as reader:
                while True:
                    piece = reader.read(1 << 20)
                    if not piece:
                        return
                    size += len(piece)
                    if size > LIST_MAX:
                        raise Refused("too_large", "%s: unpacked, it is larger than %d GiB" % (url, LIST_MAX >> 30))
                    out.write(piece)
        except zstandard.ZstdError as e:
            raise Refused("index_refused", "%s.zst cannot be unpacked: %s" % (url, e))

    def open(self, channel, subdir, path):
        import rattler
        try:
            self.sparse.append(rattler.SparseRepoData(rattler.Channel(channel), subdir, path))
            self.sparse[-1].record_count
        except Exception as e:
            raise Refused("index_refused", "%s%s: the list of packages cannot be read: %s" % (
                channel, subdir, str(e).split("\n")[0]))

    def add_python(self, version):
        """Ahead of the others, so that theirs do not count."""
        major, minor = version.split(".")[:2]
        # The end of it is what conda-forge's python_abi asks for.
        build = "0_codebox_" + ("cpython" if (int(major), int(minor)) < (3, 13) else "cp%s%s" % (major, minor))
        record = {"name": "python", "version": version, "build": build, "build_number": 0, "depends": [],
                  "subdir": "noarch", "sha256": "0" * 64, "size": 0}
        path = os.path.join(self.directory, "python.json")
        with open(path, "w") as f:
            json.dump({"info": {"subdir": "noarch"}, "packages": {}, "repodata_version": 1, "packages.conda": {
                "python-%s-%s.conda" % (version, build): record}}, f)
        self.open(OWN, "noarch", path)
        self.sparse.insert(0, self.sparse.pop())

    def record(self, entry):
        """The one that the session has, as far as a channel still has it."""
        import rattler
        for sparse in self.sparse:
            for record in sparse.load_records(rattler.PackageName(entry["name"][len(PREFIX):])):
                if record.sha256 and record.sha256.hex() == entry["sha256"]:
                    return record
        return None


# ---- the session ----

def virtual_packages(libc):
    import rattler
    kept = [v.into_generic() for v in rattler.VirtualPackage.detect()]
    kept = [v for v in kept if v.name.normalized in ("__unix", "__linux", "__archspec")]
    if libc:
        kept.append(rattler.GenericVirtualPackage(rattler.PackageName("__glibc"), rattler.Version(libc),
                                                  rattler.BuildString("0")))
    return kept


def glibc(facts):
    name, _, version = facts.get("libc", "").partition(" ")
    return version if name == "glibc" and version.replace(".", "").isdigit() else ""


# ---- rules ----

def inverse(clause):
    """What holds where a clause of a rule does not."""
    operator = clause[:2] if clause[:2] in (">=", "<=", "==", "!=", "~=") else clause[:1] if clause[:1] in "<>=" else "=="
    version = clause[len(operator):].strip() if clause.startswith(operator) else clause
    if version == "*":
        return None
    star = version.endswith("*")
    bare = version.rstrip("*").rstrip(".")
    if operator == "~=":
        return "<%s|!=%s.*" % (bare, bare.rpartition(".")[0] or bare)
    if operator == "=" or (star and operator == "=="):
        return "!=%s.*" % bare
    if star and operator == "!=":
        return "%s.*" % bare
    return INVERSE[operator] + bare


def constraints(rules):
    """What keeps the search from choosing what the policy refuses; who judges the result says so in any case."""
    import rattler
    texts, allowed = [], {}

    def split(text):
        n = next((i for i, c in enumerate(text) if c in "<>=!~"), len(text))
        return text[:n], text[n:]

    for text in rules.get("versions", ()):
        texts.append(" ".join(split(text[len(PREFIX):])))
    for text in rules.get("allow") or ():
        name, spec = split(text[len(PREFIX):])
        allowed.setdefault(name, []).append(spec)
    texts += ["%s %s" % (name, "|".join(specs)) for name, specs in allowed.items() if all(specs)]
    for text in rules.get("block", ()):
        name, spec = split(text[len(PREFIX):])
        parts = [inverse(clause.strip()) for clause in spec.split(",")] if spec else [None]
        if all(parts):
            texts.append("%s %s" % (name, "|".join(parts)))
    return [rattler.MatchSpec(text) for text in texts if " " in text.strip()]


# ---- the search ----

def run(coroutine):
    """Where a loop may be running already."""
    import asyncio
    import threading
    outcome = {}

    def work():
        try:
            outcome["result"] = asyncio.run(coroutine())
        except BaseException as e:
            outcome["error"] = e

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if "error" in outcome:
        raise outcome["error"]
    return outcome["result"]


def reason(error):
    """A tree of lines as one."""
    text, head = str(error), "Cannot solve the request because of: "
    text = text[len(head):] if text.startswith(head) else text
    parts = [line.strip(" │├└─\t") for line in text.split("\n")]
    text = "; ".join(part for part in parts if part)
    if text.startswith("No candidates were found for "):
        return Refused("not_found", "no channel of the policy has %s" % text[len("No candidates were found for "):].rstrip(". "))
    return Refused("conflict", "these cannot be installed together: %s" % text)


def search(question, lists, facts):
    import rattler
    from rattler.exceptions import SolverError
    specs = []
    for text in question["requirements"]:
        try:
            specs.append(rattler.MatchSpec(text[len(PREFIX):]))
        except Exception as e:
            raise Refused("invalid_argument", "%s: it is not a requirement: %s" % (text[len(PREFIX):], str(e).split("\n")[0]))
    newest = set(question["newest"])
    locked = [lists.record(p) for p in question["previous"] if p["name"] not in newest]
    locked = [r for r in locked if r is not None]
    own = rattler.Version(facts["python"])
    for spec in specs:
        if spec.name.normalized == "python" and spec.version and not rattler.VersionSpec(str(spec.version)).matches(own):
            raise Refused("conflict", "the session's Python is %s, which stands for the package python; another one cannot be "
                                      "installed: use an image that has it" % facts["python"])

    def solve(limits):
        return run(lambda: rattler.solve_with_sparse_repodata(
            specs, lists.sparse, locked_packages=locked, virtual_packages=virtual_packages(glibc(facts)),
            channel_priority=rattler.ChannelPriority.Strict, constraints=limits))

    limits = constraints(question["rules"])
    try:
        return specs, solve(limits)
    except SolverError as e:
        why = reason(e)
    if limits:
        try:
            return specs, solve([])  # then a rule is in the way, and who judges knows which
        except SolverError:
            pass
    raise why


def unusable(error):
    return Refused("index_refused", "the lists of packages cannot be used: %s" % (str(error).split("\n")[0] or type(error).__name__))


def parents(specs, records):
    """The shortest way from what was asked for to each."""
    needs = {r.name.normalized: [d.split()[0].lower() for d in r.depends] for r in records}
    ways = {spec.name.normalized: [] for spec in specs if spec.name}
    queue = list(ways)
    for name in queue:
        for need in needs.get(name, ()):
            if need not in ways:
                ways[need] = ways[name] + [name]
                queue.append(need)
    return ways


def describe(specs, records, channels, facts):
    ways, packages = parents(specs, records), []
    for record in records:
        name = record.name.normalized
        channel = next((c for c in channels if c.rstrip("/") == str(record.channel).rstrip("/")), None)
        if channel is None:
            continue  # the session's Python
        what = "%s %s" % (name, record.version)
        if record.sha256 is None:
            raise Refused("package_refused", "%s: the channel has no SHA-256 sum of it" % what)
        packages.append({"name": PREFIX + name, "version": str(record.version), "build": str(record.build), "subdir": record.subdir,
                         "file": record.file_name, "url": "%s%s/%s" % (channel, record.subdir, record.file_name),
                         "sha256": record.sha256.hex(), "size": record.size or 0, "via": ways.get(name, [])[:100]})
    packages.sort(key=lambda p: p["name"])
    return {"packages": packages, "image": [], "python": ".".join(facts["python"].split(".")[:2])}


def main():
    index = Index()
    question = index.begin()
    facts, channels = question["facts"], question["channels"]
    try:
        try:
            import rattler
        except ImportError:
            raise Refused("no_packages", "the image conda has no py-rattler; build it anew: codebox image build --force conda")
        if facts.get("implementation") != "cpython":
            raise Refused("no_packages", "the Python of the session's image is not CPython, which packages of conda are for")
        platform = PLATFORMS.get(facts.get("machine")) if glibc(facts) and facts.get("bits") == 64 else None
        lists = Lists(index, channels, [platform, "noarch"] if platform else ["noarch"])
        lists.add_python(facts["python"])
        try:
            specs, records = search(question, lists, facts)
        except Refused:
            raise
        except Exception as e:  # of rattler, which reads a record when it is needed
            raise unusable(e)
        say(describe(specs, records, channels, facts))
    except Refused as e:
        say({"refused": str(e)[:WHY_MAX], "kind": e.kind})


if __name__ == "__main__":
    main()
