# SPDX-License-Identifier: Apache-2.0
"""Where the user's images are."""
import os


def data_dir():
    home = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    return os.environ.get("CODEBOX_DATA_DIR") or ("/var/lib/codebox" if os.geteuid() == 0 else os.path.join(home, "codebox"))


def images_dir():
    return os.path.join(data_dir(), "images")
