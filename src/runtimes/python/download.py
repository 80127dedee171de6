# SPDX-License-Identifier: Apache-2.0
"""Fetch URL by the session's proxy into PATH, up to a number of bytes: a program of its own in the sandbox, for
upload_file. The file appears when it is complete, and only then. Prints {"written"} or {"error"}."""
import json
import os
import ssl
import sys
import urllib.error
import urllib.request

PROXY = "http://127.0.0.1:3128"
TIMEOUT = 60  # of one reading


class Refused(Exception):
    pass


def opener():
    """For http and https alone, redirects included."""
    made = urllib.request.OpenerDirector()
    for handler in (urllib.request.ProxyHandler({"http": PROXY, "https": PROXY}), urllib.request.HTTPHandler(),
                    urllib.request.HTTPSHandler(context=ssl.create_default_context()),
                    urllib.request.HTTPRedirectHandler(), urllib.request.HTTPErrorProcessor(),
                    urllib.request.HTTPDefaultErrorHandler(), urllib.request.UnknownHandler()):
        made.add_handler(handler)
    made.addheaders = [("User-Agent", "codebox"), ("Accept-Encoding", "identity")]
    return made


def copy(answer, out, most):
    length = answer.headers.get("Content-Length")
    if length and length.isdigit() and int(length) > most:
        raise Refused(f"it has {length} bytes, and up to {most} are allowed")
    done = 0
    while piece := answer.read(1 << 16):
        done += len(piece)
        if done > most:
            raise Refused(f"it has more than {most} bytes")
        while piece:
            piece = piece[os.write(out, piece):]
    if length and length.isdigit() and done != int(length):
        raise Refused(f"it ended after {done} of {length} bytes")
    return done


def fetch(url, path, most):
    directory = os.path.dirname(path) or "."
    os.makedirs(directory, exist_ok=True)
    # Without a name until it is complete: nothing is left of it, however this ends.
    out = os.open(directory, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o644)
    with opener().open(url, timeout=TIMEOUT) as answer:
        done = copy(answer, out, most)
    part = os.path.join(directory, f".download-{os.getpid()}")
    # With a directory's descriptor: without one Python calls link(2), which does not follow.
    os.link(str(out), part, src_dir_fd=os.open("/proc/self/fd", os.O_RDONLY), follow_symlinks=True)
    try:
        os.rename(part, path)
    except OSError:
        os.unlink(part)
        raise
    return done


def reason(error):
    if isinstance(error, urllib.error.HTTPError):
        if error.headers.get("X-Codebox"):
            return error.read(1000).decode("utf-8", "replace").strip()
        return f"the server answered {error.code} {error.reason}"
    return str(getattr(error, "reason", None) or error)


def main(url, path, most):
    try:
        print(json.dumps({"written": fetch(url, path, int(most))}))
    except (OSError, ValueError, Refused, urllib.error.URLError) as error:
        print(json.dumps({"error": reason(error)[:400]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
