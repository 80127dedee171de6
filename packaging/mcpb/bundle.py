#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The MCPB bundle for Claude Desktop: a manifest that starts the installed codebox. The same arguments give the same bytes.

usage: bundle.py MANIFEST.in BUNDLE BINDIR VERSION URL
"""
import sys
import zipfile


def main():
    if len(sys.argv) != 6:
        raise SystemExit(__doc__.split("\n\n")[1])
    template, bundle, bindir, version, url = sys.argv[1:]
    with open(template, encoding="utf-8") as f:
        manifest = f.read().replace("@bindir@", bindir).replace("@version@", version).replace("@url@", url)
    files = (("manifest.json", 0o644, manifest), ("server/codebox", 0o755, f'#!/bin/sh\nexec "{bindir}/codebox" "$@"\n'))
    with zipfile.ZipFile(bundle, "w") as z:
        for name, mode, text in files:
            entry = zipfile.ZipInfo(name)  # of the first day that a zip file knows
            entry.create_system = 3
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            z.writestr(entry, text)


if __name__ == "__main__":
    main()
