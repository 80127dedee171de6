# SPDX-License-Identifier: Apache-2.0
"""A smaller copy of a large image goes along with it, as one more representation, for those who cannot take the whole:
a message to an MCP client has room for some 600 KiB of images. Made with PIL, where that is; else there is none."""
import warnings
from binascii import a2b_base64
from io import BytesIO

SMALL = 128 << 10  # bytes of a copy, if it can be
ROOM = 450 << 10  # bytes that have a place in a message, as base64: what is larger is not sent as a copy
PIXELS_MAX = 25_000_000  # of an image that is unpacked for that
COPIES = (("image/png", "image/jpeg", "JPEG"), ("image/jpeg", "image/webp", "WEBP"))


def flat(image, side):
    """A copy in colour, on white, with no side longer than that."""
    from PIL import Image
    if image.mode not in ("RGB", "RGBA", "L"):
        image = image.convert("RGBA")
    copy = image.copy()
    copy.thumbnail((side, side))
    if copy.mode != "RGBA":
        return copy.convert("RGB")
    ground = Image.new("RGB", copy.size, "white")
    ground.paste(copy, mask=copy.getchannel("A"))
    return ground


def encode(value, form):
    """The image (bytes or base64) as bytes of another form; None when that cannot be, or is not smaller."""
    try:
        from PIL import Image
        raw = a2b_base64(value) if isinstance(value, str) else bytes(value)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            image = Image.open(BytesIO(raw))
            if image.width * image.height > PIXELS_MAX:
                return None
            for side, quality in (1600, 85), (1200, 75), (800, 60):
                out = BytesIO()
                flat(image, side).save(out, form, quality=quality)
                if out.tell() <= SMALL:
                    break
    except KeyboardInterrupt:
        raise
    except BaseException:
        return None
    return out.getvalue() if out.tell() < len(raw) // 2 else None


def fits(value):
    return value is not None and (len(value) // 4 * 3 if isinstance(value, str) else len(value)) <= ROOM


def add(data):
    """The bundle with the copy; the bundle itself when there is none to make."""
    for mime, other, form in COPIES:
        if data.get(mime) is not None and not fits(data.get(other)):
            copy = encode(data[mime], form)
            return dict(data, **{other: copy}) if copy else data
    return data
