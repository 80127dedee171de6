#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The clear cases of CONTRIBUTING's checklist of English: in what users read, which is strings of the programs, manual
pages, the README, SECURITY.md, NEWS, --help; and in comments. What needs judgement is not here."""
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

# What an error of ours says to do: "; remedy", or the remedy alone behind the name of the value.
REMEDY = (r"; |(?:^|: |, )(?:add|ask|choose|give|make|name|omit|pass|remove|run|see|send|set|use|wait|write)\b"
          r"|missing (?:argument|field|body)|is not between|(?:is|are) expected|(?:accepted|allowed) are|there are: |must (?:be|name)"
          r"|: %(?:\.\d+)?s$|^%s\b[^:]*$")
# Kinds of errors that no value of the caller, the operator or the policy mends: something is broken, hostile, slow or gone.
FACTS = set("""
    apt_failed archive_bomb archive_too_large bad_answer bad_frame cancelled cgroup chain_broken connection_failed daemon
    daemon_gone damaged_archive damaged_layer damaged_package digest_mismatch ended filter frame_too_long image_damaged
    index_refused install_failed internal interpreter_died interpreter_failed interrupted invalid_advisory invalid_answer
    invalid_image invalid_json invalid_lock invalid_plan kernel_failed network not_found protocol query_failed registry_failed
    registry_unreachable sandbox sandbox_exists sandbox_failed session_expired store_failed store_unreachable supervisor
    system timeout unauthorized unsafe_archive unsafe_device unsafe_package unsafe_path unsafe_wheel usage wrong_hash zygote""".split())
# Refusals whose text stands elsewhere, or that nobody can do anything about.
WITHOUT = {("src/base/dirs.c", "root could be regained after giving it up"),
           ("src/sandbox/enter.c", "the workspace is not within the sandbox's root"),
           ("src/image/tree.c", "%s is larger than %zu bytes")}


C_TOKEN = r'/\*.*?\*/|//[^\n]*|\'(?:\\.|[^\'\\\n])+\'|"(?:\\.|[^"\\\n])*"'


def c_strings(text):
    """String literals as the compiler joins them, one a line; without comments and the names of headers."""
    parts, end = [], 0
    for m in re.finditer(C_TOKEN, text, re.S):
        if not m.group().startswith('"') or re.search(r"#\s*include\s*$", text[max(0, m.start() - 40):m.start()]):
            continue
        joined = parts and re.fullmatch(r"\s*(?:PRI\w+\s*)?", text[end:m.start()])
        string = re.sub(r"\\[nt]", " ", m.group()[1:-1])
        parts[-1:] = [parts[-1] + string] if joined else [*parts[-1:], string]
        end = m.end()
    return "\n".join(parts)


def c_comments(text):
    """Of C and JavaScript; the "*" before each line is not part of a sentence."""
    found_ones = (m.group() for m in re.finditer(C_TOKEN, text, re.S))
    return "\n".join(re.sub(r"\n\s*\*? ?", " ", c) for c in found_ones if c.startswith("/"))


def python_tokens(text, wanted):
    return "\n".join(t.string for t in tokenize.generate_tokens(io.StringIO(text).readline) if wanted(t))


def python_strings(text):
    """All of them, and comments."""
    return python_tokens(text, lambda t: t.type in (tokenize.STRING, tokenize.COMMENT))


def python_comments(text):
    """With docstrings."""
    return python_tokens(text, lambda t: t.type == tokenize.COMMENT or t.string.startswith('"""'))


def prose(text):
    """A page without the section that quotes what is not to be written."""
    return re.sub(r"^## English\n.*?(?=^## )", "", text, flags=re.M | re.S)


def refusals(text):
    """(kind, message) of the calls whose kind and message are written out."""
    token = r'"(?:\\.|[^"\\\n])*"'
    for m in re.finditer(rf'\bcbx_(?:cli_)?refuse\((?:[^";]*, )?"(\w+)",(?: \w+,)?\s*({token}(?:{token}|[A-Z]\w+|\s)*)[,)]', text):
        yield m.group(1), "".join(s[1:-1] for s in re.findall(token, m.group(2)))


def texts():
    for folder, pattern, read in (
            ("src", "*.[ch]", c_strings), ("src", "*.py", python_strings), ("man", "*.[1-8]*", prose),
            ("src", "*.[ch]", c_comments), ("src", "*.js", c_comments), ("tests", "*.[ch]", c_comments),
            ("tests", "*.py", python_comments), ("tests", "*.mjs", c_comments),
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
    assert c_comments(source) == "/* is no x */\n// is no z", c_comments(source)
    assert list(found(c_comments("/* so\n * many */"))) and list(found(python_comments('x = "so many"  # goes on')))
    assert not list(found(python_comments('x = "so many"')))


def test_what_is_read():
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


def test_an_error_says_what_to_do():
    hints = (TOP / "src/tools/call.c").read_text(encoding="utf-8")
    replaced = set(re.findall(r'\{ "(\w+)",\s+"[^"]*", true \}', hints))  # there, what follows "; " gives way
    wrong, met, seen = [], set(), 0
    assert {"session_not_found", "too_many_sessions"} <= replaced and not replaced & FACTS, replaced
    for path in sorted((TOP / "src").rglob("*.[ch]")):
        for kind, message in refusals(path.read_text(encoding="utf-8")):
            seen += 1
            name = str(path.relative_to(TOP))
            met |= {(name, message)} & WITHOUT
            if kind in FACTS or (name, message) in WITHOUT:
                continue
            if not re.search("; " if kind in replaced else REMEDY, message):
                wrong.append(f"{name}: {kind}: {message}")
    assert seen > 700, seen
    assert not wrong, "what: why; remedy:\n" + "\n".join(wrong)
    assert met == WITHOUT, f"not met with: {WITHOUT - met}"


def test_it_knows_a_remedy():
    for text in ('cbx_refuse(err, "busy", EBUSY, "x is " "busy")', 'cbx_cli_refuse("none", "there is no \\"%s\\"", id)',
                 'cbx_refuse(&err, "invalid_argument", EINVAL,\n\t"a: %d is too long", 5)'):
        (kind, message), = refusals(text)
        assert kind not in FACTS and not re.search(REMEDY, message), text
    for text in ("x is busy; try again", "a: give a list", "missing argument: code", "a: 5 is not between 1 and 4"):
        assert re.search(REMEDY, text), text


if __name__ == "__main__":
    run(globals())
