# SPDX-License-Identifier: Apache-2.0
"""A codeboxd with an image of one file: ready.c, the interpreter that does nothing but report."""
import json
import os
import platform
import shutil
import tempfile

from cbxtest import Box

DIRECTORIES = ("bin", "dev", "etc", "home", "proc", "root", "run", "sys", "tmp", "usr", "var", "workspace")


class ReadyBox:
    def __init__(self, program):
        self.dir = tempfile.mkdtemp(prefix="cbxbench")
        os.chmod(self.dir, 0o755)
        image = os.path.join(self.dir, "images", "ready")
        for name in DIRECTORIES:
            os.makedirs(os.path.join(image, "rootfs", name))
        shutil.copy(program, os.path.join(image, "rootfs", "bin", "ready"))
        machine = platform.machine()
        with open(os.path.join(image, "manifest.json"), "w") as f:
            json.dump({"format": 1, "name": "ready", "kind": "recipe",
                       "description": "an interpreter that only reports",
                       "created": "2026-01-01T00:00:00Z",
                       "architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine),
                       "layers": [{"source": "rootfs", "target": "/"}], "environment": {"PATH": "/bin"},
                       "packages": [], "interpreters": {"python": {"argv": ["/bin/ready"]}}, "digest": "",
                       "files": 1, "bytes": os.path.getsize(program)}, f)
        with open(os.path.join(image, "files.txt"), "w"):
            pass
        self.box = Box(CODEBOX_DATA_DIR=self.dir, CODEBOX_POOL="0")

    def __enter__(self):
        return self.box

    def __exit__(self, *exc):
        self.box.stop()
        shutil.rmtree(self.dir, ignore_errors=True)
