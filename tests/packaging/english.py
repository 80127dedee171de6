#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The clear cases of CONTRIBUTING's checklist of English, in what users read: strings of the programs, manual pages, the
README, SECURITY.md, NEWS, --help. What needs judgement is not here."""
import io
import os
import re
import sys
import tokenize
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "lib"))
from cbxtest import run  # noqa: E402

PHRASES = {
    r"(?<!there )(?<!There )\b(?:is|are|was|were|be) no (?!longer\b|more\b|less\b)\w+": "is not a",
    r"\bleft out\b": "if omitted, is omitted",
    r"\b(?:go|goes|going|went) on\b(?! the)": "keeps running, continues",
    r"\b(?:is|are|was|were|be|been) told\b": "is reported, learns",
    r"\bso many\b": "up to N, this number of",
    r"\b(?:for|after|not|been idle) so long\b": "for this time",
    r"\b(?:load average|result|log|answer|doctor)s? tells?\b": "reports",
}
# (file, text) of what is right as it stands; each must be met with.
ALLOWED = set()


def c_strings(text):
    """String literals as the compiler joins them, one a line; without comments and the names of headers."""
    token = r'/\*.*?\*/|//[^\n]*|\'(?:\\.|[^\'\\\n])+\'|"(?:\\.|[^"\\\n])*"'
    parts, end = [], 0
    for m in re.finditer(token, text, re.S):
        if not m.group().startswith('"') or re.search(r"#\s*include\s*$", text[:m.start()][-40:]):
            continue
        joined = parts and re.fullmatch(r"\s*(?:PRI\w+\s*)?", text[end:m.start()])
        string = re.sub(r"\\[nt]", " ", m.group()[1:-1])
        parts[-1:] = [parts[-1] + string] if joined else [*parts[-1:], string]
        end = m.end()
    return "\n".join(parts)


def python_strings(text):
    """All of them: docstrings are read by few, and cost nothing to get right."""
    return "\n".join(t.string for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type == tokenize.STRING)


def prose(text):
    """A page without the section that quotes what is not to be written."""
    return re.sub(r"^## English\n.*?(?=^## )", "", text, flags=re.M | re.S)


def texts():
    for folder, pattern, read in (
            ("src", "*.[ch]", c_strings), ("src", "*.py", python_strings), ("man", "*.[1-8]*", prose),
            ("policies", "*", prose), ("packaging", "*", prose), (".", "*.md", prose), (".", "NEWS", prose),
            (".", "bootstrap", prose)):
        base = TOP / folder
        for path in sorted(base.glob(pattern) if folder == "." else base.rglob(pattern)):
            if path.is_file():
                yield str(path.relative_to(TOP)), read(path.read_text(encoding="utf-8"))


def found(text):
    """What the checklist has another wording for: (the words, the other ones)."""
    text = re.sub(r"\s+", " ", text)
    for pattern, better in PHRASES.items():
        for m in re.finditer(pattern, text):
            yield text[max(0, m.start() - 30):m.end() + 20], better


def test_it_finds_what_it_is_for():
    for text in ("x is no name", "0 if left out", "the cell goes on", "the client is told so", "up to so many of\nthem",
                 "idle for so long", "the log tells which"):
        assert list(found(text)), text
    for text in ("there is no image", "it is no longer there", "as long as it runs", "go on the way"):
        assert not list(found(text)), text
    source = '#include "is no.h"\n/* is no x */ f("a \\"is " "no y\\"", \'"\', "b"); // is no z\n'
    assert c_strings(source) == 'a \\"is no y\\"\nb', c_strings(source)


def test_what_users_read():
    wrong, seen, met = [], set(), set()
    for name, text in texts():
        seen.add(name.split(os.sep)[0])
        for words, better in found(text):
            allowed = {(n, t) for n, t in ALLOWED if n == name and t in words}
            met |= allowed
            if not allowed:
                wrong.append(f"{name}: ...{words}... ({better})")
    assert {"src", "man", "policies", "packaging", "README.md", "SECURITY.md", "NEWS", "bootstrap"} <= seen, seen
    assert not wrong, "\n".join(wrong)
    assert met == ALLOWED, f"not met with: {ALLOWED - met}"


if __name__ == "__main__":
    run(globals())
