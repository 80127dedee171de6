# SPDX-License-Identifier: Apache-2.0
"""Which packages are needed, and in which versions: run in a sandbox of its own, of the image that they are for.

There is no network here. A question about the index is a line on standard output, {"ask": number, "project": name} or
{"ask": number, "url": address}, with "last", a number of bytes, where the end of a file will do; its answer comes on
standard input: a line with its number and a number of bytes, and these: a line of JSON and then the page or file, or, if
that says "part", its end. Many questions are under way at once. The last line is the result, {"packages": […]}, or
{"refused": why, "kind": word}. Everything in it is checked by who reads it.

What is decided here is what Python alone knows: tags, markers, metadata. pip has the libraries for that, and the search
is the one that pip itself uses. Only wheels count, and, with "builds", sources of versions that have none: these
are built here (build.py), and the wheel is handed out in pieces, each {"ask": number, "built": SHA-256, "at": offset, "data":
base64}. What the session has stays where it fits; so does what the image has, but
for those packages that are to be the newest. With "elsewhere", wheels are looked for that fit another Python on another
machine, and what is here does not count.
"""
import base64
import hashlib
import json
import os
import runpy
import sys
import zipfile
import zlib
from collections import deque
from email.message import Message
from email.parser import BytesHeaderParser
from html.parser import HTMLParser
from io import BytesIO
from urllib.parse import unquote, urljoin, urlsplit


class Refused(Exception):
    def __init__(self, kind, why):
        super().__init__(why)
        self.kind = kind


try:
    try:
        from pip._vendor import packaging, resolvelib
        from pip._vendor.packaging import markers, requirements, specifiers, tags, utils, version  # noqa: F401
    except ImportError:
        import packaging
        import resolvelib
        from packaging import markers, requirements, specifiers, tags, utils, version  # noqa: F401
except ImportError:
    packaging = None

Requirement = packaging and packaging.requirements.Requirement
SpecifierSet = packaging and packaging.specifiers.SpecifierSet
Version = packaging and packaging.version.Version
InvalidVersion = packaging and packaging.version.InvalidVersion
canonical = packaging and packaging.utils.canonicalize_name

ROUNDS_MAX = 5000
WHY_MAX = 500
DEPTH_MAX = 5  # of builds that need builds
AHEAD_MAX = 4 << 20  # bytes of a wheel that is fetched for its metadata before it is known to be needed
ENDS = 256 << 10, 4 << 20, None  # bytes of a wheel's end that are read for its metadata: one after the other, until they do
PIECE = 1 << 20  # bytes of a wheel that was built, which are handed out at once
GLIBC = 36  # 2.36, of Debian 12: elsewhere, there is none that is older
OLD_NAMES = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}  # of versions of glibc


def say(message):
    data = memoryview(json.dumps(message).encode() + b"\n")
    while data:
        data = data[os.write(1, data):]


class Index:
    """Questions and answers."""

    def __init__(self):
        self.input = os.fdopen(os.dup(0), "rb")
        self.numbers = {}  # question: its number
        self.questions = {}  # the other way round, as far as nobody has heard of the answer
        self.heard = None  # called with a question when its answer is there
        self.answers = {}  # number: (header, bytes)
        self.parts = False  # whether the index has sent the end of a file alone

    def begin(self):
        return json.loads(self.input.readline())

    def want(self, **question):
        key = tuple(question.items())
        if key not in self.numbers:
            self.numbers[key] = len(self.numbers) + 1
            self.questions[self.numbers[key]] = question
            say({"ask": self.numbers[key], **question})
        return self.numbers[key]

    def get(self, **question):
        number = self.want(**question)
        while number not in self.answers:
            line = self.input.readline().split()
            if len(line) != 2:
                raise Refused("index_down", "the index cannot be asked any more")
            data = self.input.read(int(line[1]))
            head, _, rest = data.partition(b"\n")
            self.answers[int(line[0])] = json.loads(head), rest
            self.parts = self.parts or self.answers[int(line[0])][0].get("part", False)
            asked = self.questions.pop(int(line[0]), None)
            if asked and self.heard and "kind" not in self.answers[int(line[0])][0]:
                self.heard(**asked)
        head, rest = self.answers[number]
        if "kind" in head:
            raise Refused(head["kind"], head["message"])
        return head, rest


class Links(HTMLParser):
    """A page of an index that has no JSON (PEP 503)."""

    def __init__(self, base):
        super().__init__()
        self.base = base
        self.files = []

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag == "base" and attributes.get("href"):
            self.base = urljoin(self.base, attributes["href"])
        if tag != "a" or not attributes.get("href"):
            return
        url = urljoin(self.base, attributes["href"])
        address, _, fragment = url.partition("#")
        name, _, value = fragment.partition("=")
        self.files.append({
            "filename": unquote(urlsplit(address).path.rpartition("/")[2]),
            "url": address,
            "hashes": {name: value} if value else {},
            "requires-python": attributes.get("data-requires-python"),
            "yanked": attributes.get("data-yanked") if "data-yanked" in attributes else False,
            "core-metadata": attributes.get("data-core-metadata", attributes.get("data-dist-info-metadata", False)),
        })


class File:
    """A wheel of the index, or one that the session has."""

    def __init__(self, entry, name, number, rank):
        self.entry, self.name, self.version, self.rank = entry, name, number, rank  # without rank: sources
        self.data = None  # of a wheel that was built here
        self.yanked = entry.get("yanked", False)
        self.yanked = self.yanked is not False and self.yanked is not None


class Candidate:
    def __init__(self, name, number, extras=frozenset(), file=None, distribution=None):
        self.name, self.version, self.extras = name, number, extras
        self.file, self.distribution = file, distribution

    def __repr__(self):
        return "%s %s" % (self.name, self.version)


def tags_of(python, machine):
    """Of CPython of this version on Linux, best first."""
    oldest = 5 if machine == "x86_64" else 17
    platforms = []
    for minor in range(GLIBC, oldest - 1, -1):
        platforms.append("manylinux_2_%d_%s" % (minor, machine))
        if minor in OLD_NAMES:
            platforms.append("%s_%s" % (OLD_NAMES[minor], machine))
    platforms.append("linux_" + machine)
    number = tuple(int(part) for part in python.split("."))
    abi = "cp%d%d" % number
    yield from packaging.tags.cpython_tags(number, [abi], platforms)
    yield from packaging.tags.compatible_tags(number, abi, platforms)


class Provider(resolvelib.AbstractProvider if packaging else object):
    def __init__(self, index, question):
        self.index = index
        elsewhere = question.get("elsewhere")
        if elsewhere:
            tags, self.python = tags_of(elsewhere["python"], elsewhere["machine"]), elsewhere["python"] + ".0"
            self.environment = {"python_version": elsewhere["python"], "python_full_version": self.python,
                                "implementation_version": self.python, "platform_machine": elsewhere["machine"],
                                "platform_python_implementation": "CPython", "implementation_name": "cpython"}
        else:
            tags, self.python = packaging.tags.sys_tags(), ".".join(map(str, sys.version_info[:3]))
            self.environment = {}
        self.tags = {tag: i for i, tag in enumerate(tags)}
        self.runs = {}      # what a file says that it needs of Python: whether that is so
        self.pages = {}
        self.parents = {}   # name: who needed it first
        self.why_not = {}   # name: why there is nothing to choose from
        self.needs = {}     # candidate: its requirements
        self.likely = {}    # name: what is asked of its version, as far as is known
        self.ahead = {}     # address: the file whose metadata is there, and is likely to be needed
        # Which files are accepted of a package; the others are not there.
        self.locked = {name: {entry["sum"] for entry in entries} for name, entries in question["locked"].items()}
        self.previous = {}
        for entry in question["previous"]:
            file = self.file_of(canonical(entry["name"]), {**entry, "filename": entry["file"],
                                                           "hashes": {"sha256": entry["sha256"]}})
            if file:
                self.previous[file.name] = file
        self.newest = set(question["newest"])
        self.direct = {}    # name: the wheel that was asked for by its address
        # What the addresses of wheels begin with that are built here, or None: none is.
        self.builds, self.within = question.get("builds"), question.get("within", ())
        self.question = question
        self.rules = {}
        for kind in "allow", "block", "versions":
            for text in question["rules"].get(kind, ()):
                rule = Requirement(text)
                self.rules.setdefault(kind, {}).setdefault(canonical(rule.name), []).append(rule.specifier)
        self.only = "allow" in question["rules"]
        self.image = {}
        if not elsewhere:
            self.look_at_image()

    def look_at_image(self):
        from importlib import metadata
        for distribution in metadata.distributions(path=[p for p in sys.path if p]):
            name = distribution.metadata["Name"]
            try:
                number = Version(distribution.version)
            except Exception:
                continue
            if name:
                self.image.setdefault(canonical(name), Candidate(canonical(name), number, distribution=distribution))

    # ---- what there is ----

    def file_of(self, name, entry):
        """A wheel that fits, or None."""
        try:
            wheel, number, build, fits = packaging.utils.parse_wheel_filename(entry["filename"])
        except Exception:
            return None
        ranks = [self.tags[tag] for tag in fits if tag in self.tags]
        if canonical(wheel) != name or not ranks or not entry["hashes"].get("sha256"):
            return None
        if name in self.locked and entry["hashes"]["sha256"].lower() not in self.locked[name]:
            return None
        return File(entry, name, number, (-min(ranks), build))

    def source_of(self, name, entry):
        """Sources that may be built, or None."""
        try:
            project, number = packaging.utils.parse_sdist_filename(entry["filename"])
        except Exception:
            return None
        if canonical(project) != name or not entry["hashes"].get("sha256") or name in self.locked:
            return None
        return File(entry, name, number, None)

    def page(self, name):
        if name not in self.pages:
            head, data = self.ask(self.way(name), project=name)
            try:
                self.pages[name] = self.choose(name, self.files(head, data))
            except (ValueError, LookupError, TypeError, AttributeError):
                raise Refused("index_down", "%s: the index's page of it cannot be read; try again later" % self.way(name))
        return self.pages[name]

    def ask(self, who, **question):
        """who: the package that it is for, and the way to it."""
        try:
            return self.index.get(**question)
        except Refused as e:
            raise Refused(e.kind, "%s: %s" % (who, e))

    def files(self, head, data):
        if head["type"] == "html":
            links = Links(head["url"])
            links.feed(data.decode("utf-8", "replace"))
            return links.files
        files = json.loads(data)["files"]
        for entry in files:
            entry["url"] = urljoin(head["url"], entry["url"])
        return files

    def choose(self, name, files):
        """The best wheel of each version; and what else there is, to say why there is none."""
        best, late, sources, other = {}, set(), {}, set()
        for entry in files:
            filename = entry.get("filename", "")
            if not filename.endswith((".whl", ".tar.gz", ".zip")):
                continue
            needs = entry.get("requires-python")
            if needs and not self.runs_here(needs):
                late.add(needs)
                continue
            if not filename.endswith(".whl"):
                sources[filename] = self.source_of(name, entry) if self.builds else None
                continue
            file = self.file_of(name, entry)
            if file is None:
                other.add(filename)
            elif file.version not in best or file.rank > best[file.version].rank:
                best[file.version] = file
        for file in sources.values():
            if file is not None:
                best.setdefault(file.version, file)
        if not best:
            if late:
                self.why_not[name] = "it needs Python %s, and the image has %s" % (sorted(late)[-1], self.python)
            elif other and name in self.locked:
                self.why_not[name] = "no wheel that fits the image's Python %s has one of the hashes that were given" % self.python
            elif other:
                self.why_not[name] = "none of its wheels fits the image's Python %s on this machine" % self.python
            elif sources:
                self.why_not[name] = "it has no wheel, only sources, and %s" % (
                    "nothing is built here (packages.source_builds)" if not self.builds else
                    "what has a hash (--hash) is not built" if name in self.locked else "the index has no SHA-256 sum of them")
            else:
                self.why_not[name] = "the index has no file of it"
        return best

    def runs_here(self, needs):
        """The same few words are said of thousands of files."""
        if needs not in self.runs:
            try:
                self.runs[needs] = SpecifierSet(needs).contains(self.python, prereleases=True)
            except Exception:
                self.runs[needs] = True
        return self.runs[needs]

    def permitted(self, name, number):
        """Versions that the policy rules out are not even tried; whether a name is, is not decided here."""
        def holds(specifier):
            return specifier.contains(number, prereleases=True)
        allowed = self.rules.get("allow", {}).get(name)
        if allowed and not any(holds(s) for s in allowed):
            return False
        if any(str(s) and holds(s) for s in self.rules.get("block", {}).get(name, ())):
            return False
        return all(holds(s) for s in self.rules.get("versions", {}).get(name, ()))

    def add_direct(self, requirement):
        """A wheel by its address, of which the name, the version and the sum are known."""
        name = canonical(requirement.name)
        address, _, digest = requirement.url.partition("#sha256=")
        filename = unquote(urlsplit(address).path.rpartition("/")[2])
        file = self.file_of(name, {"filename": filename, "url": address, "hashes": {"sha256": digest}})
        if file is None:
            raise Refused("not_found", "%s: %s is not a wheel of it that fits the image's Python %s on this machine" % (
                name, filename, self.python))
        if self.direct.setdefault(name, file).entry != file.entry:
            raise Refused("conflict", "%s: it is asked for from two addresses" % name)

    # ---- what the search asks ----

    def identify(self, requirement_or_candidate):
        name, extras = canonical(requirement_or_candidate.name), requirement_or_candidate.extras
        return "%s[%s]" % (name, ",".join(sorted(extras))) if extras else name

    def get_preference(self, identifier, resolutions, candidates, information, backtrack_causes):
        pinned = any("==" in str(r.requirement.specifier) for r in information[identifier])
        causing = any(identifier in (self.identify(c.requirement), c.parent and self.identify(c.parent))
                      for c in backtrack_causes)
        return not pinned, not causing, identifier

    def find_matches(self, identifier, requirements, incompatibilities):
        wanted = list(requirements[identifier])
        name, extras = canonical(wanted[0].name), frozenset(wanted[0].extras)
        excluded = {c.version for c in incompatibilities[identifier]}
        # What is asked of the package without its extras counts, too.
        asked = [r.specifier for r in wanted] + [r.specifier for r in requirements.get(name, ())] \
            if hasattr(requirements, "get") else [r.specifier for r in wanted]

        def fits(number, prereleases):
            return number not in excluded and all(s.contains(number, prereleases=prereleases) for s in asked)

        found = []
        if name in self.direct:
            file = self.direct[name]
            return [Candidate(name, file.version, extras, file=file)] if fits(file.version, True) else []
        old, image = self.previous.get(name), self.image.get(name)
        if old and fits(old.version, True):
            found.append(Candidate(name, old.version, extras, file=old))
        elif image and fits(image.version, True):
            found.append(Candidate(name, image.version, extras, distribution=image.distribution))
        return Matches(self, name, extras, asked, fits, found)

    def is_satisfied_by(self, requirement, candidate):
        return requirement.specifier.contains(candidate.version, prereleases=True)

    def get_dependencies(self, candidate):
        key = candidate.name, candidate.version, candidate.extras
        if key not in self.needs:
            self.needs[key] = list(self.find_dependencies(candidate))
            for need in self.needs[key]:
                self.prefetch(need, candidate)
        return self.needs[key]

    def find_dependencies(self, candidate):
        if candidate.extras:
            yield Requirement("%s==%s" % (candidate.name, candidate.version))
        if candidate.distribution:
            if not candidate.extras:
                return  # what the image has was put together by whoever made it
            texts = candidate.distribution.requires or ()
        else:
            texts = self.metadata(candidate.file).get_all("Requires-Dist") or ()
        for text in texts:
            try:
                need = Requirement(text)
            except Exception:
                continue  # nothing that could be installed
            if need.url:
                raise Refused("package_refused", "%s %s needs %s from an address: %s" % (
                    self.way(candidate.name), candidate.version, need.name, need.url))
            extras = candidate.extras or ("",)
            if need.marker is None:
                if candidate.extras:
                    continue  # of the package itself
            elif not any(need.marker.evaluate({**self.environment, "extra": extra}) for extra in extras):
                continue
            yield need

    def prefetch(self, need, candidate):
        name = canonical(need.name)
        if candidate is not None and name != candidate.name:
            self.parents.setdefault(name, candidate.name)
        image = self.image.get(name)
        if name in self.direct:
            return
        self.likely.setdefault(name, []).append(need.specifier)
        if name in self.newest or not (name in self.previous or (image and need.specifier.contains(image.version, prereleases=True))):
            self.index.want(project=name)

    # What is likely to be asked next is asked when what it depends on has come, not when the search gets there: each answer
    # takes as long as the index is far away. A guess that is wrong costs a question, and decides nothing.

    def heard(self, project=None, url=None, **other):
        try:
            if project in self.likely:
                self.look_ahead(project)
            elif url in self.ahead:
                self.look_further(self.ahead.pop(url))
        except Exception:
            pass  # whoever needs it hears of that

    def look_ahead(self, name):
        fits = [f for f in self.page(name).values() if not f.yanked and f.rank is not None and self.permitted(name, f.version) and
                all(s.contains(f.version) for s in self.likely[name])]
        if not fits:
            return
        file = max(fits, key=lambda f: f.version)
        exact = any(str(s).startswith("==") for s in self.likely[name])
        url = self.metadata_address(file)
        if url:
            question = {"url": url}
        elif exact or self.index.parts or (file.entry.get("size") or AHEAD_MAX) < AHEAD_MAX:
            question = {"url": file.entry["url"], "last": ENDS[0]}
        else:
            return
        self.ahead[question["url"]] = file
        self.index.want(**question)

    def look_further(self, file):
        for text in self.metadata(file, ENDS[:1]).get_all("Requires-Dist") or ():
            need = Requirement(text)
            if need.url is None and (need.marker is None or need.marker.evaluate({**self.environment, "extra": ""})):
                self.prefetch(need, None)

    # ---- sources ----

    def judge(self, candidate):
        """Of what is built, before its code runs, and of what a build needs, which is not installed: nobody else judges it."""
        name = candidate.name
        if any(not str(s) for s in self.rules.get("block", {}).get(name, ())) or (
                self.only and name not in self.rules.get("allow", {})):
            raise Refused("package_refused", "%s: the policy does not allow it" % self.way(name))

    def provide(self, file, texts):
        """The wheels that a build needs, besides what the image has."""
        question = {"requirements": texts, "previous": [], "newest": [], "locked": {}, "rules": self.question["rules"],
                    "builds": self.builds, "within": [*self.within, file.name]}
        provider, result = resolve(question, self.index)
        for candidate in {c.name: c for c in result.mapping.values()}.values():
            if candidate.file is not None:
                provider.judge(candidate)
                yield candidate.file.data or self.fetch(candidate.file)

    def fetch(self, file):
        entry, who = file.entry, "%s %s" % (self.way(file.name), file.version)
        data, promised = self.ask(who, url=entry["url"])[1], (entry.get("hashes") or {}).get("sha256")
        if promised and hashlib.sha256(data).hexdigest() != promised.lower():
            raise Refused("wrong_hash", "%s: %s is not the file that the index promised" % (who, entry["filename"]))
        return data

    def build(self, file):
        """Make a wheel of its sources, which takes their place."""
        entry, who = file.entry, "%s %s" % (self.way(file.name), file.version)
        if file.name in self.within or len(self.within) > DEPTH_MAX:
            raise Refused("conflict", "%s: it is needed to build itself: %s" % (who, " → ".join([*self.within, file.name])))
        self.judge(file)
        data = self.fetch(file)
        builder = runpy.run_path(os.path.join(os.path.dirname(os.path.abspath(__file__)), "build.py"))
        try:
            name, data = builder["build"](entry["filename"], data, lambda texts: list(self.provide(file, texts)))
        except builder["Failed"] as e:
            raise Refused("install_failed", "%s: %s" % (who, e))
        except Refused as e:
            raise Refused(e.kind, "%s is built from sources: %s" % (who, e))
        except Exception as e:  # an archive, or a wheel that the build needs, holds what nobody expects
            raise Refused("install_failed", "%s: it cannot be built: %s" % (who, str(e) or type(e).__name__))
        digest = hashlib.sha256(data).hexdigest()
        made = self.file_of(file.name, {"filename": name, "url": self.builds + digest, "hashes": {"sha256": digest}, "size": len(data)})
        if made is None or made.version != file.version:
            raise Refused("install_failed", "%s: %s is what its sources make, which is not a wheel of it that fits" % (who, name))
        file.entry, file.data = made.entry, data
        file.entry["needs"] = self.metadata(file).get_all("Requires-Dist") or []
        if not self.within:
            for at in range(0, len(data), PIECE):
                self.ask(who, built=digest, at=at, data=base64.b64encode(data[at:at + PIECE]).decode())

    def metadata_address(self, file):
        """Where it is apart from the wheel, or None."""
        entry = file.entry
        apart = entry.get("core-metadata") or entry.get("data-dist-info-metadata") or entry.get("dist-info-metadata")
        return entry["url"] + ".metadata" if apart else None

    def metadata(self, file, ends=ENDS):
        if file.rank is None and file.data is None:
            self.build(file)
        entry, who = file.entry, "%s %s" % (self.way(file.name), file.version)
        if "needs" in entry:  # it was built
            message = Message()
            for text in entry["needs"]:
                message["Requires-Dist"] = text
            return message
        address = self.metadata_address(file)
        if address:
            try:
                return BytesHeaderParser().parsebytes(self.ask(who, url=address)[1])
            except Refused as e:
                if e.kind != "not_found":
                    raise
        for last in ends:
            head, data = ({}, file.data) if file.data else self.ask(who, url=entry["url"], **({"last": last} if last else {}))
            try:
                with zipfile.ZipFile(BytesIO(data)) as z:  # offsets are counted from the list of files, which is at the end
                    names = [n for n in z.namelist() if n.count("/") == 1 and n.endswith(".dist-info/METADATA")]
                    return BytesHeaderParser().parsebytes(z.read(names[0]))
            except (zipfile.BadZipFile, zlib.error, EOFError, IndexError, ValueError, OSError, RuntimeError):
                if not head.get("part"):
                    break
        raise Refused("unsafe_wheel", "%s: its wheel cannot be read" % who)

    # ---- words ----

    def way(self, name):
        """a → b → c"""
        names = deque([name])
        while names[0] in self.parents and self.parents[names[0]] not in names:
            names.appendleft(self.parents[names[0]])
        return " → ".join(names)


class Matches:
    """Candidates, best first, as the search wants them: one by one, from the start as often as it likes. The index is
    asked only when what is there already will not do."""

    def __init__(self, provider, name, extras, asked, fits, found):
        self.provider, self.name, self.extras, self.asked, self.fits = provider, name, extras, asked, fits
        self.found = found
        self.rest = None

    def __call__(self):
        newest = self.name in self.provider.newest
        if not newest:
            yield from self.found
        if self.rest is None:
            self.rest = list(self.look())
        yield from sorted(self.found + self.rest, key=lambda c: c.version, reverse=True) if newest else self.rest

    def look(self):
        p, name = self.provider, self.name
        try:
            page = p.page(name)
        except Refused as e:
            if e.kind != "not_found":
                raise
            p.why_not[name] = "the index does not have it"
            return
        if not page:
            return
        exact = any(str(s).startswith("==") and "*" not in str(s) and "," not in str(s) for s in self.asked)
        usable = [f for f in page.values() if p.permitted(name, f.version) and (exact or not f.yanked)]
        if not usable:
            p.why_not[name] = "the policy allows none of its versions" if any(
                not p.permitted(name, f.version) for f in page.values()) else "all of its versions were withdrawn (yanked)"
            return
        chosen = [f for f in usable if self.fits(f.version, None)] or [f for f in usable if self.fits(f.version, True)]
        if not chosen and name not in p.why_not:
            newest = sorted(f.version for f in usable)[-1]
            p.why_not[name] = "the newest that can be installed is %s" % newest
        have = {c.version for c in self.found}
        for file in sorted(chosen, key=lambda f: f.version, reverse=True):
            if file.version not in have:
                yield Candidate(name, file.version, self.extras, file=file)


def conflict(provider, causes):
    """Why nothing fits."""
    names = {canonical(c.requirement.name) for c in causes}
    for name in names:
        if name in provider.why_not and len(causes) == 1 or provider.why_not.get(name, "").startswith("the index"):
            cause = next(c for c in causes if canonical(c.requirement.name) == name)
            return Refused("not_found", "%s%s: %s" % (provider.way(name), cause.requirement.specifier, provider.why_not[name]))
    for name in sorted(names):
        why = provider.why_not.get(name)
        if why and not why.startswith("the newest"):
            return Refused("not_found", "%s: %s" % (provider.way(name), why))
    parts = ["%s %s" % (("%s %s needs" % (provider.way(c.parent.name), c.parent.version)) if c.parent else "you ask for",
                        c.requirement) for c in causes]
    return Refused("conflict", "these cannot be installed together: %s" % "; ".join(dict.fromkeys(parts)))


def resolve(question, index):
    provider = Provider(index, question)
    before, index.heard = index.heard, provider.heard
    try:
        return search(provider, question)
    finally:
        index.heard = before


def search(provider, question):
    wanted = []
    for text in question["requirements"]:
        try:
            wanted.append(Requirement(text))
        except packaging.requirements.InvalidRequirement as e:
            raise Refused("invalid_argument", "%s: it is not a requirement: %s" % (text, str(e).split("\n")[0]))
    wanted = [r for r in wanted if r.marker is None or r.marker.evaluate({**provider.environment, "extra": ""})]
    for need in wanted:
        if need.url and question.get("within"):
            raise Refused("package_refused", "%s: what a build needs comes from the index, not from an address" % need.name)
        if need.url:
            provider.add_direct(need)
    for need in wanted:
        provider.prefetch(need, need)
    try:
        result = resolvelib.Resolver(provider, resolvelib.BaseReporter()).resolve(wanted, max_rounds=ROUNDS_MAX)
    except resolvelib.ResolutionImpossible as e:
        raise conflict(provider, e.causes)
    except resolvelib.ResolutionTooDeep:
        raise Refused("conflict", "no versions that fit each other were found in time; ask for fewer packages, or name versions")
    return provider, result


def describe(provider, result):
    packages, image, parents = [], [], {}
    for identifier, criterion in result.criteria.items():
        candidate = result.mapping[identifier]
        for info in criterion.information:
            parents.setdefault(candidate.name, info.parent and info.parent.name)
            if info.parent is None:
                parents[candidate.name] = None
    for candidate in {c.name: c for c in result.mapping.values()}.values():
        via, at = [], parents.get(candidate.name)
        while at and at not in via and at != candidate.name:
            via.insert(0, at)
            at = parents.get(at)
        if candidate.file is None:
            image.append({"name": candidate.name, "version": str(candidate.version)})
            continue
        entry = candidate.file.entry
        packages.append({"name": candidate.name, "version": str(candidate.version), "file": entry["filename"],
                         "url": entry["url"], "sha256": entry["hashes"]["sha256"].lower(),
                         "size": entry.get("size") or 0, "via": via[:100], **({"needs": entry["needs"]} if "needs" in entry else {})})
    packages.sort(key=lambda p: p["name"])
    return {"packages": packages, "image": image, "python": "%d.%d" % sys.version_info[:2]}


def is_writable(path):
    while path and not os.path.exists(path):
        path = os.path.dirname(path)
    return not path or os.access(path, os.W_OK)


def keep_to_the_image():
    """Builds have the same home and workspace: what they leave there is nothing that is imported here."""
    sys.path[:] = [path for path in sys.path if not is_writable(path)]
    sys.modules["_manylinux"] = None  # packaging looks for it whenever it is asked for tags


def main():
    keep_to_the_image()
    index = Index()
    question = index.begin()
    try:
        if packaging is None:
            raise Refused("no_packages", "the image has neither pip nor the packages packaging and resolvelib, which "
                                         "resolving needs; use another image")
        say(describe(*resolve(question, index)))
    except Refused as e:
        say({"refused": str(e)[:WHY_MAX], "kind": e.kind})


if __name__ == "__main__":
    main()
