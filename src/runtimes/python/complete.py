# SPDX-License-Identifier: Apache-2.0
"""Completion without IPython: modules, names, attributes, keywords, keys, keyword arguments, file names, commands.

What is found is what IPython finds. Names are looked up, and their attributes read, as IPython does; nothing is called.
"""
import builtins
import keyword
import os
import re

MOST = 500
MAGICS = ("%cd", "%pip", "%conda", "%env", "%sql", "%time", "%%bash", "%%sh", "%%sql", "%%time")
IMPORT = re.compile(r"\s*import\s+(?:[\w.]+(?:\s+as\s+\w+)?\s*,\s*)*([\w.]*)$")
FROM = re.compile(r"\s*from\s+([\w.]*)$")
FROM_IMPORT = re.compile(r"\s*from\s+([\w.]+)\s+import\s+\(?\s*(?:\w+(?:\s+as\s+\w+)?\s*,\s*)*(\w*)$")
COMMAND = re.compile(r"\s*(?:!|%?cd\s|%%?\w+\s).*?((?:[^\s\\]|\\.)*)$|.*=\s*!.*?((?:[^\s\\]|\\.)*)$")
KEY = re.compile(r"([A-Za-z_][\w.]*)\[$")
CALL = re.compile(r"([A-Za-z_][\w.]*)\([^()]*$")


def complete(ns, code, cursor):
    """(matches, start, end) for the text that ends at the cursor."""
    line = code[code.rfind("\n", 0, cursor) + 1:cursor]
    found, text = _find(ns, line)
    return sorted(set(found))[:MOST], cursor - len(text), cursor


def _find(ns, line):
    m = IMPORT.match(line) or FROM.match(line)
    if m:
        return _modules(m.group(1)), m.group(1)
    m = FROM_IMPORT.match(line)
    if m:
        return _members(m.group(1), m.group(2)), m.group(2)
    if re.fullmatch(r"\s*%+\w*", line):
        text = line.strip()
        return [name for name in MAGICS if name.lstrip("%").startswith(text.lstrip("%")) and
                (name[:2] == "%%" or text[:2] != "%%")], text
    m = COMMAND.match(line)
    if m:
        text = m.group(1) or m.group(2) or ""
        return [re.sub(r"([\s'\"\\()])", r"\\\1", name) for name in _files(re.sub(r"\\(.)", r"\1", text))], text
    start = _open_string(line)
    if start is not None:
        key = KEY.search(line[:start - 1])
        keys = _keys(ns, key.group(1), line[start:]) if key else []
        return keys or _files(line[start:]), line[start:]
    m = re.search(r"(?:^|[\s=(,])([~.]*/[^\s'\"]*)$", line)
    if m:
        return _files(m.group(1)), m.group(1)
    return _names(ns, line)


# ---- modules ----

def _modules(text):
    import pkgutil
    import sys
    package, dot, part = text.rpartition(".")
    if not dot:
        names = {m.name for m in pkgutil.iter_modules()} | set(sys.builtin_module_names)
        return [name for name in names if name.startswith(part) and name.isidentifier()]
    return [f"{package}.{name}" for name in _inside(package) if name.startswith(part)]


def _inside(package):
    """The modules of a package, and what its namespace has of modules."""
    import pkgutil
    module = _module(package)
    names = {m.name for m in pkgutil.iter_modules(getattr(module, "__path__", None) or [])}
    return names | {name for name, value in vars(module).items() if type(value) is type(re)} if module else names


def _members(name, part):
    module = _module(name)
    if module is None:
        return []
    import pkgutil
    names = set(getattr(module, "__all__", None) or (n for n in dir(module) if not n.startswith("_")))
    names |= {m.name for m in pkgutil.iter_modules(getattr(module, "__path__", None) or [])}
    return [n for n in names if isinstance(n, str) and n.startswith(part)]


def _module(name):
    import importlib
    try:
        return importlib.import_module(name)
    except BaseException:
        return None


# ---- names and attributes ----

def _value(ns, text):
    """What a dotted name stands for; LookupError when there is nothing."""
    first, *rest = text.split(".")
    value = ns[first] if first in ns else vars(builtins)[first]
    for name in rest:
        try:
            value = getattr(value, name)
        except Exception:
            raise LookupError(name) from None
    return value


def _names(ns, line):
    m = re.search(r"(?<![\w.)\]}'\"])([A-Za-z_\u0080-\U0010ffff][\w.]*)$", line)
    if not m:
        return [], ""
    text = m.group(1)
    owner, dot, part = text.rpartition(".")
    if dot:
        try:
            names = dir(_value(ns, owner))
        except Exception:
            return [], text
        return [f"{owner}.{n}" for n in names if _fits(n, part)], text
    names = [*ns, *vars(builtins), *keyword.kwlist, *_parameters(ns, line[:m.start()])]
    return [n for n in names if isinstance(n, str) and n.startswith(text)], text


def _fits(name, part):
    return isinstance(name, str) and name.startswith(part) and (part[:1] == "_" or name[:1] != "_")


def _parameters(ns, before):
    import inspect
    m = CALL.search(before)
    try:
        return [f"{name}=" for name, p in inspect.signature(_value(ns, m.group(1))).parameters.items()
                if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)] if m else []
    except Exception:
        return []


def _keys(ns, name, part):
    try:
        value = _value(ns, name)
        keys = list(value) if isinstance(value, dict) else []
    except Exception:
        return []
    return [k for k in keys if isinstance(k, str) and k.startswith(part)]


# ---- what is known of a name ----

def describe(ns, code, cursor):
    """Of the name that the cursor is at, or else of the function whose call it is in; "": nothing."""
    import inspect
    before, after = re.search(r"[\w.]*$", code[:cursor]).group(), re.match(r"\w*", code[cursor:]).group()
    call = CALL.search(code[:cursor])
    for name in (before + after, call and call.group(1)):
        try:
            value = _value(ns, name)
        except Exception:
            continue
        try:
            parts = ["Signature: " + name + str(inspect.signature(value))]
        except Exception:
            parts = []
        if not callable(value):
            parts.append("String form: " + repr(value)[:1000])
        return "\n".join([*parts, "Type: " + type(value).__name__, "Docstring:\n" + (inspect.getdoc(value) or "")])
    return ""


# ---- files ----

def _open_string(line):
    """Where the string begins that the line's end is in; None when it is in none."""
    quote, start, i = "", None, 0
    while i < len(line):
        if quote:
            if line[i] == "\\":
                i += 1
            elif line.startswith(quote, i):
                i += len(quote) - 1
                quote, start = "", None
        elif line[i] == "#":
            return None
        elif line[i] in "'\"":
            quote = line[i] * 3 if line.startswith(line[i] * 3, i) else line[i]
            i += len(quote) - 1
            start = i + 1
        i += 1
    return start


def _files(text):
    directory, part = os.path.split(text)
    found = []
    try:
        with os.scandir(os.path.expanduser(directory) or ".") as entries:
            for e in entries:
                if e.name.startswith(part) and (part[:1] == "." or e.name[:1] != "."):
                    found.append(os.path.join(directory, e.name) + ("/" if e.is_dir() else ""))
    except (OSError, ValueError):
        pass
    return found
