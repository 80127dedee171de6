#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a person sees of cells on a terminal: output that clear_output() takes back; pictures, where the terminal answers that
it can show them, and files elsewhere."""
import ast
import base64
import os
import re
import struct
import subprocess
import sys
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import Box, CODEBOX, Skip, run  # noqa: E402
from screen import Screen  # noqa: E402

box = Box(LC_ALL="C.UTF-8")
CLEAR = "from IPython.display import clear_output\n"


def screen(code, *args, **kw):
    box.image("python")
    t = Screen([CODEBOX, "run", "--session", "s", *args, "-c", code], box.env, box.dir, **kw)
    status, lines = t.shown()
    assert status == 0, (status, lines)
    return lines


def test_what_is_cleared_is_taken_back():
    assert screen(CLEAR + "print('gone')\nclear_output()\nprint('there')") == ["there", ""]
    assert screen(CLEAR + "for i in range(50):\n    clear_output(wait=True)\n    print('a', i)\n    print('b', i)") == \
        ["a 49", "b 49", ""]
    assert screen(CLEAR + "print('stays')\nclear_output(wait=True)") == ["stays", ""]
    assert screen(CLEAR + "print('x' * 100)\nprint('no newline', end='')\nclear_output()") == [""]
    assert screen(CLEAR + "print('x' * 40)\nprint('y' * 41)\nclear_output()\nprint('z')") == ["z", ""]
    assert screen(CLEAR + "print('\\x1b[31mred\\x1b[0m\\ta\\bb')\nprint('wide ' + '\\u6f22' * 30)\nclear_output()\nprint('z')") == ["z", ""]
    assert screen(CLEAR + "import sys\nfor s in (sys.stdout, sys.stderr):\n    print('s', file=s, flush=True)\n"
                  "display('shown')\nclear_output()\nprint('z')") == ["z", ""]


def test_more_than_a_screen():
    """What has scrolled out stays, what the screen shows goes."""
    lines = screen(CLEAR + "for i in range(30): print(i)\nclear_output()\nprint('z')", rows=10)
    assert lines == [*map(str, range(21)), "z", ""], lines


BARS = '''
import io, sys
out = io.StringIO()
def tqdm_nested(leave):
    from tqdm import tqdm
    kw = dict(file=out, ncols=30, ascii=True, mininterval=0, bar_format="{desc}|{bar}|{n_fmt}/{total_fmt}")
    for i in tqdm(range(3), desc="outer", **kw):
        for j in tqdm(range(4), desc="inner", leave=leave, **kw):
            for k in tqdm(range(2), desc="deep", leave=False, **kw):
                pass
    tqdm.write("written", file=out)
def rich_bars():
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    console = Console(file=out, force_terminal=True, width=38, legacy_windows=False)
    with Progress(TextColumn("{task.description}"), BarColumn(10), MofNCompleteColumn(), console=console, auto_refresh=False) as p:
        tasks = [p.add_task(name, total=3) for name in ("one", "two", "three")]
        for i in range(3):
            for task in tasks:
                p.advance(task)
                p.refresh()
            p.console.print("line", i)
eval(sys.argv[1])
sys.stdout.write(ascii(out.getvalue()))
'''


def test_progress_bars_redraw():
    """What tqdm and rich write to a terminal looks as it does without a sandbox between."""
    r = subprocess.run([os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "clients", "setup.sh"), "bars"],
                       capture_output=True, text=True)
    if r.returncode == 77:
        raise Skip(r.stderr.strip().splitlines()[-1])
    python = os.path.join(r.stdout.strip(), "bin", "python")
    for what, last in ("tqdm_nested(False)", "written"), ("tqdm_nested(True)", None), ("rich_bars()", "three ━━━━━━━━━━ 3/3"):
        text = ast.literal_eval(subprocess.run([python, "-c", BARS, what], check=True, capture_output=True, text=True).stdout)
        assert "\x1b[" in text and ("A" in text), text
        want = Screen.of(text.encode())
        got = screen(f"import sys; sys.stderr.write({text!r}); sys.stderr.flush()", rows=12)
        assert got == want and len(got) < 12, (what, got, want)
        assert last is None or last in got, (what, got)


def test_nothing_above_the_cell_is_reached():
    t = Screen([CODEBOX, "repl"], box.env, box.dir, rows=20, columns=80)
    t.see(b">>> ")
    t.type("print('precious')\n")
    t.see(b"precious\r\n")
    t.see(b"\x1b[?2004h>>> ")
    t.type(r"print('one\ntwo\x1b[99A\x1b[2KONE\x1b[5B\x1b[3D*\x1b[99D<\x1b[1;1H\x1b[2J\x1b[3J', end='')" + "\n")
    t.see(b"\r\n")
    shown = t.see(b"\x1b[?2004h")
    # Up by one row, which is all there is; down by one; and neither to a place of the screen nor erasing all of it.
    assert shown == b"\x1b[?2004lone\r\ntwo\x1b[1A\x1b[2KONE\x1b[1B\x1b[4G*\x1b[1G<\r\n" or \
        shown.endswith(b"one\r\ntwo\x1b[1A\x1b[2KONE\x1b[1B\x1b[4G*\x1b[1G<\r\n"), shown
    # Where a cell leaves the cursor above what it wrote, the prompt is below it.
    t.see(b">>> ")
    t.type(r"print('a\nb\nc\x1b[2A', end='')" + "\n")
    t.see(b"a\r\nb\r\nc\x1b[2A\x1b[2B\r\n")
    t.see(b">>> ")
    t.type("\x04")
    assert t.end() == 0


def test_more_bars_than_rows():
    """As a terminal does it: what has scrolled out is not reached."""
    text = "".join(f"{i}\n" for i in range(20)) + "\x1b[15A\x1b[KX\x1b[9B\rend"
    assert screen(f"import sys; sys.stdout.write({text!r}); sys.stdout.flush()", rows=10) == Screen.of(text.encode(), rows=10)


def test_in_the_repl():
    t = Screen([CODEBOX, "repl"], box.env, box.dir, rows=20, columns=80)
    t.see(b">>> ")
    t.type(CLEAR + "")
    t.see(b">>> ")
    t.type("print('go' + 'ne'); clear_output(); print('the' + 're')\n")
    before = t.see(b"there")
    assert b"gone" in before and before.endswith(b"\r\x1b[1A\x1b[J"), before
    t.see(b">>> ")
    t.type("\x04")
    assert t.end() == 0


def test_elsewhere_it_stays():
    r = box("run", "--session", "s", "-c", CLEAR + "print('first')\nclear_output()\nprint('last')", check=True)
    assert r.stdout == "first\nlast\n", r
    r = box.json("run", "--json", "-c", CLEAR + "print('first'); display('one')\nclear_output()\nprint('last'); display('two')")
    assert r["stdout"] == "last\n" and [d["data"]["text/plain"] for d in r["displays"]] == ["'two'"], r


def chunks(png):
    at, found = 8, {}
    while at < len(png):
        n, = struct.unpack(">I", png[at:at + 4])
        name, data = png[at + 4:at + 8], png[at + 8:at + 8 + n]
        assert struct.unpack(">I", png[at + 8 + n:at + 12 + n])[0] == zlib.crc32(name + data), name
        found[name] = found.get(name, b"") + data
        at += n + 12
    return found


def pixels(png):
    found = chunks(png)
    width, height, depth, kind = struct.unpack(">IIBB", found[b"IHDR"][:10])
    assert (depth, kind) == (8, 2) and set(found) == {b"IHDR", b"IDAT", b"IEND"}, found.keys()
    rows = zlib.decompress(found[b"IDAT"])
    return width, height, [rows[y * (width * 3 + 1) + 1:(y + 1) * (width * 3 + 1)] for y in range(height)]


# Three by two pixels, of a palette: red, a transparent one, blue; and a comment that tries what a terminal obeys.
PICTURE = """
import zlib, struct, base64
def chunk(name, data): return struct.pack('>I', len(data)) + name + data + struct.pack('>I', zlib.crc32(name + data))
def picture(w, h, kind, depth, rows, *more):
    png = b'\\x89PNG\\r\\n\\x1a\\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', w, h, depth, kind, 0, 0, 0)) + b''.join(more)
    png += chunk(b'tEXt', b'x\\0\\x1b]0;evil\\x07') + chunk(b'IDAT', zlib.compress(rows)) + chunk(b'IEND', b'')
    display({'image/png': base64.b64encode(png).decode(), 'text/plain': 'a picture'}, raw=True)
def small():
    picture(3, 2, 3, 2, b'\\0\\x18\\1\\x18', chunk(b'PLTE', bytes([255, 0, 0, 9, 9, 9, 0, 0, 255])), chunk(b'tRNS', bytes([255, 0])))
"""
RED, WHITE, BLUE = b"\xff\0\0", b"\xff\xff\xff", b"\0\0\xff"


def showing(kind, code, *args, typed="", where=None):
    box.image("python")
    t = Screen([CODEBOX, "run", *args, "-c", PICTURE + code], box.env, where or box.dir, kind=kind)
    t.answer(typed)
    status, lines = t.shown()
    assert status == 0, (status, lines, t.got)
    return t, lines


def test_pictures_where_the_terminal_can():
    code = "print('before')\nsmall()\nprint('between')\nsmall()\nprint('after')"
    for kind in ("kitty", "iterm2", "sixel"):
        t, lines = showing(kind, code)
        assert [k for k, _ in t.images] == [kind] * 2 and lines == ["before", "", "between", "", "after", ""], (kind, lines, t.images)
        shown = t.images[0][1]
        assert b"evil" not in shown and b"\x07" not in shown, shown
        if kind == "sixel":
            assert re.match(rb'0;1q"1;1;3;2#0;2;0;0;0', shown) and b"#5;2;0;0;100" in shown, shown
            # Both rows of the first pixel are red, of the second white, of the last blue.
            assert shown.endswith(b"#5??B$#180B$#215?B$-"), shown[-60:]
            continue
        assert (b"c=1,r=1" if kind == "kitty" else b"width=1;height=1") in shown, shown
        width, height, rows = pixels(base64.b64decode(re.split(rb"[:;]", shown)[-1]))
        assert (width, height, rows) == (3, 2, [RED + WHITE + BLUE] * 2), (width, height, rows)


def test_a_large_one_has_its_place():
    t, lines = showing("kitty", "picture(1000, 700, 6, 8, b''.join(b'\\2' + bytes(4000) for y in range(700)))\nprint('below')")
    (_, shown), = t.images
    columns, rows = map(int, re.search(rb"c=(\d+),r=(\d+)", shown).groups())
    assert columns <= 40 and 1 < rows <= 10 and lines == [""] * rows + ["below", ""], (columns, rows, lines)
    t, lines = showing("sixel", "picture(1000, 700, 0, 16, b''.join(b'\\0' + bytes(2000) for y in range(700)))\nprint('below')")
    assert re.match(rb'0;1q"1;1;\d{2,3};\d{2,3}#', t.images[0][1]) and lines[-2] == "below", t.images[0][1][:80]


def test_what_the_terminal_cannot_show_is_saved():
    for kind in ("plain", "silent"):
        where = os.path.join(box.dir, kind)
        t, lines = showing(kind, "small()", "--out", where)
        assert not t.images and any("figure-1.png" in line for line in lines), (kind, lines)
        assert os.listdir(where) == ["figure-1.png"]
    t, lines = showing("kitty", "small()", "--out", os.path.join(box.dir, "both"))
    assert len(t.images) == 1 and os.listdir(os.path.join(box.dir, "both")) == ["figure-1.png"], lines


def test_pictures_that_are_none():
    """What cannot be decoded is not sent to a terminal."""
    broken = ("picture(3, 2, 2, 8, b'too short')", "picture(3, 2, 2, 8, b'\\7' + bytes(9) + b'\\0' + bytes(9))",
              "picture(3, 2, 3, 8, b'\\0' + bytes(3) + b'\\0' + bytes(3))", "picture(60000, 60000, 2, 8, b'')",
              "picture(3, 2, 5, 8, bytes(20))", "picture(4096, 1, 2, 3, bytes(20))")
    t, lines = showing("kitty", "small()\n" + "\n".join(broken) + "\nsmall()")
    assert len(t.images) == 2 and sum("figure: image/png" in line for line in lines) == len(broken), (len(t.images), lines)


def test_what_was_typed_meanwhile():
    t, lines = showing("kitty", "small()\nprint('read', input())", typed="typed ahead\n")
    assert len(t.images) == 1 and "read typed ahead" in lines, lines
    t = Screen([CODEBOX, "repl"], box.env, box.dir, kind="kitty", rows=40, columns=100)
    t.see(b">>> ")
    t.type("exec(%r); small()\n" % PICTURE)
    t.answer("print('ne' + 'xt')\n", shown=False)
    assert b"\x1b_Ga=T,f=100,q=2,c=1,r=1," in t.see(b"next\r\n")
    t.see(b">>> ")
    t.type("small()\n")
    assert b">q" not in t.see(b"\x1b_Ga=T,f=100"), "it is asked once"
    t.see(b">>> ")
    t.type("\x04")
    assert t.end() == 0 and not os.path.exists(os.path.join(box.dir, "figure-1.png"))


if __name__ == "__main__":
    run(globals())
