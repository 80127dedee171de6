#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Of a wheel whose metadata the index does not have apart, the end is read, where the metadata most often are; the wheel
comes when it is known to be needed, once. A large one is unpacked while it comes, its end first."""
import io
import os
import sys
import time
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import installs  # noqa: E402
from cbxtest import run  # noqa: E402
from installs import names  # noqa: E402
from pypi import Index, metadata_of, own_data  # noqa: E402

KIB, MIB = 1 << 10, 1 << 20

index = Index()
index.ranges = True
data = own_data()
box = installs.box_with(data, index=index.url)
image = box.image("python")


def install(*packages, session="s"):
    box("run", "--image", image, "--session", session, "-c", "pass", check=True)
    return installs.install(box, session, packages)


def wheel(name, version="1.0", needs=(), before=0, behind=0, files=0):
    """Bytes that cannot be packed, and files without any, before the metadata; and behind them."""
    out, info = io.BytesIO(), f"{name}-{version}.dist-info"
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr(f"{name}/__init__.py", f"size = {before + behind}\n")
        for i in range(files):
            z.writestr(f"{name}/file-with-a-name-of-some-length-{i}.py", "")
        z.writestr(f"{name}/before", os.urandom(before))
        z.writestr(f"{info}/METADATA", metadata_of(name, version, needs))
        z.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr(f"{name}/behind", os.urandom(behind))
        z.writestr(f"{info}/RECORD", "")
    return out.getvalue()


def put(name, **how):
    data = wheel(name, **how)
    index.put(name, file_of(name), data, listed_metadata=False)
    return len(data)


def file_of(name):
    return f"{name}-1.0-py3-none-any.whl"


def sent(name):
    """How many bytes of its wheel, each time."""
    return [n for path, n in index.sent if path == file_of(name)]


def test_the_end_is_read_and_the_wheel_comes_once():
    whole = put("large", before=3 * MIB, needs=["small"])
    small = put("small")
    answer = install("large", session="s")
    assert names(answer["installed"]) == ["large 1.0", "small 1.0"], answer
    assert sent("large") == [256 * KIB, whole], sent("large")
    assert sent("small") == [small], sent("small")  # its end was all of it, and was kept
    r = box("run", "--session", "s", "-c", "import large, small; print(large.size)")
    assert r.stdout.strip() == str(3 * MIB), r


def test_one_that_is_larger_than_an_answer_may_be():
    whole = put("huge", before=65 * MIB, needs=["small"])
    assert names(install("huge", session="huge")["installed"]) == ["huge 1.0", "small 1.0"]
    assert sent("huge") == [256 * KIB, whole - 256 * KIB], sent("huge")


def test_metadata_that_are_not_in_the_end():
    whole = put("behind", behind=1 * MIB, needs=["small"])
    assert names(install("behind", session="behind")["installed"]) == ["behind 1.0", "small 1.0"]
    assert sent("behind") == [256 * KIB, whole], sent("behind")  # 4 MiB is all of it
    whole = put("farther", before=MIB, behind=5 * MIB, needs=["small"])
    assert names(install("farther", session="farther")["installed"]) == ["farther 1.0", "small 1.0"]
    assert sent("farther") == [256 * KIB, 4 * MIB, whole], sent("farther")  # which was kept


def test_a_list_of_files_that_is_longer():
    whole = put("many", before=5 * MIB, files=4000, needs=["small"])
    assert names(install("many", session="many")["installed"]) == ["many 1.0", "small 1.0"]
    assert sent("many") == [256 * KIB, 4 * MIB, whole - 256 * KIB], sent("many")


def test_what_was_read_is_kept():
    put("kept", before=MIB, needs=["small"])
    install("kept", session="kept")
    box("session", "rm", "kept", check=True)
    box("stop", "--force", check=True)  # what was resolved is forgotten
    before = len(index.sent)
    assert names(install("kept", session="again")["installed"]) == ["kept 1.0", "small 1.0"]
    assert index.sent[before:] == [], index.sent[before:]


def test_an_index_that_knows_no_ranges():
    index.ranges = False
    try:
        whole = put("plain", before=MIB, needs=["small"])
        assert names(install("plain", session="plain")["installed"]) == ["plain 1.0", "small 1.0"]
        assert sent("plain") == [whole], sent("plain")
        put("toolarge", before=65 * MIB)
        assert "sends more than 64 MiB" in install("toolarge", session="plain")
    finally:
        index.ranges = True


def test_an_index_that_sends_no_ends():
    for status in 400, 405, 416, 501:
        index.no_ends = status
        try:
            whole = put(f"whole{status}", before=5 * MIB, needs=["small"])
            assert names(install(f"whole{status}", session="plain")["installed"])[-1] == f"whole{status} 1.0"
            assert sent(f"whole{status}") == [2, whole], sent(f"whole{status}")
        finally:
            index.no_ends = None


def test_an_index_that_lies():
    def lies(i):
        return "lies" + "abcdefg"[i]

    whole = wheel("lies", before=MIB, needs=["small"])
    for i, (status, end, why) in enumerate((
            (206, whole[:256 * KIB], "its wheel cannot be read"), (206, b"", "its wheel cannot be read"),
            (206, os.urandom(256 * KIB), "its wheel cannot be read"), (416, b"no", "answered with status 416"),
            (206, bytes(65 * MIB), "sends more than 64 MiB"))):
        put(lies(i), before=MIB)
        index.instead["/files/" + file_of(lies(i))] = status, {"Content-Range": "bytes 0-1/2"}, end
        answer = install(lies(i), session="s")
        assert isinstance(answer, str) and why in answer, (status, len(end), answer)
    # The end of another wheel says what is needed; the sum says that this is not what was promised.
    put("other", before=MIB)
    index.files["/files/" + file_of("other")] = wheel("other", before=MIB, needs=["large"])
    assert "is not the file that the index promised" in install("other", session="s")
    assert names(install("large", session="s")["installed"]) == ["large 1.0", "small 1.0"]  # it is unharmed


def test_one_with_separate_metadata_is_unpacked_while_it_comes():
    whole = wheel("apart", before=5 * MIB, needs=["small"])
    index.put("apart", file_of("apart"), whole)
    assert names(install("apart", session="apart")["installed"]) == ["apart 1.0", "small 1.0"]
    assert sent("apart") == [256 * KIB, len(whole) - 256 * KIB], sent("apart")


def slowly(data):
    """A part at a time, so that who unpacks has to wait."""
    def pieces():
        for at in range(0, len(data), MIB):
            time.sleep(0.05)
            yield data[at:at + MIB]
    return pieces


def parts(name, end, rest, total=None, status=206):
    """An index that answers with these: what is there is asked for in two parts."""
    path, whole = "/files/" + file_of(name), wheel(name, before=5 * MIB)
    index.put(name, file_of(name), whole)
    asked = []

    def answer():
        asked.append(1)
        if len(asked) == 1:
            return 206, {"Content-Range": "bytes 1-2/3"}, end(whole)
        if len(asked) == 2:
            n = len(whole) - 256 * KIB
            return status, {"Content-Range": f"bytes 0-{n - 1}/{total or len(whole)}"}, rest(whole[:n])
        return 200, {}, whole
    index.instead[path] = answer
    got = install(name, session="s")
    return got if isinstance(got, str) else names(got["installed"])


def last(data):
    return data[-256 * KIB:]


def test_what_comes_slowly_is_waited_for():
    assert parts("slow", last, slowly) == ["slow 1.0"]


def test_parts_that_are_not_those_of_one_file():
    other = wheel("other", before=5 * MIB)
    wrong = "is not the file that the index promised"
    assert wrong in parts("parta", lambda d: last(other), lambda d: d)
    assert wrong in parts("partb", lambda d: os.urandom(256 * KIB), lambda d: d)
    assert wrong in parts("partc", last, lambda d: bytes(len(d)))
    assert wrong in parts("partd", last, lambda d: other[:len(d)])
    assert "cannot be reached" in parts("parte", last, lambda d: slowly(d[:3 * MIB]))  # it breaks off
    assert names(install("apart", session="s")["installed"])[0] == "apart 1.0"  # the session is unharmed


def test_what_is_not_the_part_that_was_asked_for_comes_once_more():
    assert parts("whole", last, lambda d: d, status=200) == ["whole 1.0"]
    assert parts("longer", last, lambda d: d, total=7 * MIB) == ["longer 1.0"]
    assert parts("shorter", last, lambda d: d, total=1) == ["shorter 1.0"]
    index.add("size", "1.0", files={"size.py": "", "size.bin": os.urandom(5 * MIB)})
    index.pages["size"][0]["size"] = 4 * MIB  # the page has it wrong
    assert names(install("size", session="s")["installed"]) == ["size 1.0"]


def test_a_directory_of_wheels():
    where = os.path.join(box.dir, "wheels")
    os.mkdir(where)
    for name, size in ("huge", 65 * MIB), ("small", 0):
        with open(os.path.join(where, file_of(name)), "wb") as f:
            f.write(wheel(name, before=size, needs=["small"] if size else ()))
    other = installs.box_with(data, index=where)
    other("run", "--image", image, "--session", "s", "-c", "pass", check=True)
    answer = installs.install(other, "s", ["huge"])
    assert names(answer["installed"]) == ["huge 1.0", "small 1.0"], answer


if __name__ == "__main__":
    run(globals())
