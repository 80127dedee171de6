#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""image_python.py ROOT [ARGUMENT...]: the interpreter of the image whose tree is ROOT, without a sandbox around it.

Tests of the driver and of codeboxd want the Python and the libraries that sessions have, and not those that somebody
has installed on the machine. In a mount namespace of its own the image's /usr and /etc are put over the machine's; all
else stays, ids and processes too.
"""
import ctypes
import os
import sys
from pathlib import Path

from store import images_dir

CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
libc = ctypes.CDLL(None, use_errno=True)


def image_python():
    """The start of a command: the interpreter of the image "python" in this user's store."""
    root = Path(images_dir()) / "python" / "rootfs"
    if not (root / "usr/bin/python3").exists():
        print("1..0 # SKIP there is no image python; codebox image build python")
        sys.exit(0)
    return [os.path.abspath(__file__), str(root)]


def call(what, *args):
    if getattr(libc, what)(*args) != 0:
        sys.exit(f"{what} {args}: {os.strerror(ctypes.get_errno())}")


def write(name, text):
    with open(f"/proc/self/{name}", "w") as f:
        f.write(text)


def main():
    root, uid, gid, cwd = os.path.realpath(sys.argv[1]), os.geteuid(), os.getegid(), os.getcwd()
    if uid == 0:  # a store of its own that other ids cannot read
        call("unshare", CLONE_NEWNS)
        call("mount", b"none", b"/", None, MS_REC | MS_PRIVATE, None)
    else:
        call("unshare", CLONE_NEWUSER | CLONE_NEWNS)
        write("setgroups", "deny")
        write("uid_map", f"{uid} {uid} 1")
        write("gid_map", f"{gid} {gid} 1")
    for name in ("usr", "bin", "sbin", "lib", "lib64", "etc"):
        source, target = f"{root}/{name}", f"/{name}"
        if os.path.isdir(source) and os.path.isdir(target) and not os.path.islink(target):
            call("mount", source.encode(), target.encode(), None, MS_BIND | MS_REC, None)
    os.chdir(cwd)
    os.execv("/usr/bin/python3", ["/usr/bin/python3", *sys.argv[2:]])


if __name__ == "__main__":
    main()
