#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""codebox image import of OCI layouts and of what docker save writes, by the command line: what is honoured, what is
refused, and that a refused one leaves nothing. codebox image export, and who reads that."""
import gzip
import io
import json
import os
import shutil
import struct
import subprocess
import sys
import tarfile
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
from cbxtest import CODEBOX, Box, Skip, directory, run  # noqa: E402
from ociimage import ARCH, Image, Layer, digest, layout, python_layers, saved, write_dir, write_tar  # noqa: E402

top = os.path.join(directory, "images")
os.makedirs(top, exist_ok=True)
box = Box(CODEBOX_DATA_DIR=os.path.join(top, "data"))
store = os.path.join(top, "data", "images")
OTHER = "arm64" if ARCH != "arm64" else "amd64"
HELLO = Layer().file("usr/bin/hello", b"hello\n", 0o755).bytes()


def path(name):
    return os.path.join(top, name)


def listing():
    """Every name in the store, and what each image is."""
    found = {}
    for at, dirs, names in os.walk(store):
        for name in dirs + names:
            full = os.path.join(at, name)
            st = os.lstat(full)
            found[full] = (st.st_mode, st.st_size, st.st_mtime_ns if not os.path.isdir(full) else 0)
    found.pop(os.path.join(store, ".lock"), None)
    return found


def take(what, *args, name="it"):
    """Import, which must succeed: its manifest, the path of its root, and what was said."""
    r = box("image", "import", "--force", *args, name, what)
    assert r.returncode == 0, r.stderr
    assert box("image", "verify", name).returncode == 0
    shown = json.loads(box("image", "show", name, check=True).stdout)
    assert not [n for n in os.listdir(os.path.join(store, name)) if n not in ("manifest.json", "files.txt", "rootfs")]
    return shown, os.path.join(store, name, "rootfs"), r.stderr


def refuse(what, says, *args):
    before = listing()
    r = box("image", "import", "--force", *args, "it", what)
    assert r.returncode == 1, f"{r.returncode}: {r.stdout}{r.stderr}"
    assert says in r.stderr, f"{says!r} is not in: {r.stderr}"
    assert "\x1b" not in r.stderr
    after = listing()
    assert after == before, f"left behind: {set(after) ^ set(before)}"


def read(root, name):
    with open(os.path.join(root, name), "rb") as f:
        return f.read()


def zstd(data):
    if shutil.which("zstd"):
        return subprocess.run(["zstd", "-q", "-c"], input=data, capture_output=True, check=True).stdout
    # A frame of raw blocks: what any decoder must read.
    out = struct.pack("<IB", 0xFD2FB528, 0xA0) + struct.pack("<I", len(data))
    for at in range(0, len(data), 1 << 16):
        piece = data[at:at + (1 << 16)]
        last = at + (1 << 16) >= len(data)
        out += struct.pack("<I", len(piece) << 3 | last)[:3] + piece
    return out


def three_layers():
    one = Layer().file("etc/base", b"1").file("opt/gone", b"1").file("opt/stays", b"1").file("srv/old/a", b"1").bytes()
    two = Layer().file("opt/.wh.gone", b"").file("srv/old/.wh..wh..opq", b"").file("srv/old/b", b"2").bytes()
    three = Layer().file("etc/base", b"3").link("usr/bin/hi", "hello").file("usr/bin/hello", b"3", 0o755).bytes()
    config = {"Env": ["PATH=/opt/bin:/usr/bin:/bin", "GREETING=good morning=x", "HOME=/root", "HOSTNAME=abc",
                      "bad-name=1", "LINES_OF=a\nb"],
              "User": "app:app", "WorkingDir": "/srv/app", "Entrypoint": ["/usr/bin/hello"], "Cmd": ["--loud", "you"]}
    return Image([(one, "gzip"), (two, ""), (three, "zstd", zstd(three))], config)


def check_three(shown, root, form):
    assert read(root, "etc/base") == b"3" and read(root, "opt/stays") == b"1"
    assert not os.path.lexists(os.path.join(root, "opt/gone")) and os.listdir(os.path.join(root, "srv/old")) == ["b"]
    assert os.readlink(os.path.join(root, "usr/bin/hi")) == "hello"
    assert shown["environment"]["GREETING"] == "good morning=x" and shown["environment"]["LANG"] == "C.UTF-8"
    assert shown["environment"]["PATH"] == "/opt/bin:/usr/bin:/bin" and shown["environment"]["LINES_OF"] == "a\nb"
    assert not {"HOME", "HOSTNAME", "bad-name"} & set(shown["environment"]), shown["environment"]
    assert shown["config"] == {"user": "app:app", "working_dir": "/srv/app", "entrypoint": ["/usr/bin/hello"],
                               "command": ["--loud", "you"]}, shown["config"]
    assert shown["origin"]["format"] == form and shown["origin"]["platform"].startswith("linux/" + ARCH)
    assert "3 layers" in shown["note"] and "Omitted: 3 variables" in shown["note"], shown["note"]


def test_layout_as_a_directory():
    image = three_layers()
    shown, root, said = take(write_dir(layout([image], ["v1"]), path("three")))
    check_three(shown, root, "oci")
    assert shown["origin"]["digest"] == image.top["digest"] and shown["origin"]["reference"] == "v1"
    assert "has programs only" in said, said


def test_layout_as_an_archive():
    files = layout([three_layers()], nested=2)
    shown, root, _ = take(write_tar(files, path("three.tar")))
    check_three(shown, root, "oci")
    packed = path("three.tar.gz")
    with open(path("three.tar"), "rb") as f, gzip.open(packed, "wb") as out:
        out.write(f.read())
    again, root, _ = take(packed, name="again")
    assert again["digest"] == shown["digest"]


def test_docker_save():
    image = three_layers()
    shown, root, _ = take(write_tar(saved([image], ["example.org/three:v1"]), path("saved.tar")))
    check_three(shown, root, "docker")
    assert shown["origin"]["reference"] == "example.org/three:v1"
    # Versions before 1.10 linked layers that were the same.
    files = saved([Image([(HELLO, ""), (HELLO, "")])])
    del files["01/layer.tar"]
    shown, root, _ = take(write_tar(files, path("linked.tar"), [("01/layer.tar", "../00/layer.tar")]))
    assert read(root, "usr/bin/hello") == b"hello\n"


def test_the_platform_is_chosen():
    mine = Image([(Layer().file("mine").bytes(), "gzip")])
    other = Image([(Layer().file("other").bytes(), "")], arch=OTHER)
    both = write_dir(layout([other, mine], nested=1), path("both"))
    assert os.path.exists(os.path.join(take(both)[1], "mine"))
    shown, root, _ = take(both, "--platform", "linux/" + OTHER)
    assert os.path.exists(os.path.join(root, "other")) and shown["origin"]["platform"] == "linux/" + OTHER
    refuse(both, "there is no image for linux/s390x", "--platform", "s390x")
    refuse(write_dir(layout([other]), path("other")), "there is no image for linux/" + ARCH)
    lies = Image([(HELLO, "")], arch=OTHER)
    lies.top.pop("platform")
    refuse(write_dir(layout([lies]), path("lies")), f"for linux/{OTHER}")
    v6, v7 = (Image([(Layer().file(v).bytes(), "")], arch="arm", variant=v) for v in ("v6", "v7"))
    _, root, _ = take(write_dir(layout([v6, v7], nested=1), path("arm")), "--platform", "linux/arm/v7")
    assert os.path.exists(os.path.join(root, "v7"))
    for bad in ("windows/amd64", "linux/", "a/b/c/d", "", "linux/" + "x" * 80):
        refuse(both, "is not a platform", "--platform", bad)


def test_one_of_several_by_its_tag():
    a, b = Image([(Layer().file("a").bytes(), "")]), Image([(Layer().file("b").bytes(), "")])
    for what in (write_dir(layout([a, b], ["a", "b"]), path("two")),
                 write_tar(saved([a, b], ["a", "b"]), path("two.tar"))):
        refuse(what, "several images in it (a, b); choose one with --tag")
        assert os.path.exists(os.path.join(take(what, "--tag", "b")[1], "b"))
        refuse(what, 'no image "c" in it (there are: a, b)', "--tag", "c")
    refuse(write_tar({"usr/x": b"x"}, path("plain.tar")), "is a root file system", "--tag", "a")


def test_what_was_changed_is_refused():
    image = three_layers()
    files = layout([image])
    for n, d in enumerate([image.top, image.manifest["config"], *image.manifest["layers"]]):
        name = "blobs/sha256/" + d["digest"][7:]
        for how in (lambda data: data[:-1] + bytes([data[-1] ^ 1]), lambda data: data + b"\n", lambda data: data[:-7]):
            refuse(write_dir({**files, name: how(files[name])}, path("changed")), "is not what its digest says")
            shutil.rmtree(path("changed"))
        missing = {k: v for k, v in files.items() if k != name}
        refuse(write_tar(missing, path("missing.tar")), "No such file")
    files = saved([image])
    refuse(write_tar({**files, "00/layer.tar": HELLO}, path("changed.tar")), "is not what its digest says")
    config = next(n for n in files if n.endswith(".json") and n != "manifest.json")
    refuse(write_tar({**files, config: files[config].replace(b"app:app", b"root:me")}, path("changed.tar")),
           "is not what its digest says")


def test_images_that_are_imported_share_layers():
    base, own = Layer().file("usr/share/it", b"base").file("a", b"1").bytes(), Layer().file("a", b"2").bytes()
    what = write_tar(layout([Image([(base, ""), (own, "")])]), path("shares.tar"))
    take(what, name="one")
    for n, plain in enumerate((base, own)):
        with open(path(f"shares{n}.tar"), "wb") as f:
            f.write(plain)
    # Another archive, a directory, docker save: a layer is known by its bytes.
    _, _, said = take(write_dir(layout([Image([(base, "")])]), path("shares")), name="two")
    assert "1 of 1 layers were here already" in said, said
    take(write_tar(saved([Image([(base, "")])]), path("shares-saved.tar")), name="three")
    box("image", "import", "four", path("shares0.tar"), path("shares1.tar"), check=True)
    roots = [os.path.join(store, n, "rootfs") for n in ("one", "two", "three", "four")]
    assert len({os.stat(r + "/usr/share/it").st_ino for r in roots}) == 1
    assert [read(r, "a") for r in roots] == [b"2", b"1", b"1", b"2"]
    layers = [os.path.join(store, ".layers", digest(plain)[7:]) for plain in (base, own)]
    for n in ("one", "two", "three"):
        box("image", "rm", n, check=True)
        assert all(os.path.isdir(layer) for layer in layers)
    assert box("image", "verify", "four").returncode == 0
    box("image", "rm", "four", check=True)
    assert not any(os.path.exists(layer) for layer in layers)


def manifest_with(**members):
    image = Image([(HELLO, "")])
    image.manifest.update(members)
    data = json.dumps(image.manifest).encode()
    image.top.update(image.blob(data, image.top["mediaType"]))
    return write_tar(layout([image]), path("with.tar"))


def test_documents_that_make_no_sense():
    image = Image([(HELLO, "")])
    files = layout([image])
    for text in (b"", b"{", b"[]", b'{"manifests":{}}', b'{"manifests":[]}', b'{"manifests":[{}]}', b"\xff" * 100,
                 b'{"manifests":[' + b"[" * 5000,
                 b'{"manifests":[{"digest":"sha256:../../../../etc/passwd","size":1}]}',
                 b'{"manifests":[{"digest":"sha512:' + b"0" * 128 + b'","size":1}]}', b'{"a":1,"a":2}',
                 json.dumps({"manifests": [image.top] * 1001}).encode(), b'"' + b"x" * (5 << 20) + b'"'):
        refuse(write_tar({**files, "index.json": text}, path("bad.tar")), "codebox image: ")
    for members in ({"layers": []}, {"layers": "x"}, {"layers": [1]}, {"config": None}, {"mediaType": "text/plain"},
                    {"layers": [dict(image.manifest["layers"][0], mediaType="application/x-secret+encrypted")]},
                    {"layers": [dict(image.manifest["layers"][0], digest="sha256:" + "A" * 64)]},
                    {"layers": [dict(image.manifest["layers"][0], size=-1)]},
                    {"layers": image.manifest["layers"] * 2}):
        refuse(manifest_with(**members), "the image")
    for text in (b"{}", b"[]", b"[1]", b'[{"Config":"../x","Layers":["a"]}]', b'[{"Config":"c.json","Layers":[]}]',
                 b'[{"Config":"c.json","Layers":["../../etc/passwd"]}]',
                 b'[{"Config":"c.json","Layers":["/etc/passwd"]}]',
                 b'[{"Config":"c.json","Layers":["c.json"]}]'):
        refuse(write_tar({"manifest.json": text, "c.json": b"{}"}, path("bad.tar")), "codebox image: ")
    # Indexes of indexes, and more of them than anybody needs.
    refuse(write_tar(layout([image], nested=3), path("deep.tar")), "more than 3 levels")
    refuse(write_dir({"a": b"b"}, path("nothing")), "it is not an image")


def test_too_many_layers():
    refuse(manifest_with(layers=Image([(HELLO, "")]).manifest["layers"] * 129), "1 to 128 layers")
    small = [(Layer().file(f"l/{n}").bytes(), "") for n in range(128)]
    _, root, _ = take(write_tar(layout([Image(small)]), path("most.tar")))
    assert len(os.listdir(os.path.join(root, "l"))) == 128
    data = json.dumps({"manifests": [{"digest": digest(b""), "size": 1}] * 1001}).encode()
    refuse(write_tar({**layout([Image([(HELLO, "")])]), "index.json": data}, path("bad.tar")), "too long a one")


def hostile(layer, says, *args, how="gzip", before=()):
    image = Image([*((b, "") for b in before), (layer, how)])
    refuse(write_tar(layout([image]), path("hostile.tar")), says, *args)
    refuse(write_tar(saved([image]), path("hostile.tar")), says, *args)


def test_layers_that_lead_out():
    victim = path("victim")
    with open(victim, "w") as f:
        f.write("untouched")
    hostile(Layer().file("../victim").bytes(), "leads upwards")
    hostile(Layer().file(victim).bytes(), "absolute name")
    hostile(Layer().link("esc", top).file("esc/victim").bytes(), "symbolic link")
    hostile(Layer().file("esc/victim").bytes(), "symbolic link", before=[Layer().link("esc", top).bytes()])
    hostile(Layer().add("passwd", tarfile.LNKTYPE, link="/etc/passwd").bytes(), "hard link")
    hostile(Layer().file("esc/.wh.victim", b"").bytes(), "symbolic link", before=[Layer().link("esc", top).bytes()])
    for name in (".wh...", ".wh..", ".wh.", "d/.wh..."):
        hostile(Layer().file(name, b"").bytes(), "hides nothing", before=[Layer().file("d/x").bytes()])
    # Blobs and documents that are links out of what was given.
    image = Image([(HELLO, "")])
    files = layout([image])
    for name in ("index.json", *(n for n in files if n.startswith("blobs"))):
        where = write_dir(files, path("links"))
        shutil.copyfile(os.path.join(where, name), path("elsewhere"))
        os.unlink(os.path.join(where, name))
        os.symlink(path("elsewhere"), os.path.join(where, name))
        refuse(where, "codebox image: ")
        shutil.rmtree(where)
    files = saved([image])
    del files["00/layer.tar"]
    with open(path("elsewhere"), "wb") as f:
        f.write(HELLO)
    refuse(write_tar(files, path("out.tar"), [("00/layer.tar", path("elsewhere"))]), "layer 1 of the image")
    refuse(write_tar(files, path("out.tar"), [("00/layer.tar", "../../../../../../" + path("elsewhere"))]), "layer 1")
    with open(victim) as f:
        assert f.read() == "untouched"


def test_devices_and_special_bits_in_layers():
    layer = Layer().file("usr/bin/su", b"su", 0o6755)
    for name, kind in (("c", tarfile.CHRTYPE), ("b", tarfile.BLKTYPE), ("p", tarfile.FIFOTYPE)):
        layer.add("dev/" + name, kind)
    _, root, said = take(write_tar(layout([Image([(layer.bytes(), "gzip")])]), path("special.tar")))
    assert os.listdir(os.path.join(root, "dev")) == []
    assert os.stat(os.path.join(root, "usr/bin/su")).st_mode & 0o7777 == 0o755
    assert "Omitted 3 devices" in said and "special mode bits of 1 entries" in said, said


def test_names_that_look_alike():
    """No name is taken for another: upper and lower case, composed and decomposed, look-alikes, invalid UTF-8."""
    names = ["README", "readme", "ReadMe", "caf\u00e9", "cafe\u0301", "\u212bngstrom", "\u00c5ngstrom", "a\u200bb",
             "ab", "K", "\u212a"]
    layer = Layer()
    for name in names:
        layer.file("n/" + name, name.encode())
    _, root, _ = take(write_tar(layout([Image([(layer.bytes(), "gzip")])]), path("alike.tar")))
    assert sorted(os.listdir(os.path.join(root, "n"))) == sorted(names)
    assert all(read(root, "n/" + n) == n.encode() for n in names)
    # A link under one of the names is not another one's directory.
    hostile(Layer().link("Esc", top).file("esc/ok").link("esc2", top).file("esc2/victim").bytes(), "symbolic link")


def header(name, size=0, kind=tarfile.REGTYPE):
    info = tarfile.TarInfo(name)
    info.size, info.type = size, kind
    return info.tobuf(tarfile.USTAR_FORMAT)


def test_ten_gigabytes_of_zeros():
    squeeze = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = squeeze.compress(header("zeros", 1 << 32)) + squeeze.flush(zlib.Z_FULL_FLUSH)
    # The same compressed megabytes over and over, as one stream.
    block = zlib.compressobj(1, zlib.DEFLATED, -15)
    packed += (block.compress(bytes(64 << 20)) + block.flush(zlib.Z_FULL_FLUSH)) * 160
    image = Image([(HELLO, ""), (b"", "gzip", packed)])
    refuse(write_tar(layout([image]), path("zeros.tar")), "looks like a bomb")
    claims = header("a", 3 << 30) + bytes(1024)
    hostile(claims, "cannot be read", how="")
    sparse = Layer()
    info = tarfile.TarInfo("GNUSparseFile.0/s")
    info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "s",
                        "GNU.sparse.realsize": str(10 << 30)}
    info.size = 512
    sparse.tar.addfile(info, io.BytesIO(b"0\n".ljust(512, b"\0")))
    hostile(sparse.bytes(), "10737418240 bytes")


def test_endless_gzip():
    """Members without end, and zeros behind the archive's end: what is read is bounded."""
    member = gzip.compress(bytes(1 << 20), 9)
    many = gzip.compress(header("f", 4 << 30)) + member * 4096
    refuse(write_tar(layout([Image([(b"", "gzip", many)])]), path("endless.tar")), "looks like a bomb")
    trailing = gzip.compress(HELLO) + member * 4096
    files = layout([Image([(HELLO, "gzip", trailing)])])
    _, root, _ = take(write_tar(files, path("trailing.tar")))
    assert read(root, "usr/bin/hello") == b"hello\n"
    empty = gzip.compress(b"", 9)
    refuse(write_tar(layout([Image([(b"", "gzip", empty * 100000)])]), path("empty.tar")), "codebox image: ")


def test_a_million_entries():
    once = header("./", kind=tarfile.DIRTYPE)
    layer = gzip.compress(once * 1000000, 1)
    # Compressed, it is a bomb before it is a million; as it is, the entries are counted.
    refuse(write_tar(layout([Image([(b"", "gzip", layer)])]), path("million.tar")), "codebox image: ")
    little = zlib.compressobj(1, zlib.DEFLATED, 31, 8, zlib.Z_HUFFMAN_ONLY)
    layer = b"".join(little.compress(once * 1000) for _ in range(1000)) + little.flush()
    refuse(write_dir(layout([Image([(b"", "gzip", layer)])]), path("million")), "more than 500000 entries")
    layers = [(Layer().file(f"a{n}").file(f"b{n}").bytes(), "") for n in range(10)]
    refuse(write_tar(layout([Image(layers)]), path("many.tar")), "more than 19 entries", "--max-entries", "19")


def test_layer_bombs():
    """Each layer is within the limits, and all of them together are not; what a whiteout removed counts, too."""
    part = Layer().file("big", os.urandom(1 << 20)).bytes()
    gone = Layer().file(".wh.big", b"").bytes()
    layers = [(part, "gzip"), (gone, "")] * 6
    what = write_tar(layout([Image(layers)]), path("bombs.tar"))
    refuse(what, "holds more than 5242880 bytes", "--max-bytes", "5M")
    assert not os.path.exists(os.path.join(take(what, "--max-bytes", "16M")[1], "big"))


def test_environments_that_are_too_large():
    for env in (["A%d=x" % n for n in range(5000)], ["A=" + "x" * (3 << 20)]):
        refuse(write_tar(layout([Image([(HELLO, "")], {"Env": env})]), path("env.tar")), "environment")
    odd = {"Env": ["A", 1, None, "=x", "B=1", "CODEBOX_X=1"], "User": 5, "WorkingDir": ["x"], "Entrypoint": "sh",
           "Cmd": [1, "two"]}
    shown, _, _ = take(write_tar(layout([Image([(HELLO, "")], odd)]), path("odd.tar")))
    assert shown["environment"].keys() == {"LANG", "PATH", "B"} and shown["config"] == {"command": ["two"]}, shown


def test_an_image_like_debian_slim_runs_cells():
    config = {"Env": ["PATH=/usr/bin:/bin", "GREETING=hello from the image"], "User": "nobody", "WorkingDir": "/srv"}
    write_tar(layout([Image(python_layers(), config)], ["example.org/slim:v1"]), path("slim.tar"))
    take(path("slim.tar"), name="slim")
    os.unlink(path("slim.tar"))
    r = box("run", "--image", "slim", "-c",
            "import os, sys; print(os.environ['GREETING'], sys.version_info[0], os.getuid())")
    assert r.returncode == 0 and r.stdout == "hello from the image 3 1000\n", (r.stdout, r.stderr)


def test_an_image_is_found_by_its_name_elsewhere():
    if "slim" not in box.images():
        raise Skip("the image that the test before this one makes is not there")
    r = box("run", "--image", "example.org/slim:v1", "-c", "import os; print(os.environ['GREETING'])")
    assert r.returncode == 0 and r.stdout == "hello from the image\n", (r.stdout, r.stderr)
    for name, says in (("example.org/slim:v2", '"codebox image pull example.org/slim:v2" makes it'),
                       ("example.org/slim", "no image of example.org/slim:latest"),
                       ("slim:v1", "docker.io/library/slim:v1"),
                       ("a b", "is not the name of an image"), ("../slim", "is not the name of an image")):
        r = box("run", "--image", name, "-c", "1")
        assert r.returncode == 2 and says in r.stderr, (name, r.stderr)
    # As code-sandbox-mcp is given its image.
    lines = [{"jsonrpc": "2.0", "id": 1, "method": "initialize",
              "params": {"protocolVersion": "2025-06-18", "capabilities": {},
                         "clientInfo": {"name": "t", "version": "1"}}},
             {"jsonrpc": "2.0", "method": "notifications/initialized"},
             {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
                 "name": "run_python_code", "arguments": {"code": "import os; print(os.environ['GREETING'])"}}}]
    process = subprocess.Popen([CODEBOX, "mcp", "--profile", "code-sandbox"], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, env={**box.env, "CONTAINER_IMAGE": "example.org/slim:v1",
                                                            "CONTAINER_LANGUAGE": "python"})
    process.stdin.write(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    process.stdin.flush()
    answers = [json.loads(process.stdout.readline()) for _ in range(2)]
    process.stdin.close()
    process.wait()
    assert answers[1]["result"]["content"][0]["text"] == "hello from the image", answers


def test_an_image_without_an_interpreter():
    """One that is like a distroless one: a program and its libraries, and no shell."""
    shown, root, said = take(write_tar(layout([Image([(HELLO, "gzip")])]), path("none.tar")), name="none")
    assert shown["interpreters"] == {} and "has programs only" in said, said
    r = box("run", "--image", "none", "-c", "1")
    assert r.returncode != 0 and 'cannot run "python": it has no interpreter' in r.stderr, r.stderr
    r = box("image", "ls", check=True)
    assert "none " in r.stdout


def export(name, what, *args, **env):
    if os.path.exists(path(what)):
        os.unlink(path(what))
    subprocess.run([CODEBOX, "image", "export", name, path(what), *args], env={**box.env, **env}, check=True,
                   capture_output=True)
    with open(path(what), "rb") as f:
        return f.read()


def exportable():
    if "out" not in box.images():
        layer = Layer().file("usr/bin/hello", b"hello\n", 0o755).link("usr/bin/hi", "hello")
        layer.file("etc/" + "n" * 200, b"n").file("etc/caf\u00e9", b"c").file("etc/empty", b"")
        layer.file("home/user/mine").file("tmp/x")
        config = {"Env": ["A=1"], "User": "app", "WorkingDir": "/srv", "Entrypoint": ["/usr/bin/hello"], "Cmd": ["x"]}
        take(write_dir(layout([Image([(layer.bytes(), "")], config)]), path("in")), name="out")
    return "out"


def test_exported_and_imported_it_is_the_same():
    data = export(exportable(), "out.tar")
    before = json.loads(box("image", "show", "out", check=True).stdout)
    after, _, _ = take(path("out.tar"), name="back")
    for key in ("digest", "files", "bytes", "environment", "config"):
        assert after[key] == before[key], key
    assert after["origin"]["reference"] == "localhost/out:latest"
    # The same bytes: again, through a pipe, and of what was imported, which is named in it.
    assert export("out", "again.tar") == data
    r = subprocess.run([CODEBOX, "image", "export", "out", "-"], env=box.env, capture_output=True, check=True)
    assert r.stdout == data
    assert export("back", "back.tar", "--tag", "localhost/out:latest") == data
    assert export("out", "named.tar", "--tag", "example.org/x:v2") != data
    assert take(path("named.tar"), name="back")[0]["origin"]["reference"] == "example.org/x:v2"


def test_owners_modes_and_times_of_an_export():
    export(exportable(), "out.tar", SOURCE_DATE_EPOCH="1000000000")
    with tarfile.open(path("out.tar")) as tar:
        saved_as = json.load(tar.extractfile("manifest.json"))[0]
        config = json.load(tar.extractfile(saved_as["Config"]))
        layer = tarfile.open(fileobj=tar.extractfile(saved_as["Layers"][0]))
        inside = {m.name: m for m in layer}
    assert config["created"] == "2001-09-09T01:46:40Z" and config["architecture"] == ARCH
    assert {m.uid for n, m in inside.items() if not n.startswith(("home/user", "workspace"))} == {0}
    assert inside["home/user"].uid == inside["home/user/mine"].gid == inside["workspace"].uid == 1000
    assert inside["tmp"].mode == inside["var/tmp"].mode == 0o1777 and inside["etc"].mode == 0o755
    assert inside["usr/bin/hello"].mtime == 1000000000 and inside["usr/bin"].mtime == 0
    assert list(inside) == sorted(inside, key=lambda n: n.split("/")), "not sorted"
    assert inside["usr/bin/hi"].linkname == "hello" and "etc/" + "n" * 200 in inside and "etc/caf\u00e9" in inside


def test_others_read_an_export():
    """The programs themselves: skopeo, which also makes another layout of it, and podman where it runs."""
    if not shutil.which("skopeo"):
        raise Skip("there is no skopeo")
    export(exportable(), "out.tar")
    for form in ("docker-archive", "oci-archive"):
        r = subprocess.run(["skopeo", "inspect", "--config", f"{form}:{path('out.tar')}"], capture_output=True,
                           text=True)
        assert r.returncode == 0, r.stderr
        said = json.loads(r.stdout)["config"]
        assert said["User"] == "app" and said["WorkingDir"] == "/srv" and "A=1" in said["Env"], said
        shutil.rmtree(path("copied"), ignore_errors=True)
        r = subprocess.run(["skopeo", "--insecure-policy", "copy", "--dest-compress", f"{form}:{path('out.tar')}",
                            f"oci:{path('copied')}:t"], capture_output=True, text=True)
        assert r.returncode == 0, r.stderr
        assert take(path("copied"), name="back")[0]["digest"] == \
            json.loads(box("image", "show", "out", check=True).stdout)["digest"]
    if not shutil.which("podman"):
        return
    podman = ["podman", "--root", path("podman"), "--runroot", path("podman-run"), "--storage-driver", "vfs"]
    if subprocess.run([*podman, "info"], capture_output=True).returncode:
        return
    r = subprocess.run([*podman, "load", "-i", path("out.tar")], capture_output=True, text=True)
    assert r.returncode == 0 and "localhost/out:latest" in r.stdout, r.stdout + r.stderr
    subprocess.run([*podman, "unshare", "rm", "-rf", path("podman"), path("podman-run")], capture_output=True)


def test_exports_that_cannot_be():
    export(exportable(), "there.tar")
    size = os.path.getsize(path("there.tar"))
    for args, says in ((("out", path("there.tar")), "use --force"), (("nil", path("x.tar")), 'no image "nil"'),
                       (("../out", path("x.tar")), "is not the name of an image"),
                       (("out", path("no/such/x.tar")), "No such file"), (("out", "/dev/full"), "use --force"),
                       (("out", "/dev/full", "--force"), "No space left"),
                       (("out", path("x.tar"), "--tag", "a b"), "is not a name")):
        r = box("image", "export", *args)
        assert r.returncode == 1 and says in r.stderr, (args, r.stderr)
        if os.getuid() == 0 and "is left, and is not an archive" in r.stderr:  # root has given itself up by then
            assert os.path.getsize(path("x.tar")) == 0
            os.unlink(path("x.tar"))
        assert not os.path.exists(path("x.tar"))
    assert os.path.getsize(path("there.tar")) == size
    assert box("image", "export", "out").returncode == 2
    box("image", "build", "host", "--no-compile", check=True)
    r = box("image", "export", "host", path("x.tar"))
    assert r.returncode == 1 and "this machine's own /usr" in r.stderr, r.stderr


def test_what_is_given_is_checked():
    image = write_dir(layout([Image([(HELLO, "")])]), path("given"))
    refuse(path("given-not"), "No such file")
    for args, status in ((("x",), 2), (("--tag",), 2), (("x", image, image), 1), (("--platform", "", "x", image), 1),
                         (("../x", image), 1)):
        before = listing()
        r = box("image", "import", *args)
        assert r.returncode == status and listing() == before, (args, r.returncode, r.stderr)
    box("image", "rm", "it", check=True)
    r = box("image", "import", "it", image, check=True)
    r = box("image", "import", "it", image)
    assert r.returncode == 1 and "use --force" in r.stderr


if __name__ == "__main__":
    run(globals())
