#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A dozen clients at once, over MCP and the control socket, with every shape of load (tests/bench/load.py): each answer
is right, belongs to its session, and is complete; and afterwards nothing is left. A fixed number of cells, no times."""
import argparse
import asyncio
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "lib"), os.path.join(HERE, "..", "bench")]
import load  # noqa: E402
import peers  # noqa: E402
from cbxtest import Box, Skip, run, wait_until  # noqa: E402

box = Box(CODEBOX_POOL_IDLE="1")


def witness():
    image = box.image("python-minimal", "host", "python")
    box("run", "--image", image, "-c", "pass", check=True)
    w = load.Witness(box)
    assert wait_until(lambda: w.look()["sessions"] == 0)
    return image, w, w.stable()


def test_a_dozen_clients_get_their_own_answers():
    image, w, before = witness()
    args = argparse.Namespace(clients=12, sessions=16, cells=16, rate=20.0, seed=7)

    async def everything():
        clients, made = await load.connect(box, image, args.clients, args.sessions, args.seed)
        assert made == args.sessions, made
        for shape in load.SHAPES:
            tally = await load.drive(clients, shape, args.cells, args.rate)
            assert not load.problems(tally), load.problems(tally)
            assert sum(map(len, tally.seconds.values())) == args.clients * args.cells
        # Chance may have omitted a kind.
        tally = load.Tally()
        for kind in load.KINDS:
            await asyncio.gather(*(c.cell(tally, kind) for c in clients[:4]))
        assert not load.problems(tally), load.problems(tally)
        await load.disconnect(clients)

    asyncio.run(everything())
    assert not load.more(before, w.settle(before))


def test_sessions_with_the_libraries_and_a_stream_of_others():
    image, w, before = witness()

    async def everything():
        clients, made = await load.connect(box, image, 2, 8, 7, "import json\n", "small")
        for shape in load.SHAPES:
            tally = await load.drive(clients, shape, 16, 50.0)
            assert not load.problems(tally), load.problems(tally)
            assert [(kind, len(v)) for kind, v in tally.seconds.items()] == [("small", 32)], tally.seconds
        tally = load.Tally()
        await load.stream(clients, image, 50, 0.6, tally)
        assert not load.problems(tally), load.problems(tally)
        assert len(tally.seconds["both"]) == 30 and len(tally.seconds["close"]) == 30, tally.seconds
        memory = load.memory_of(box, made, True)
        assert memory["processes"] > 2 * made and memory["supervisor_rss_kib"] > 0, memory
        await load.disconnect(clients)

    asyncio.run(everything())
    assert not load.more(before, w.settle(before))


def test_what_codebox_is_measured_beside_has_the_images_own_files():
    """The image's Python outside of a container: the machine need not have what the libraries look for at a fixed place."""
    image = peers.Image(box.image("python"), box)
    if "matplotlib.pyplot" not in image.stack:
        raise Skip("the image has no matplotlib")
    code = "import matplotlib as m, matplotlib.pyplot; print(m.__file__, m.get_data_path(), m.matplotlib_fname(), sep='\\n')"
    for path in peers.run([*image.python, "-c", code], image.env).stdout.decode().split():
        real = os.path.realpath(path)
        assert not path.startswith("/usr/") and not real.startswith(("/usr/", "/etc/")) and os.path.exists(real), (path, real)


def test_what_stays_would_be_noticed():
    image, w, before = witness()
    box("run", "--image", image, "--session", "stays", "-c", "pass", check=True)
    left = load.more(before, w.look())
    assert all(any(text.startswith(k) for text in left) for k in ("processes", "descriptors", "sessions")), left
    with open(os.path.join(box.dir, "state", "left"), "w"):
        pass
    assert any(text.startswith("files") for text in load.more(before, w.look()))
    os.unlink(os.path.join(box.dir, "state", "left"))
    box("session", "rm", "stays", check=True)
    assert not load.more(before, w.settle(before))


def test_a_wrong_answer_would_be_noticed():
    image, w, before = witness()

    async def tampered():
        clients, _ = await load.connect(box, image, 2, 2, 7)
        one, other = clients
        one.sessions, other.sessions = other.sessions, one.sessions  # each counts in the other's session now
        one.counts, other.counts = other.counts, one.counts
        tally = load.Tally()
        await one.cell(tally, "1 ms")
        assert not tally.wrong, tally.wrong
        one.counts[one.sessions[0]] += 1  # a cell that never ran
        await one.cell(tally, "1 ms")
        assert len(tally.wrong) == 1, tally.wrong
        await load.disconnect(clients)

    asyncio.run(tampered())


def test_nothing_is_left_behind():
    image, w, _ = witness()
    left = w.end()
    assert left == [], left


if __name__ == "__main__":
    run(globals())
