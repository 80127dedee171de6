#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sessions that install one wheel have one copy of it: each file is one inode, and so one copy on the disk and in the page
cache, however many sessions there are. CODEBOX_SHARED_SESSIONS says how many (20)."""
import glob
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cbxtest import Box, run  # noqa: E402
from control import Control  # noqa: E402
from pypi import Index, own_data  # noqa: E402

SESSIONS = int(os.environ.get("CODEBOX_SHARED_SESSIONS", "20"))
SIZE = 8 << 20
index = Index()
index.add("large", "1.0", files={"large/__init__.py": "", "large/data.bin": os.urandom(SIZE),
                                 "large-1.0.data/purelib/large_more.py": "x = 1\n"})
data = own_data()
box = Box(CODEBOX_POOL="0", CODEBOX_DATA_DIR=data)
policy = os.path.join(box.dir, "policy.json")
with open(policy, "w") as f:
    json.dump({"include": ["default"], "packages": {"index": index.url}}, f)
box.env["CODEBOX_POLICY"] = policy


def kept():
    """Of the wheels' files, wherever they have names: {inode: 512-byte blocks}, and how many names."""
    blocks, names = {}, 0
    for top in (os.path.join(data, "packages", "w"), *glob.glob(os.path.join(data, "packages", "d", "*", "s"))):
        for at, _, files in os.walk(top):
            for name in files:
                st = os.lstat(os.path.join(at, name))
                blocks[st.st_dev, st.st_ino] = st.st_blocks
                names += 1
    return blocks, names


def test_they_share_one_copy():
    with Control(box) as c:
        def session(number):
            s = f"s{number}"
            c.call("session.create", session_id=s, image=box.image("python"))
            answer = c.call("packages.install", session_id=s, packages=["large"])
            assert [p["name"] for p in answer["installed"]] == ["large"], answer

        session(0)
        first, one = kept()
        assert sum(first.values()) * 512 >= SIZE, first
        for number in range(1, SESSIONS):
            session(number)
        blocks, names = kept()
        # No file and no block more than after the first session; names alone have come, as many in each.
        assert blocks == first, (len(first), len(blocks), sum(first.values()), sum(blocks.values()))
        files = one // 2  # of the wheel: it has them in the store once, and in the session once
        assert names == files * (1 + SESSIONS), (names, files)
        places = glob.glob(os.path.join(data, "packages", "d", "*", "s", "*", "site", "large", "data.bin"))
        assert len(places) == SESSIONS and len({os.stat(p).st_ino for p in places}) == 1, places
        # The last one can read all of it; what its sandbox sees is that file, by an overlay that has no upper layer.
        r = c.call("run", session_id=f"s{SESSIONS - 1}", code="import large, os\n"
                   "len(open(os.path.dirname(large.__file__) + '/data.bin', 'rb').read())")
        assert r.get("result") == str(SIZE), r
        # A file that a session cannot change is one that all can share.
        r = c.call("run", session_id="s0", code="open(__import__('large').__file__, 'a')")
        assert r["status"] == "error" and "Read-only file system" in r["error"]["value"], r


if __name__ == "__main__":
    run(globals())
