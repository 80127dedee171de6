# SPDX-License-Identifier: Apache-2.0
"""MIME bundles made fit for a frame: text that is valid UTF-8 without NUL, base64 for binary types, JSON as text."""
from binascii import b2a_base64
from json import JSONEncoder

BUNDLE_MAX = 10 << 20  # more is replaced by a note
METADATA_DEPTH = 16
METADATA_MAX = 100 << 10  # as text; codeboxd kills an interpreter whose frame has more than 65,536 values
NOTE_TEXT_MAX = 100 << 10  # of the text that goes with such a note
LARGE_IMAGE = 256 << 10  # an image from here on gets a smaller copy beside it (smaller.py)
COPY_MAX = 1 << 20  # of such a copy that stays when the whole is too large

_encode_strict = JSONEncoder(allow_nan=False).encode


def text(s):
    """A str without lone surrogates and NUL: the far end takes neither."""
    if "\0" in s:
        s = s.replace("\0", "\ufffd")
    try:
        s.encode("utf-8")
    except UnicodeEncodeError:
        s = s.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return str(s)  # a plain str even from a subclass


def safe_str(value):
    try:
        return text(str(value))
    except KeyboardInterrupt:
        raise
    except BaseException:
        return "<%s whose __str__ raises>" % type(value).__name__


def shorten(s, limit):
    """At most about limit characters: the head, how much is omitted, the tail."""
    if len(s) <= limit:
        return s
    half = limit // 2
    return "%s\n... %d characters omitted ...\n%s" % (s[:half], len(s) - 2 * half, s[-half:])


def plain_json(value, depth=METADATA_DEPTH):
    """A copy that any JSON parser takes: str keys, no NaN, bounded depth."""
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return text(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        value = float(value)
        return value if value - value == 0 else None
    if depth == 0:
        return None
    if isinstance(value, dict):
        return {safe_str(k): plain_json(v, depth - 1) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_json(v, depth - 1) for v in value]
    return safe_str(value)


def is_binary(mime):
    main = mime.partition("/")[0]
    return main in ("image", "audio", "video") and mime != "image/svg+xml" or mime == "application/pdf"


def _json_text(value):
    try:
        return _encode_strict(value)
    except (ValueError, TypeError, RecursionError):
        return _encode_strict(plain_json(value, 60))


def _one(mime, value):
    if isinstance(value, (bytes, bytearray, memoryview)):
        if is_binary(mime):
            return b2a_base64(value, newline=False).decode("ascii")
        return text(bytes(value).decode("utf-8", "replace"))
    if isinstance(value, str):
        if is_binary(mime) and "\n" in value:
            return "".join(value.split())
        if mime != "application/json":
            return text(value)
        return _json_text(value)
    if mime == "application/json" or mime.endswith("+json"):
        return _json_text(value)
    return safe_str(value)


def size_text(n):
    return "%.1f MiB" % (n / 1048576)


def has_large_image(data):
    for mime in ("image/png", "image/jpeg"):
        value = data.get(mime)
        if isinstance(value, (bytes, bytearray)) and len(value) > LARGE_IMAGE or \
                isinstance(value, str) and len(value) > LARGE_IMAGE // 3 * 4:
            return True
    return False


def prepare(data, metadata):
    """The data and metadata of a frame."""
    if len(data) == 1 and not metadata:
        plain = data.get("text/plain")
        if type(plain) is str and len(plain) <= BUNDLE_MAX // 4:
            return {"text/plain": text(plain)}, {}
    ready = {}
    for mime, value in data.items():
        if value is not None and isinstance(mime, str):
            ready[text(mime)] = _one(mime, value)
    metadata = plain_json(metadata) if metadata else {}
    if not isinstance(metadata, dict):
        metadata = {}
    # Characters first: that is quick, and within a factor of four of the bytes.
    if sum(map(len, ready.values())) > BUNDLE_MAX // 4:
        if sum(len(value.encode("utf-8")) for value in ready.values()) > BUNDLE_MAX:
            ready = note(ready)
    if metadata and len(_encode_strict(metadata)) > METADATA_MAX:
        metadata = {}
    return ready, metadata


def note(ready):
    """What is shown instead of a bundle that is too large: a text, and an image if a small one is there."""
    kept = {m: ready[m] for m in ("image/jpeg", "image/webp") if len(ready.get(m, "")) in range(1, COPY_MAX)}
    plain = ready.get("text/plain")
    left = {m: v for m, v in ready.items() if m not in kept and (m != "text/plain" or len(v) > NOTE_TEXT_MAX)}
    sizes = ", ".join("%s of %s" % (mime, size_text(len(value.encode("utf-8")))) for mime, value in left.items())
    said = "[not shown%s: %s; the limit is %s. Save it to a file instead.]" % (
        " but for a smaller copy" if kept else "", sizes, size_text(BUNDLE_MAX))
    if plain:
        said = shorten(plain, NOTE_TEXT_MAX) + "\n" + said
    return {"text/plain": said, **kept}
