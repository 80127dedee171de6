#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Advisories that the policy names refuse or warn; names like those of popular packages are warned of, by each front end."""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import run  # noqa: E402
from install import box, box_with, cell, index, install, names  # noqa: E402

where = os.path.join(box.dir, "osv")
os.mkdir(where)
os.chmod(where, 0o755)


def advisory(id, name, *events, versions=(), **more):
    return {"id": id, "schema_version": "1.6.0", "modified": "2026-01-01T00:00:00Z", "affected": [{
        "package": {"ecosystem": "PyPI", "name": name}, "ranges": [{"type": "ECOSYSTEM", "events": list(events)}] if events else [],
        "versions": list(versions)}], **more}


def write(name, content):
    path = os.path.join(where, name)
    with open(path, "w") as f:
        f.write(content if isinstance(content, str) else json.dumps(content))
    os.chmod(path, 0o644)
    return path


write("A.json", advisory("GHSA-aaaa-1", "Inner.Part", {"introduced": "1.1"}, {"fixed": "1.5"}, summary="It leaks\nwords"))
write("B.json", advisory("PYSEC-2026-1", "withdrawn-of", {"introduced": "0"}, withdrawn="2026-02-01T00:00:00Z"))
write("C.json", advisory("PYSEC-2026-2", "listed-one", versions=["1.9", "2.0"], summary="It counts wrongly"))
write("readme.txt", "no advisory")


def test_what_an_advisory_names_is_refused_with_its_id_range_and_way():
    index.add("inner-part", "1.0")
    index.add("inner-part", "1.4")
    index.add("outer-part", "1.0", ["inner_part"])
    index.add("withdrawn-of", "1.0")
    index.add("listed-one", "2.0")
    b = box_with(advisories=[where])
    says = install("outer-part", b=b)
    assert "inner-part 1.4 is affected by GHSA-aaaa-1 (>=1.1,<1.5); it is needed by outer-part → inner-part" in says, says
    assert "on_advisory" in says and "No module named" in cell("import outer_part", b=b)[1], says
    says = install("listed-one", b=b)
    assert "listed-one 2.0 is affected by PYSEC-2026-2 (==2.0): It counts wrongly" in says, says
    assert not any(path.endswith(".whl") for path in index.asked), index.asked  # nothing was fetched for that
    assert names(install("outer-part", "inner-part<1.1", b=b)["installed"]) == ["inner-part 1.0", "outer-part 1.0"]
    answer = install("withdrawn-of", b=b)
    assert names(answer["installed"]) == ["withdrawn-of 1.0"] and "warnings" not in answer, answer
    out, err = cell("!pip install inner-part==1.4; echo $?", b=b)
    assert "ERROR: inner-part 1.4 is affected by GHSA-aaaa-1" in out + err and "1\n" in out, (out, err)
    b.stop()


def test_or_warned_of():
    b = box_with(advisories=[write("all.list", [advisory("X-1", "inner-part", {"introduced": "0"}, {"last_affected": "1.4"}), {}])],
                 on_advisory="warn")
    warning = "inner-part 1.4 is affected by X-1 (<=1.4); it is needed by outer-part → inner-part"
    answer = install("outer-part", b=b)
    assert names(answer["installed"]) == ["inner-part 1.4", "outer-part 1.0"] and answer["warnings"] == [warning], answer
    cell("pass", "text", b)
    r = b("pip", "install", "--session", "text", "outer-part")
    assert f"warning: {warning}" in r.stderr and r.returncode == 0, r
    out, err = cell("!pip install outer-part", "own", b)
    assert f"WARNING: {warning}" in out + err, (out, err)
    process = b.popen("mcp", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    requests = [{"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {},
                                                             "clientInfo": {"name": "t", "version": "1"}}},
                {"id": 2, "method": "tools/call", "params": {"name": "install_packages", "arguments": {"packages": ["outer-part"]}}}]
    out = process.communicate("".join(json.dumps({"jsonrpc": "2.0", **r}) + "\n" for r in requests))[0]
    result = next(m for m in map(json.loads, out.splitlines()) if m.get("id") == 2)["result"]
    assert f"Warning: {warning}.\n" in result["content"][0]["text"], result
    b.stop()


def test_files_that_cannot_be_used():
    huge = os.path.join(where, "huge")
    with open(huge, "w") as f:
        f.truncate((256 << 20) + 1)
    os.chmod(huge, 0o644)
    empty = os.path.join(where, "empty")
    os.mkdir(empty)
    os.chmod(empty, 0o755)
    for path, says in ((os.path.join(where, "absent"), "No such file"), (huge, "File too large"), (empty, "there is no advisory"),
                       (write("cut", '{"name": "inner-part"'), "it is cut off"),
                       (write("no-id", '{"name": "inner-part"}'), "it has no id"), (write("words", "words"), "neither an object")):
        for on in "refuse", "warn":
            b = box_with(advisories=[path], on_advisory=on)
            answer = install("inner-part", b=b)
            assert isinstance(answer, str) and says in answer and path in answer and "nothing is installed" in answer, (path, answer)
            b.stop()
            if path != huge:
                break


def test_names_like_those_that_many_use():
    for name in "reqeusts", "python-dateutils", "scikitlearn", "numpyy", "nothing-like-it", "dask-x":
        index.add(name, "1.0")
    index.add("innocent", "1.0", ["numpyy"])

    def warned(*args, **rules):
        b = box_with(**rules)
        answer = install(*args, b=b)
        b.stop()
        assert isinstance(answer, dict), answer
        return answer.get("warnings", [])
    assert warned("reqeusts", "nothing-like-it", "dask-x") == [
        "reqeusts is not requests, which many use and whose name is much like it; make sure that it is what you mean"]
    assert [w.split(",")[0] for w in warned("scikitlearn", "python_dateutils")] == [
        "python-dateutils is not python-dateutil", "scikitlearn is not scikit-learn"]
    assert warned("innocent") == []  # nobody has typed the name of what it needs
    assert warned("reqeusts", versions=["reqeusts>=1"]) == []  # the policy knows it


if __name__ == "__main__":
    run(globals())
