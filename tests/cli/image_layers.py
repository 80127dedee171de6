#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Layers that images share, by codebox image pull from a real registry on loopback: what is fetched, what is on the
disk once, what each image has of its own, and that nothing stays of a layer that no image has."""
import gzip
import json
import os

from image_pull import Image, Layer, clear, front, pulled, refused, registry, setup, started, store
from cbxtest import run


def packed(layer):
    plain = layer.bytes()
    return plain, "gzip", gzip.compress(plain, 1, mtime=0)


def two_of_a_base():
    """Pushed: images one and two, which have their lowest layer in common."""
    if "two" not in started:
        r = registry()
        base = packed(Layer().file("usr/share/big", os.urandom(300000)).file("opt/gone", b"1").file("etc/base", b"base")
                      .file("srv/old/a").file("etc/passwd", b"root:x:0:0::/:/bin/sh\n"))
        one = packed(Layer().file("opt/one", b"1"))
        two = packed(Layer().file("opt/.wh.gone", b"").file("srv/old/.wh..wh..opq", b"").file("srv/old/b", b"2")
                     .file("etc/base", b"other").file("opt/two", b"2"))
        started["two"] = images = Image([base, one]), Image([base, two])
        for name, image in zip(("one", "two"), images):
            r.push("lib/" + name, "latest", image)
    clear()
    return started["two"]


def fetched(f):
    """The digests of the blobs that were asked for."""
    asked = [p.rpartition("/")[2] for p, _ in f.seen if "/blobs/" in p]
    f.seen.clear()
    return sorted(asked)


def at(*names):
    return os.path.join(store(), *names)


def kept():
    return sorted("sha256:" + n for n in os.listdir(at(".layers"))) if os.path.exists(at(".layers")) else []


def digests(image, *which):
    return sorted(image.manifest["layers"][n]["digest"] for n in which)


def same(a, b):
    return os.lstat(at(*a)).st_ino == os.lstat(at(*b)).st_ino


def content(*names):
    with open(at(*names), "rb") as f:
        return f.read()


def test_images_share_layers():
    one, two = two_of_a_base()
    f = front()
    pulled(f"{f.at}/lib/one")
    assert fetched(f) == sorted([one.manifest["config"]["digest"], *digests(one, 0, 1)])
    said = setup()("image", "pull", f"{f.at}/lib/two", check=True)
    assert "1 of 2 layers were here already" in said.stderr, said.stderr
    assert fetched(f) == sorted([two.manifest["config"]["digest"], *digests(two, 1)])
    assert same(("one/rootfs/usr/share/big",), ("two/rootfs/usr/share/big",))
    # What the second hides or replaces, the first keeps; what codebox completes is each image's own.
    assert content("one/rootfs/opt/gone") == b"1" and os.listdir(at("one/rootfs/srv/old")) == ["a"]
    assert not os.path.exists(at("two/rootfs/opt/gone")) and os.listdir(at("two/rootfs/srv/old")) == ["b"]
    assert content("one/rootfs/etc/base") == b"base" and content("two/rootfs/etc/base") == b"other"
    assert not same(("one/rootfs/etc/passwd",), ("two/rootfs/etc/passwd",))
    shown = json.loads(setup()("image", "show", "two", check=True).stdout)
    assert [layer["digest"] for layer in shown["composed"]] == [d["digest"] for d in two.manifest["layers"]]
    # Sizes: what is shared is said of each, and once in the sum.
    listed = setup()("image", "ls", check=True)
    sizes = {i["name"]: i for i in setup().json("image", "ls", "--json")}
    base = shown["composed"][0]["bytes"]
    assert base > 300000 and sizes["one"]["shared_bytes"] == sizes["two"]["shared_bytes"] == base, sizes
    assert listed.stdout.count("293.0 KiB") >= 2 and "hold 293.0 KiB, which are on" in listed.stderr, listed
    # The same under another name: nothing but its manifest and configuration is asked for.
    pulled(f"{f.at}/lib/two", "--as", "three")
    assert fetched(f) == [two.manifest["config"]["digest"]]
    assert same(("three/rootfs/opt/two",), ("two/rootfs/opt/two",))
    setup()("image", "rm", "three", "one", check=True)
    assert kept() == digests(two, 0, 1) and setup()("image", "verify").returncode == 0
    assert content("two/rootfs/usr/share/big") and content("two/rootfs/opt/two") == b"2"
    assert setup().json("image", "ls", "--json")[0]["shared_bytes"] == 0
    setup()("image", "rm", "two", check=True)
    assert os.listdir(store()) == [".lock"], os.listdir(store())


def test_layers_of_images_that_are_replaced():
    one, two = two_of_a_base()
    name = f"127.0.0.1:{registry().port}/lib/"
    pulled(name + "one", "--as", "it")
    assert kept() == digests(one, 0, 1)
    pulled(name + "two", "--as", "it")
    assert kept() == digests(two, 0, 1)
    # What an interrupted command left, or what no image has, goes with the next one.
    os.mkdir(at(".layers", "0" * 64))
    os.chown(at(".layers", "0" * 64), os.stat(store()).st_uid, os.stat(store()).st_gid)
    setup()("image", "rm", "none")
    assert kept() == digests(two, 0, 1)
    # A refused image leaves the layers of others as they are, and none of its own.
    base, bad = started["two"][0], packed(Layer().file("../victim"))
    evil = Image([(base.plain[0], "gzip", base.blobs[base.manifest["layers"][0]["digest"]]),
                  packed(Layer().file("new")), bad])
    registry().push("lib/evil", "latest", evil)
    before = os.lstat(at("it/rootfs/usr/share/big")).st_nlink
    refused(name + "evil", "leads upwards")
    assert kept() == digests(two, 0, 1) and os.lstat(at("it/rootfs/usr/share/big")).st_nlink == before
    # Layers that are here already count for limits.
    refused(name + "two", "the image holds more than 300000 bytes", "--as", "x", "--max-bytes", "300000")
    refused(name + "two", "the image has more than 3 entries", "--as", "x", "--max-entries", "3")
    clear()


def test_a_layer_that_was_damaged_is_fetched_again():
    one, two = two_of_a_base()
    f = front()
    pulled(f"{f.at}/lib/one")
    good = content("one/rootfs/usr/share/big")
    with open(at("one/rootfs/usr/share/big"), "r+b") as big:
        big.write(b"changed")
    fetched(f)
    pulled(f"{f.at}/lib/two")
    assert digests(one, 0)[0] in fetched(f) and content("two/rootfs/usr/share/big") == good
    r = setup()("image", "verify", "one")
    assert r.returncode == 1 and "changed /usr/share/big" in r.stdout, r.stdout
    pulled(f"{f.at}/lib/one")
    assert same(("one/rootfs/usr/share/big",), ("two/rootfs/usr/share/big",))
    for what in ("tree/opt/gone", "layer.json"):
        os.unlink(at(".layers", digests(one, 0)[0][7:], what))
        pulled(f"{f.at}/lib/one")
        assert content("one/rootfs/opt/gone") == b"1" and kept() == sorted({*digests(one, 0, 1), *digests(two, 0, 1)})
    clear()


if __name__ == "__main__":
    run(globals())
