# SPDX-License-Identifier: Apache-2.0
"""Cells that work: results, output and its order, representations, figures."""
import base64
import os
import time

from checks import PNG, fails, has, lacks, ok, png_of, same, test


# The protocol and results

@test(fresh=True)
def ready_comes_first_and_nothing_is_printed(i):
    same(i.stray.events, [])
    same(i.ready["language"], "python")
    same(i.ready["version"].count("."), 2)


@test()
def value_of_the_last_expression(i):
    cell = ok(i.run("x = 20\nx + 22"))
    same(cell.result["text/plain"], "42")
    same(cell.all("result")[0]["count"], cell.done["count"])


@test()
def no_result_without_expression(i):
    same(ok(i.run("x = 1")).events, [])
    same(ok(i.run("None")).events, [])
    same(ok(i.run("")).events, [])
    same(ok(i.run("1 + 1;")).events, [])


@test()
def variables_last(i):
    ok(i.run("kept = [1]"))
    ok(i.run("kept.append(2)"))
    same(ok(i.run("kept")).result["text/plain"], "[1, 2]")


@test()
def underscore_and_out(i):
    ok(i.run("6 * 7"))
    same(ok(i.run("_ + 1")).result["text/plain"], "43")
    cell = ok(i.run("'n'"))
    same(ok(i.run("Out[%d] + In[%d]" % (cell.done["count"], cell.done["count"]))).result["text/plain"], "\"n'n'\"")


@test()
def silent_cells_leave_no_trace(i):
    before = ok(i.run("1")).done["count"]
    cell = i.run("silent_value = 5\nsilent_value", silent=True)
    same(ok(cell).events, [])
    same(ok(i.run("silent_value")).done["count"], before + 1)


@test()
def lone_surrogates_and_nul(i):
    cell = ok(i.run("class R:\n    def __repr__(self):\n        return 'a\\ud800b\\0c'\nR()"))
    same(cell.result["text/plain"], "a\ufffdb\ufffdc")
    fails(i.run("raise ValueError('x\\udcffy\\0z')"), "ValueError")
    same(ok(i.run("print('s\\ud800')")).stdout, "s\\ud800\n")


@test()
def large_code_and_unicode(i):
    same(ok(i.run("len('%s')" % ("ä" * 500000))).result["text/plain"], "500000")


@test()
def future_imports_hold(i):
    ok(i.run("from __future__ import annotations"))
    ok(i.run("def annotated(x: NotDefinedAnywhere): return x"))


@test()
def main_is_the_users_module(i):
    cell = ok(i.run("import sys, pickle\nclass P: pass\n"
                    "p = pickle.loads(pickle.dumps(P()))\n"
                    "(__name__, sys.modules['__main__'].__dict__ is globals(), type(p) is P, sys.argv, sys.path[0])"))
    same(cell.result["text/plain"], "('__main__', True, True, [''], '')")


@test()
def source_and_dataclasses(i):
    ok(i.run("import inspect, dataclasses, typing\n@dataclasses.dataclass\nclass D:\n    n: int = 3\n\n"
             "def shown(a):\n    # a comment\n    return a"))
    same(ok(i.run("print(inspect.getsource(shown), D())")).stdout,
         "def shown(a):\n    # a comment\n    return a\n D(n=3)\n")
    ok(i.run("import linecache; linecache.checkcache()"))
    has(ok(i.run("print(inspect.getsource(shown))")).stdout, "# a comment")


@test()
def modules_of_the_driver_are_not_importable(i):
    cell = ok(i.run("import sys\n[m for m in sys.modules if 'codebox' in m or m in "
                    "('driver', 'streams', 'hooks', 'bundles', 'tracebacks')] "
                    "+ [p for p in sys.path if 'runtimes' in p]"))
    same(cell.result["text/plain"], "[]")
    fails(i.run("import streams"), "ModuleNotFoundError")


@test(needs=["pandas"])
def wide_frames_show_their_columns(i):
    data = ok(i.run("import pandas as pd\npd.DataFrame({'c%02d' % n: [n] for n in range(30)})")).result
    for kind in ("text/plain", "text/html"):
        assert all("c%02d" % n in data[kind] for n in range(30)), data[kind]


@test(needs=["matplotlib"], fresh=True)
def characters_come_from_further_fonts_whatever_the_style(i):
    """Those of the image's matplotlibrc; here, of one that is written for the test."""
    ok(i.run("import matplotlib\nfurther = matplotlib.rcParamsOrig['font.family'][1:]\nimport matplotlib.pyplot as plt\n"
             "import warnings\nwarnings.simplefilter('error')"))
    if ok(i.run("bool(further)")).result["text/plain"] == "False":
        return  # a machine's own Python: there are no further fonts
    for style in ("plt.style.use('ggplot')", "plt.rcParams['font.family'] = 'sans-serif'",
                  "import seaborn\nseaborn.set_theme()"):
        cell = ok(i.run(style + "\nplt.title('\u4e2d\u6587')\nplt.show()"))
        same((len(cell.all("display")), cell.stderr), (1, ""))


@test()
def nothing_is_written_at_home(i):
    """But the directory where pip installs, which Python looks for when it starts."""
    ok(i.run("1"))
    files = [os.path.join(d, name) for d, _, names in os.walk(i.home) for name in names]
    image = [f for f in files if f.startswith(i.home + "/.cache/matplotlib/fontlist-")]  # its list of fonts is laid there
    same(files, image)
    own = ok(i.run("import sys; sys.prefix != sys.base_prefix")).result["text/plain"] == "True"  # pip installs there
    same(sorted(os.listdir(i.home)), [".cache"] * len(image) + [".local"] * (not own) + ["workspace"])


@test()
def environment_is_clean(i):
    same(ok(i.run("import os\n[k for k in os.environ if 'CODEBOX' in k]")).result["text/plain"], "[]")


# Output and its order

@test()
def streams_in_program_order(i):
    code = "import sys\nfor n in range(20):\n    print('o%d' % n)\n    print('e%d' % n, file=sys.stderr)"
    wanted = []
    for n in range(20):
        wanted += ["o:o%d" % n, "e:e%d" % n]
    same(ok(i.run(code)).order, wanted)


@test()
def subprocesses_and_descriptors_in_order(i):
    code = ("import os, subprocess, sys\nprint('1', end=' ')\nos.write(1, b'2 ')\nos.system('printf \"3 \"')\n"
            "print('4', end=' ')\nsubprocess.run(['printf', '5 '])\nsys.stdout.buffer.write(b'6 ')\n"
            "os.write(2, b'err')\nprint('7')")
    same(ok(i.run(code)).order, ["o:1 2 3 4 5 6", "e:err", "o:7"])


@test()
def c_stdio_in_order(i):
    code = ("import ctypes\nlibc = ctypes.CDLL(None)\nprint('a', end=' ')\nlibc.printf(b'b ')\nprint('c', end=' ')\n"
            "libc.puts(b'd')")
    same(ok(i.run(code + ";")).stdout, "a b c d\n")


@test()
def frames_in_order_with_output(i):
    code = "print('a')\ndisplay(1)\nprint('b')\ndisplay(2)\nimport os; n = os.write(2, b'c')\n3"
    wanted = ["o:a", "display", "o:b", "display", "e:c", "result"]
    same(ok(i.run(code)).order, wanted)
    same(ok(i.run(code, during=lambda cell: time.sleep(0.25))).order, wanted)  # a busy machine


@test()
def results_wait_for_nothing_but_the_end(i):
    ok(i.run("import subprocess, sys, time\ndef echo(s):\n    subprocess.run(['echo', s])\n"
             "class Loud:\n    def __repr__(self):\n        echo('in repr')\n        return 'loud'"))
    same(ok(i.run("Loud()")).order, ["o:in repr", "result"])
    if i.ready["kind"] == "ipython":  # shown before the end, whatever comes then
        same(ok(i.run("sys.displayhook(1)\necho('a')")).order, ["result", "o:a"])
        same(ok(i.run("def f():\n    sys.displayhook(1)\n    echo('a')\nf()")).order, ["result", "o:a"])
        same(ok(i.run("get_ipython().run_cell('1'); echo('a')")).order, ["result", "o:a"])
        same(ok(i.run("get_ipython().run_cell('1')\necho('a')\n2")).order, ["result", "o:a", "result"])
        ok(i.run("get_ipython().events.register('post_execute', late := lambda: print('late'))"))
        same(ok(i.run("1")).order, ["result", "o:late"])
        ok(i.run("get_ipython().events.unregister('post_execute', late)"))
        seen = []

        def during(cell):
            seen.extend(cell.all("result"))
            if seen:
                os.kill(i.process.pid, 10)

        ok(i.run("import signal\nwoken = []\nsignal.signal(10, lambda *a: woken.append(1))"))
        same(ok(i.run("sys.displayhook(1)\nwhile not woken: time.sleep(0.01)", during=during)).order, ["result"])


@test()
def what_is_the_sessions_own(i):
    i.send(op="session", environment={"CODEBOX_SESSION": "mine", "OTHER": "caf\u00e9"})
    same(ok(i.run("import os, subprocess; print(os.environ['CODEBOX_SESSION'], os.environ['OTHER'], flush=True)\n"
                  "x = subprocess.run('echo $CODEBOX_SESSION', shell=True)")).stdout, "mine caf\u00e9\nmine\n")


@test()
def threads_print_and_display(i):
    code = ("import threading\ndef work(n):\n    for k in range(50):\n        print('t%d-%d' % (n, k))\n"
            "    display(n)\nts = [threading.Thread(target=work, args=(n,)) for n in range(4)]\n"
            "for t in ts: t.start()\nfor t in ts: t.join()")
    cell = ok(i.run(code))
    same(len(cell.all("display")), 4)
    same(cell.stdout.count("t"), 200)


@test()
def stream_objects(i):
    cell = ok(i.run("import sys\n(sys.stdout.isatty(), sys.stdout.fileno(), sys.stderr.fileno(), sys.stdout.encoding,"
                    " sys.stdout.name, sys.stdin.read(), sys.stdout is sys.__stdout__)"))
    same(cell.result["text/plain"], "(False, 1, 2, 'utf-8', '<stdout>', '', True)")


@test()
def large_output(i):
    cell = ok(i.run("print('x' * 100_000_000)"))
    same(sum(len(v) for v in cell.all("stdout")), 100_000_001)
    same(len(ok(i.run("for n in range(100000): print(n)")).stdout.split()), 100000)


@test(fresh=True)
def streams_are_mended(i):
    i.run("import os, sys\nsys.stdout.close()\nos.close(2)\nsys.stdin.close()")
    same(ok(i.run("print('out'); print('err', file=sys.stderr); sys.stdin.read()")).order, ["o:out", "e:err", "result"])
    i.run("os.close(1)")
    same(ok(i.run("print('again')")).stdout, "again\n")


@test(fresh=True)
def replaced_stdout_is_left_alone(i):
    ok(i.run("import io, sys\nold = sys.stdout\nsys.stdout = io.StringIO()"))
    same(ok(i.run("print('hidden')")).stdout, "")
    same(ok(i.run("text = sys.stdout.getvalue()\nsys.stdout = old\nprint(text)")).stdout, "hidden\n\n")


@test()
def buffering_by_user_code_is_flushed(i):
    same(ok(i.run("import sys\nsys.stdout.reconfigure(write_through=False)\nprint('late')")).stdout, "late\n")
    ok(i.run("sys.stdout.reconfigure(write_through=True)"))


@test()
def warnings_and_logging(i):
    cell = ok(i.run("import warnings, logging\nwarnings.warn('careful')\nlogging.warning('logged')"))
    has(cell.stderr, "UserWarning: careful", "logged", "<cell ")


# Representations

@test()
def rich_representations(i):
    code = ("class R:\n    def _repr_html_(self): return '<b>h</b>'\n    def _repr_markdown_(self): return '*m*'\n"
            "    def _repr_latex_(self): return '$l$'\n    def _repr_svg_(self): return '<svg/>'\n"
            "    def _repr_png_(self): return b'\\x89PNG\\r\\n\\x1a\\n'\n"
            "    def _repr_jpeg_(self): return b'\\xff\\xd8'\n"
            "    def _repr_json_(self): return {'a': [1, float('nan')]}\n    def __repr__(self): return 'plain'\nR()")
    data = ok(i.run(code)).result
    same(data["text/html"], "<b>h</b>")
    same(data["text/markdown"], "*m*")
    same(data["text/latex"], "$l$")
    same(data["image/svg+xml"], "<svg/>")
    same(base64.b64decode(data["image/png"]), PNG)
    same(base64.b64decode(data["image/jpeg"]), b"\xff\xd8")
    same(data["application/json"], '{"a": [1, null]}')
    same(data["text/plain"], "plain")


@test()
def mimebundles_and_metadata(i):
    code = ("class B:\n    def _repr_mimebundle_(self, include=None, exclude=None):\n"
            "        return {'text/x-y': 'z'}, {'text/x-y': {'n': float('inf')}}\nB()")
    frame = ok(i.run(code)).all("result")[0]
    same(frame["data"]["text/x-y"], "z")
    same(frame["metadata"], {"text/x-y": {"n": None}})


@test()
def display_and_updates(i):
    cell = ok(i.run("display({'text/html': '<i>raw</i>'}, raw=True, metadata={'m': 1}, display_id='d1')"
                    "\ndisplay('new', display_id='d1', update=True);"))
    first, second = cell.all("display")
    same(first["data"], {"text/html": "<i>raw</i>"})
    same(first["metadata"], {"m": 1, "display_id": "d1"})
    same(second["metadata"], {"display_id": "d1", "update": True})


@test("ipython")
def clear_output_and_handles(i):
    cell = ok(i.run("from IPython.display import clear_output, HTML, Markdown, JSON, update_display\n"
                    "h = display(HTML('<p>'), display_id=True)\nh.update(Markdown('m'))\nclear_output(wait=True)\n"
                    "display(JSON({'k': 1}))"))
    same([k for k, v in cell.events], ["display", "display", "clear", "display"])
    same(cell.all("clear")[0]["wait"], True)
    one, two, three = cell.all("display")
    same(one["metadata"]["display_id"], two["metadata"]["display_id"])
    same(three["data"]["application/json"], '{"k": 1}')


@test("ipython")
def formatters_of_user_code(i):
    ok(i.run("f = get_ipython().display_formatter.formatters['text/html']\nf.for_type(int, lambda n: '<u>%d</u>' % n)"))
    same(ok(i.run("5")).result, {"text/plain": "5", "text/html": "<u>5</u>"})
    ok(i.run("del f.type_printers[int]"))
    same(ok(i.run("5")).result, {"text/plain": "5"})


@test()
def large_bundles_become_a_note(i):
    code = ("class Big:\n    def _repr_html_(self): return 'h' * (11 << 20)\n"
            "    def __repr__(self): return 'big one'\nBig()")
    data = ok(i.run(code)).result
    same(list(data), ["text/plain"])
    has(data["text/plain"], "big one", "text/html of 11.0 MiB", "10.0 MiB")
    lacks(data["text/plain"], "text/plain of")  # it is there
    data = ok(i.run("class Q:\n    def __repr__(self): return '\\x01' * (9 << 20)\nQ()")).result  # escaped: six times
    has(data["text/plain"], "9.0 MiB")


@test()
def failing_representations(i):
    cell = ok(i.run("class F:\n    def __repr__(self): raise RuntimeError('no repr')\nF()"))  # as in IPython
    same(cell.error["name"], "RuntimeError")
    cell = i.run("class G:\n    def _repr_html_(self): raise RuntimeError('no html')\n"
                 "    def __repr__(self): return 'g'\nG()")
    same(cell.result["text/plain"], "g")
    same(cell.error["value"], "no html")


@test(needs=["pandas"])
def dataframes(i):
    data = ok(i.run("import pandas as pd\npd.DataFrame({'a': [1, 2]})")).result
    has(data["text/html"], "<table")
    has(data["text/plain"], "a\n0  1")


@test(needs=["PIL"])
def images(i):
    png_of(ok(i.run("from PIL import Image\nImage.new('RGB', (4, 4))")).result)


@test(needs=["PIL"])
def large_images_have_a_smaller_copy(i):
    code = ("import os\nfrom PIL import Image\n"
            "noise = Image.frombytes('RGB', (w, h), os.urandom(3 * w * h))\nnoise")
    for w, h in (1000, 700), (2400, 1800):  # 2 MiB, and more than a frame takes
        data = ok(i.run(f"w, h = {w}, {h}\n{code}")).result
        small = base64.b64decode(data["image/jpeg"])
        same(small[:3], b"\xff\xd8\xff")
        assert len(small) < 450 << 10, len(small)  # 600 KiB in base64
        if w == 1000:
            png_of(data)
        else:
            assert "image/png" not in data, list(data)
            has(data["text/plain"], "image/png of 16.")
        # It is the same picture, no larger than it was, on white where it was transparent.
        size = ok(i.run("import base64, io\nImage.open(io.BytesIO(base64.b64decode(%r))).size"
                        % data["image/jpeg"])).result["text/plain"]
        assert max(eval(size)) <= 1600 and abs(eval(size)[0] / eval(size)[1] - w / h) < .01, size
    data = ok(i.run("Image.frombytes('RGBA', (700, 700), "
                    "b''.join(os.urandom(3) + b'\\0' for _ in range(490000)))")).result
    pixels = ok(i.run("Image.open(io.BytesIO(base64.b64decode(%r))).getextrema()" % data["image/jpeg"])).result
    same(pixels["text/plain"], "((255, 255), (255, 255), (255, 255))")
    # A small one needs none; newer versions of PIL have a JPEG by themselves.
    same(set(ok(i.run("Image.new('RGB', (2000, 2000))")).result) - {"image/jpeg"}, {"image/png", "text/plain"})


@test()
def large_images_that_are_none(i):
    r = i.run("display({'image/png': b'\\x89PNG\\r\\n\\x1a\\n' + bytes(500000)}, raw=True)")
    data = ok(r).all("display")[0]["data"]
    same(sorted(data), ["image/png"])
    data = ok(i.run("display({'image/png': '!' * 600000}, raw=True)")).all("display")[0]["data"]
    same(sorted(data), ["image/png"])


# Figures

@test(needs=["matplotlib"])
def figures_at_the_end_of_a_cell(i):
    cell = ok(i.run("import matplotlib.pyplot as plt\nlines = plt.plot([1, 2])\nprint('after')"))
    same(cell.order[-2:], ["o:after", "display"])
    png_of(cell.all("display")[0]["data"])
    same(ok(i.run("plt.get_fignums()")).result["text/plain"], "[]")
    same(ok(i.run("1")).all("display"), [])


@test(needs=["matplotlib"])
def show_in_order(i):
    cell = ok(i.run("import matplotlib.pyplot as plt\nfor n in range(2):\n    plt.figure()\n    plt.plot([n, 1])\n"
                    "    print('before', n)\n    plt.show()\nprint('end')"))
    same(cell.order, ["o:before 0", "display", "o:before 1", "display", "o:end"])


@test(needs=["matplotlib"])
def figure_as_result_is_shown_once(i):
    cell = ok(i.run("import matplotlib.pyplot as plt\nfig, ax = plt.subplots()\nax.plot([1, 2])\nfig"))
    same(cell.order, ["result"])
    png_of(cell.result)
    cell = ok(i.run("ax.set_title('later')\nfig"))
    png_of(cell.result)
    cell = ok(i.run("fig, ax = plt.subplots()\nax.plot([1, 2])\ndisplay(fig)\nax.set_title('changed')\nprint('x')"))
    same(cell.order, ["display", "o:x", "display"])


@test(needs=["matplotlib"], fresh=True)
def figures_of_other_backends(i):
    # It says so when its cache of fonts takes more than some seconds to make.
    ok(i.run("import matplotlib\nmatplotlib.use('Agg')\nimport matplotlib.pyplot as plt"))
    cell = ok(i.run("lines = plt.plot([3, 4])"))
    same(cell.order, ["display"])
    png_of(cell.all("display")[0]["data"])


@test(needs=["matplotlib"], fresh=True)
def figures_despite_an_error(i):
    cell = i.run("import matplotlib.pyplot as plt\nlines = plt.plot([1, 2])\n1/0")
    fails(cell, "ZeroDivisionError")
    png_of(cell.all("display")[0]["data"])


@test(needs=["matplotlib"], fresh=True)
def savefig_and_pandas_plot(i):
    ok(i.run("%matplotlib inline\nimport matplotlib.pyplot as plt"))
    cell = ok(i.run("plt.plot([1, 2])\nplt.savefig('saved.png')\nplt.close()"))
    same(cell.order, [])
    with open(os.path.join(i.workspace, "saved.png"), "rb") as f:
        assert f.read().startswith(PNG)


@test("ipython", needs=["matplotlib"], fresh=True)
def inline_settings(i):
    ok(i.run("%config InlineBackend.figure_format = 'svg'"))
    cell = ok(i.run("import matplotlib.pyplot as plt\nlines = plt.plot([1, 2])"))
    has(cell.all("display")[0]["data"]["image/svg+xml"], "<svg")


@test(needs=["matplotlib"], fresh=True)
def matplotlib_is_not_imported_early(i):
    same(ok(i.run("import sys\n[m for m in ('matplotlib', 'numpy', 'pandas', 'prompt_toolkit', 'jedi') "
                  "if m in sys.modules]")).result["text/plain"], "[]")
