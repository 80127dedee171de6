# SPDX-License-Identifier: Apache-2.0
"""Packages that are installed while the session runs can be imported at once.

Python looks for the user's site directory when it starts. That is where pip installs to here, but a session's home is
empty then, so it would never be on sys.path. It is made, and put where Python would have put it; and what pip leaves in
it for the next start (.pth files) is read when a module is not found and the directory has changed: the last finder of
sys.meta_path sees to it, so a cell that imports nothing costs nothing. An interpreter that was asked to go without
(PYTHONNOUSERSITE, -s, a virtual environment) goes without; so does any that user code starts: those are not ours.
"""
import os
import sys
import time

INSTALLED = "/run/codebox-packages/"
PROGRAMS = "/run/codebox/python/bin"
PIP = "codebox-pip.pth"  # by which `python -m pip` is codebox's, too
SAVED = "/opt/codebox/saved.pth"  # of an image that was made of a session's packages; image/saved.h
SAVED_LINK = "codebox-saved.pth"  # for programs that code starts; behind the session's own by its name
OWN = "/codebox-packages.pth"  # written to in place, which a directory's time does not tell
PREFIX = "/codebox-prefix.pth"  # likewise, of packages of conda; behind it by its name


class UserSite:
    def __init__(self):
        self.path = None
        self.changed = None  # times of the directory's and our own file's last changes that were seen
        self.told = None     # times of our own files when stale modules were last named
        self.without = None  # time of the directory's last change when none of them was in it
        self.read = {}       # .pth files that have been read, and of what time
        self._stat, self._now = os.stat, time.time
        self.saved = self._find_saved()

    def _find_saved(self):
        """Ahead of the rest of the image, from the start: a warm interpreter imports long before there is a session."""
        import site
        try:
            with open(SAVED) as f:
                saved = f.read().split("\n")[:-1]
        except OSError:
            return []
        if saved[0] not in sys.path:
            places = [i for i, name in enumerate(sys.path) if name in site.getsitepackages()]
            at = places[0] if places else len(sys.path)
            sys.path[at:at] = saved
        return saved

    def command(self, program, arguments):
        """What %pip, %uv and %conda are, for a shell."""
        import shlex
        own = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", program)
        return "%s %s %s" % (shlex.quote(sys.executable or "python3"), shlex.quote(own), arguments)

    def begin(self):
        """There is a session, and its home."""
        import site
        path = site.getusersitepackages() if site.ENABLE_USER_SITE else None
        if path is None:
            return
        try:
            os.makedirs(path, exist_ok=True)
            there = os.listdir(path)
            if PIP not in there and os.environ.get("PATH", "").startswith(PROGRAMS):
                os.symlink(os.path.join(os.path.dirname(os.path.abspath(__file__)), PIP), path + "/" + PIP)
            if self.saved and SAVED_LINK not in there:
                os.symlink(SAVED, path + "/" + SAVED_LINK)
            self.changed = None if set(there) - {PIP, SAVED_LINK} else self._times(path)
        except OSError:
            return  # a home that cannot be written to: pip cannot either
        self.path = path
        if path not in sys.path:
            places = [i for i, name in enumerate(sys.path) if name in self.saved or name in site.getsitepackages()]
            sys.path.insert(places[0] if places else len(sys.path), path)
        if self not in sys.meta_path:  # a warm interpreter has been here before
            sys.meta_path.append(self)

    def find_spec(self, name, path=None, target=None):
        """No finder has found it; it may have been installed since they looked."""
        try:
            changed = self._times(self.path)
        except OSError:
            return None
        if changed == self.changed:
            return None
        self.changed = changed
        self._take_in()
        for finder in list(sys.meta_path):
            spec = finder.find_spec(name, path, target) if finder is not self and hasattr(finder, "find_spec") else None
            if spec is not None:
                return spec
        return None

    def _times(self, path):
        return self._stat(path).st_mtime_ns, self._own_times(path)

    def _own_times(self, path):
        times = []
        for name in OWN, PREFIX:
            try:
                times.append(self._stat(path + name).st_mtime_ns)
            except OSError:
                times.append(None)
        return times

    def _forget(self):
        """What finders have cached, as by importlib.invalidate_caches(), which imports importlib.metadata: the import that
        led here may be one by just that module, which then has half of itself."""
        for place, finder in list(sys.path_importer_cache.items()):
            if finder is None:
                del sys.path_importer_cache[place]
            elif hasattr(finder, "invalidate_caches"):
                finder.invalidate_caches()
        metadata = getattr(sys.modules.get("importlib.metadata"), "MetadataPathFinder", None)
        if metadata:
            metadata().invalidate_caches()  # of the class itself only since Python 3.12

    def _take_in(self):
        import site
        self._forget()
        before = list(sys.path)
        for name in sorted(os.listdir(self.path)):
            if not name.endswith(".pth") or name.startswith(".") or name in (PIP, SAVED_LINK):
                continue
            time = self._stat(os.path.join(self.path, name)).st_mtime_ns
            if self.read.get(name) != time:
                self.read[name] = time
                site.addpackage(self.path, name, None)
        self._place([p for p in sys.path if p not in before])

    def _place(self, new):
        """What has come is where the next interpreter will have it: behind the user's directory, ahead of the image's. Of
        codebox's own directories the last one of each kind counts, pip's ahead of conda's; what was imported from another
        stays."""
        ours = [p for p in new if p.startswith(INSTALLED)]
        kinds = {p.endswith("/site") for p in ours}
        if ours:
            ours += [p for p in sys.path if p.startswith(INSTALLED) and p.endswith("/site") not in kinds]
            ours.sort(key=lambda p: not p.endswith("/site"))
            sys.path[:] = [p for p in sys.path if not p.startswith(INSTALLED)]
            at = sys.path.index(self.path) + 1 if self.path in sys.path else len(sys.path)
            sys.path[at:at] = ours
            bins = ["%s%s/bin" % (INSTALLED, p[len(INSTALLED):].partition("/")[0]) for p in ours]
            rest = [p for p in os.environ.get("PATH", "").split(":") if not p.startswith(INSTALLED)]
            first = [p for p in rest[:1] if p == PROGRAMS]  # codebox's own pip
            os.environ["PATH"] = ":".join(first + bins + rest[len(first):])

    def installed_since(self):
        """Whether codebox has installed something since this was last asked, or the session began."""
        try:
            changed = self._stat(self.path).st_mtime if self.path else self.without
        except OSError:
            return False
        if changed == self.without:  # each cell asks: one call, and no exception
            return False
        times = self._own_times(self.path)
        if not any(times):
            # What comes while the clock that files have is the same is not seen later: it moves every few milliseconds.
            self.without = changed if changed < self._now() - 1 else None
            return False
        told, self.told = self.told, times
        return times != told

    def note(self):
        """At the end of a cell, which may have installed packages in any way."""
        if not self.installed_since():
            return ""
        stale = ["%s %s (now %s)" % found for found in self.stale()]
        return stale and "Note: imported already, and in use until the interpreter is restarted (or importlib.reload): %s" % (
            ", ".join(stale))

    def stale(self):
        """After an installation: packages that are imported in another version than the session has now: name, the
        version that is in use, and the other."""
        from importlib import metadata
        if self.path is None:
            return []
        self.find_spec("")
        stale = set()
        for place in [p for p in sys.path if p.startswith(INSTALLED)]:
            for new in metadata.distributions(path=[place]):
                own = new.metadata["Name"].replace("-", "_")
                for name in {str(f).partition("/")[0].partition(".py")[0] for f in new.files or (own,)}:
                    file = getattr(sys.modules.get(name), "__file__", None) or ""
                    root = file[:file.rfind("/" + name)]
                    if file.startswith("/") and root != place:
                        old = next(iter(metadata.distributions(name=new.metadata["Name"], path=[root])), None)
                        if old is not None and old.version != new.version:
                            stale.add((new.metadata["Name"], old.version, new.version))
        return sorted(stale)
