#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a notebook would show as HTML, JSON and drawings, as a model gets it: readable, in order, updated in its place."""
import sys

sys.dont_write_bytecode = True

import common

common.enter_venv()

import warnings

import anyio
import jsonschema
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from common import PATIENCE, Tap

warnings.filterwarnings("ignore", message="ping is removed")
tap = Tap()
FIGURE = "import matplotlib.pyplot as plt\n"
MADE = """
for i in range(3):
    print('before', i)
    plt.plot([i, 1]); plt.show()
    !echo from a program {i}
print('after')
"""


def connect():
    return Client(StdioServerParameters(command=common.CODEBOX, args=["mcp"], env=common.SERVER_ENV), mode="legacy",
                  read_timeout_seconds=PATIENCE)


def text_of(r):
    return "\n".join(b.text for b in r.content if b.type == "text")


async def html(run):
    r = await run("import pandas as pd\n"
                  "df = pd.DataFrame({'who': ['a|b', 'Öz & Co'], 'n': [1.5, 22]})\n"
                  "df.style.format({'n': '{:.2f}'}).set_caption('People')")
    text = text_of(r)
    assert "| who | n |" in text.replace("|  | who", "| who"), text
    assert "|---|---|---|" in text and "| a\\|b | 1.50 |" in text and "| Öz & Co | 22.00 |" in text, text
    assert "People" in text and "Styler" not in text and "<" not in text and "color" not in text, text
    d = r.structured_content["displays"]
    assert len(d) == 1 and d[0]["is_result"] and "<table" in d[0]["data"]["text/html"], d
    r = await run("from IPython.display import HTML, JSON, Markdown, Latex, SVG, display\n"
                  "display(HTML('<h2>Sum</h2><p>a &lt; b&nbsp;&#233;</p><script>alert(1)</script><ul><li>one<li>two</ul>'))")
    text = text_of(r)
    assert "## Sum\na < b é\n- one\n- two" in text and "alert" not in text and "IPython" not in text, text
    assert "alert(1)" in r.structured_content["displays"][0]["data"]["text/html"]
    r = await run("%%html\n<b>bold</b> words<br>next")
    assert "bold words\nnext" in text_of(r), r
    r = await run("HTML('<script>' + 'x' * 300000 + '</script>')")
    assert r.structured_content["displays"][0]["omitted"] == {"text/html": 300017}, r.structured_content["displays"]


async def other_types(run):
    r = await run("display(JSON({'a': [1, None]}))\ndisplay(Markdown('**strong**'))\ndisplay(Latex('$x^2$'))\n"
                  "SVG('<svg xmlns=\"http://www.w3.org/2000/svg\"><text>label</text></svg>')")
    text, shown = text_of(r), r.structured_content["displays"]
    places = [text.index(s) for s in ('{"a": [1, null]}', "**strong**", "$x^2$", "[image/svg+xml", "label")]
    assert places == sorted(places) and "<IPython" not in text, text
    assert [sorted(set(d["data"]) - {"text/plain"}) for d in shown] == [
        ["application/json"], ["text/markdown"], ["text/latex"], ["image/svg+xml"]], shown
    assert "displays" not in (await run("6 * 7")).structured_content


async def order(run):
    r = await run(FIGURE + MADE)
    shape = []
    for b in r.content:
        if b.type == "image":
            shape.append("IMAGE")
        else:
            shape += [line for line in b.text.splitlines() if line and not line.startswith("[")]
    expected = []
    for i in range(3):
        expected += [f"before {i}", "IMAGE", f"from a program {i}"]
    assert shape == expected + ["after"], shape
    r = await run("print('first'); display(Markdown('second')); print('third'); 'fourth'")
    text = text_of(r)
    assert text.splitlines()[:4] == ["first", "second", "third", "'fourth'"], text
    r = await run("print('x' * 30000); display(Markdown('MIDDLE')); print('y' * 30000); display(Markdown('END'))")
    text = text_of(r)
    assert text.startswith("x" * 5000) and "omitted here" in text and text.count("omitted here") == 1, text[:100]
    assert text.index("x\n[...") < text.index("MIDDLE") < text.index("yyyy") < text.index("END"), text


async def updates(run):
    r = await run("h = display(Markdown('early'), display_id='it')\nprint('between')\n"
                  "for i in range(200): h.update(Markdown(f'now {i}'))")
    text = text_of(r)
    assert text.splitlines()[:2] == ["now 199", "between"] and "early" not in text and "now 198" not in text, text
    assert [d["display_id"] for d in r.structured_content["displays"]] == ["it"], r.structured_content
    r = await run("h.update(Markdown('one more cell')); h.update(Markdown('the last'))")
    assert "the last" in text_of(r) and "one more" not in text_of(r), text_of(r)
    r = await run("from IPython.display import clear_output\nprint('gone'); display(Markdown('gone too'))\n"
                  "clear_output(wait=True)\nprint('there')")
    assert text_of(r).startswith("there") and "gone" not in text_of(r), text_of(r)
    r = await run(FIGURE + "h = display(Markdown('none'), display_id=True)\nfig, ax = plt.subplots(); ax.plot([1, 2])\n"
                  "h.update(fig); plt.close(fig)")
    assert [b.type for b in r.content].count("image") == 1 and "none" not in text_of(r), r.content


async def main():
    async with connect() as client:
        schema = {t.name: t.output_schema for t in (await client.list_tools()).tools}["run_code"]

        async def run(code):
            r = await client.call_tool("run_code", {"code": code})
            assert not r.is_error, r
            jsonschema.validate(r.structured_content, schema)
            assert r.structured_content["status"] == "ok", r
            return r

        for name, f in (("HTML is text that can be read, and whole beside it", html),
                        ("JSON, Markdown, LaTeX and SVG", other_types),
                        ("text and figures keep their order", order),
                        ("a display is updated in its place, and cleared", updates)):
            failed = tap.failed
            await tap.run_async(name, f, run)
            if tap.failed == failed:
                tap.ok(True, name)


if __name__ == "__main__":
    common.need_codebox()
    anyio.run(main)
    tap.done()
