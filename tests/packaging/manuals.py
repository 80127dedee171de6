#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The manual has a page for each program, and codebox(1) a synopsis and a section for each command; apropos finds all pages."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "lib"))
from cbxtest import CODEBOX, Skip, run  # noqa: E402

PREFIX = Path(CODEBOX).resolve().parent.parent
PAGES = PREFIX / "share/man"
SOURCES = [p for p in (TOP / "man").iterdir() if re.fullmatch(r".*\.[1-9](\.in)?", p.name)]


def text_of(name):
    return (TOP / "man" / name).read_text()


def named(text):
    """The names of a page's section NAME."""
    return re.findall(r"^\.Nm ([\w-]+)", text.split(".Sh NAME\n")[1].split(".Sh ")[0], re.M)


def pages():
    return {(p.name.rsplit(".", 1)[0], p.suffix[1:]) for p in PAGES.glob("man[1-9]/*.[1-9]")}


def commands():
    text = subprocess.run([CODEBOX, "--help"], check=True, capture_output=True, text=True).stdout
    return re.findall(r"^  (\w+)  ", text.split("Commands:\n")[1].split("Options:\n")[0], re.M)


def test_each_program_has_a_page():
    programs = [p.name for d in ("bin", "sbin", "libexec/codebox") for p in (PREFIX / d).iterdir()
                if p.is_file() and os.access(p, os.X_OK) and p.suffix != ".so"]
    assert len(programs) > 5, programs
    without = set(programs) - {name for name, _ in pages()}
    assert not without, without


def test_each_name_leads_to_its_page():
    there = pages()
    for source in SOURCES:
        text = source.read_text()
        section = re.search(r"^\.Dt \S+ ([1-9])$", text, re.M).group(1)
        for name in named(text):
            assert (name, section) in there, (source.name, name)
    for name, section in there:
        page = (PAGES / f"man{section}" / f"{name}.{section}").read_text()
        assert name in named(page), (name, named(page))


def test_codebox_1_has_each_command():
    text = text_of("codebox.1")
    synopsis = set(re.findall(r"^\.Cm ([a-z]+)", text.split(".Sh SYNOPSIS\n")[1].split(".Sh DESCRIPTION")[0], re.M))
    sections = {word for line in re.findall(r"^\.Ss (codebox .*)$", text, re.M) for word in re.findall(r"codebox (\w+)", line)}
    listed = commands()
    assert len(listed) > 10, listed
    assert set(listed) == synopsis - {"help"}, set(listed) ^ synopsis
    assert set(listed) == sections, set(listed) ^ sections


def test_each_verb_is_in_the_synopsis_of_a_page():
    described = (TOP / "packaging/completions/commands").read_text()
    texts = "".join(text_of(p) for p in ("codebox.1", "codebox-exec.1", "codebox-image.1"))
    verbs = re.findall(r"^([a-z]+ [a-z]+) *\|", described, re.M)
    assert len(verbs) > 10, verbs
    synopses = "".join(re.findall(r"^\.Sh SYNOPSIS\n(.*?)^\.Sh ", texts, re.M | re.S))
    without = [v for v in verbs if not re.search(rf"^\.Cm {v}\b", synopses, re.M)]
    assert not without, without


def test_references_lead_to_pages():
    there = pages()
    wrong = {(source.name, *ref) for source in SOURCES
             for ref in re.findall(r"^\.Xr (codebox[\w-]*) ([1-9])", source.read_text(), re.M) if ref not in there}
    assert not wrong, wrong


def test_codebox_1_leads_to_all_formats_and_concepts():
    """And these are all described: data that is installed, and what the README calls by a name of its own."""
    see = set(re.findall(r"^\.Xr (codebox[\w-]*) [57]", text_of("codebox.1").split(".Sh SEE ALSO\n")[1], re.M))
    there = {name for name, section in pages() if section in "57"}
    assert see == there, see ^ there
    assert {f"codebox-{n}" for n in ("policy", "recipe", "syscalls", "tenants", "limits", "runtime", "session")} <= there, there


def test_apropos_lists_all():
    search, index = shutil.which("mapropos"), shutil.which("makewhatis", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if not search or not index:
        raise Skip("there is no mandoc")
    with tempfile.TemporaryDirectory() as d:
        shutil.copytree(PAGES, f"{d}/man", symlinks=True)
        subprocess.run([index, f"{d}/man"], check=True)
        found = subprocess.run([search, "-M", f"{d}/man", "codebox"], check=True, capture_output=True, text=True).stdout
    listed = {(name, section) for names, section in re.findall(r"^(.*?)\(([1-9])\) - ", found, re.M)
              for name in names.split(", ")}
    assert {name for name, _ in pages()} <= {name for name, _ in listed}, (pages(), found)


if __name__ == "__main__":
    run(globals())
