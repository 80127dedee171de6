# SPDX-License-Identifier: Apache-2.0
"""What packages of conda have to fit: said by a sandbox of the image that they are for, on one line (solve.py)."""
import json
import os
import sys


def libc():
    """ "glibc 2.36"; "": it is another one."""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (ValueError, OSError):
        return ""


if __name__ == "__main__":
    line = json.dumps({"python": "%d.%d.%d" % sys.version_info[:3], "implementation": sys.implementation.name,
                       "libc": libc(), "machine": os.uname().machine, "bits": 64 if sys.maxsize > 2**32 else 32})
    os.write(1, line.encode() + b"\n")
