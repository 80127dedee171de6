#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The driver and IPython as it comes, given the same cells: what is shown and what is kept must be the same. In TAP.

CODEBOX_TEST_PYTHON names the interpreter (default: that of the image python). Arguments select scenarios by a part of
their names. With --stock, this script is the other side: IPython's InteractiveShell, spoken to in lines of JSON.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import traceback

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

# What a cell leaves behind, for user code to see.
STATE = """
import json as _json, builtins as _b, sys as _sys
_ip = get_ipython()
_r = _ip.last_execution_result
def _n(e): return [type(e).__name__, str(e)]
print(_json.dumps({
    "count": _ip.execution_count, "In": In[-2:], "n": len(In), "Out": {str(k): repr(v)[:50] for k, v in Out.items()},
    "under": [repr(globals().get(k)) for k in ("_", "__", "___", "_i", "_ii", "_iii")],
    "raw": _ip.history_manager.input_hist_raw[-2:], "cached": sorted(k for k in globals() if k[:1] == "_" and
    k[1:].lstrip("i").isdigit()), "ok": _ip.last_execution_succeeded,
    "result": _r and [repr(_r.result)[:50], _n(_r.error_in_exec), _n(_r.error_before_exec), _r.execution_count,
                      _r.info.raw_cell, _r.info.store_history, _r.info.silent, _r.success],
    "line": getattr(_ip, "_last_input_line", None), "flags": _ip.compile.flags,
    "hook": type(_ip.displayhook.exec_result).__name__,
    "builtins": ["get_ipython" in vars(_b), "exit" in vars(_b), "display" in vars(_b)], "underscore": "_" in vars(_b),
    "history": [h[2] for h in _ip.history_manager.get_range(0, -2)]}, sort_keys=True))
del _json, _b, _sys, _ip, _r, _n
"""

SCENARIOS = {
    "values": ["1+1", "'x'", "True", "None", "1.5", "x = 3", "x", "x;", "x ; ", "x; # no", "x # ;", "';'",
               "[1, 'a', {2: x}]",
               "b'z'", "...", "3 if x else 4", "(1,\n2)", "x\n", "\n\nx\n\n", "  x", "   \n", "", "# only this", "x,",
               "1\n2\n3", "for i in range(3): i", "'a\\nb\\x85\\u2028'", "10**30", "object", "_", "_, __, ___",
               "Out[2]",
               "In[1]", "_i, _ii", "_1", "class I(int):\n  def __repr__(self): return 'one\\ntwo'\nI(3)",
               "class S(str): pass\nS('s')", "list(range(2000))[:1100]", "_oh is Out", "Out", "5 % 3", "'%d' % 7",
               "5 != 4",
               "'?'", "x = lambda: 5 % 2\nx()", "len('a,b') / 2", "len", "print('p') or 8", "float('nan')"],
    "prompts and white space": [">>> 1+1", ">>> x = [\n... 1]\n>>> x", "In [3]: 5\n", "In [3]: x = 1\n   ...: x + 1",
                                "    7", "\tx = 8\n\tx", "\n\n   9", "if 1:\n\tx = 2\nx", "x = 1 \\\n + 2\nx",
                                "1 +\\\n1",
                                "x = '''\n%who\n!ls\n?x\n'''\nx", "[1,\n %d\n]" % 2, "{\n1: 2,\n\n# c\n\n3: 4}",
                                "x\f", "1\r\n2",
                                "\ufeff1", "\u00e4 = 5\n\u00e4", "\uff41 = 6\na"],
    "errors": ["1/0", "x = (", "1 +", "if 1:\n        x\n    y", "if 1:\nx", "  a\n b", "return 5",
               "raise ValueError('v')",
               "undefined", "'unclosed", "x = 1\ny = x +", "await", "yield 1", "print('a')\nreturn", "1\n1/0\n2",
               "f(", "1 1",
               "import no_such_module", "from __future__ import nothing", "\u201cx\u201d", "del _", "_", "5", "_",
               "class E(Exception): pass\nraise E('e')", "assert 0, 'no'", "if 1:\n    pass\n  \n else: pass", "\\",
               "x = \\"],
    "digits": ["10**5000", "1"],
    "async": ["import asyncio\nawait asyncio.sleep(0, 5)", "'await'", "'async'", "async def f(): return 3", "await f()",
              "[await f() for _ in range(2)]", "[x async for x in f()]", "async with 3: pass", "x = 1\nawait f()\nx",
              "def g():\n    await f()", "awaited = 3", "awaited", "%autoawait off", "await f()", "%autoawait on",
              "await f()"],
    "magics": ["%automagic", "who", "%automagic", "a = 1; b = 'x'", "%who", "who", "who_ls = 3", "who_ls", "%who_ls",
               "x = %who_ls",
               "x", "%%capture c\nprint('in'); 5", "c.stdout, len(c.outputs)", "%config HistoryManager.db_cache_size",
               "%precision 3", "1/3", "[1/3]", "%precision", "1/3", "%xmode Minimal", "1/0", "%nosuch", "%%nosuch\nx",
               "%macro m 4", "m", "m\n1", "%alias_magic w who", "w", "x = !echo hi", "x", "%who int",
               "%reset_selective -f who_ls",
               "%pprint", "[1, [2]]", "%pprint", "for i in range(2):\n    %who int", "%recall 4", "5 %who",
               "a = %nosuch", "who = 3",
               "who", "del who", "%rerun 4", "%autocall 1", "len 'abc'", "len ['a']", "%autocall 0", "len 'abc'",
               "%history -n 4-6",
               "%%writefile /dev/null\n?", "%sx echo 3", ",len a", ";len a b", "/len 'a'", "%unalias no_such_alias"],
    "displays": ["display(1)", "display(1, 'x')", "from IPython.display import HTML, Markdown\nHTML('<b>')",
                 "display(Markdown('m'))",
                 "import sys\nsys.displayhook(4)", "5;", "sys.displayhook(6)", "sys.displayhook(None)",
                 "x = sys.displayhook",
                 "sys.displayhook = lambda v: print('mine', v)", "7", "sys.displayhook is x",
                 "import builtins; builtins._ = 3", "8",
                 "_", "del builtins._", "9", "_", "_ = 'own'", "10", "_", "get_ipython().displayhook.flush()", "11",
                 "Out"],
    "formatters": ["f = get_ipython().display_formatter; h = f.formatters['text/html']; t = "
                   "f.formatters['text/plain']; 0",
                   "h.for_type(int, lambda n: '<u>%d</u>' % n)", "5", "'s'", "True", "del h.type_printers[int]", "5",
                   "t.for_type(int, lambda n, p, cycle: p.text('n%d' % n))", "5", "[5, True]",
                   "del t.type_printers[int]", "5",
                   "import IPython.lib.pretty as P; t.type_printers[int] = P._repr_pprint", "5",
                   "t.for_type(str, lambda s, p, cycle: p.text('str'))", "'s'", "t.pop(str)", "'s'",
                   "t.pprint = False", "[1, 's']",
                   "t.pprint = True", "h.for_type_by_name('builtins', 'int', lambda n: 'byname')", "5", "6",
                   "h.deferred_printers.clear(); h.type_printers.clear()", "5",
                   "one = 'one'\nt.singleton_printers[id(one)] = "
                   "lambda o, p, c: p.text('single')", "one", "h.singleton_printers[id(one)] = lambda o: 'html'", "one",
                   "h.singleton_printers.clear(); t.singleton_printers.clear()", "one",
                   "f.active_types = ['text/html']", "5",
                   "f.active_types = f.format_types", "5",
                   "f.mimebundle_formatter.for_type(int, lambda n, **k: {'x/y': 'z'})", "5",
                   "f.mimebundle_formatter.pop(int)", "5",
                   "f.ipython_display_formatter.for_type(int, lambda n: print('own', n))", "5",
                   "f.ipython_display_formatter.pop(int)", "5", "h.for_type(object, lambda o: 'any')", "5", "[]",
                   "h.pop(object)",
                   "from IPython.core.formatters import HTMLFormatter\nclass N(HTMLFormatter): pass\n"
                   "f.formatters['text/x-new'] = n = N(parent=f)\nn.for_type(int, lambda i: 'new')", "5",
                   "del f.formatters['text/x-new']",
                   "5", "h.for_type(int, lambda n: 1/0)", "5", "h.for_type(int, lambda n: 3)", "5",
                   "h.for_type(int, lambda n: ('a', {'k': 1}))",
                   "5", "h.type_printers = {}", "5", "h.type_printers = {int: str}", "5",
                   "f.format(5, include=['text/plain'])",
                   "f.format(5, include={'text/html'})", "f.format(5, exclude=['text/plain'])", "t.max_width = 10",
                   "['abc'] * 4", "'a b c ' * 4",
                   "class R:\n  def __repr__(self): raise ValueError('r')", "R()",
                   "class H:\n  def _repr_html_(self): raise "
                   "NotImplementedError\n  def __repr__(self): return 'h'", "H()", "h(5)", "t(obj=5)",
                   "f.formatters['image/png'](3)"],
    "hooks": ["e = get_ipython().events; seen = []", "def pre(info): seen.append(('pre', info.raw_cell, info.silent))\n"
              "def post(r): seen.append(('post', r.execution_count, r.result, r.success))\n"
              "def ex(): seen.append('pre_execute')\ndef px(): seen.append('post_execute')\n"
              "for n, c in ('pre_run_cell', pre), ('post_run_cell', post), ('pre_execute', ex), ('post_execute', px)"
              ": e.register(n, c)",
              "1 + 1", "seen", "  ", "1/0", "x = (", "seen[-9:]",
              "def bad(): raise KeyError('bad')\ne.register('pre_execute', bad)", "2",
              "e.unregister('pre_execute', bad)\ne.register('post_run_cell', lambda r: print('late', r.result))", "3",
              "def again(info):\n    e.unregister('pre_run_cell', again)\n    get_ipython().run_cell('print(5); 6')\n"
              "e.register('pre_run_cell', again)", "7", "8",
              "def stop(info): raise KeyboardInterrupt\ne.register('pre_run_cell', stop)",
              "9", "e.unregister('pre_run_cell', stop)", "10",
              "import __future__\ndef swap(info):\n"
              "    get_ipython().compile.flags |= __future__.CO_FUTURE_BARRY_AS_BDFL\n"
              "e.register('pre_run_cell', swap)", "1 != 2"],
    "watched traits": ["ip = get_ipython(); seen = []\ndef saw(c): seen.append((c['name'], c['old'], c['new']))\n"
                       "ip.observe(saw, 'execution_count')", "1", "seen", "ip.unobserve(saw, 'execution_count')", "2",
                       "len(seen)",
                       "ip.observe(saw, 'last_execution_succeeded')", "1/0", "3", "seen[2:]", "ip.unobserve_all()",
                       "4", "len(seen)",
                       "import traitlets\nip.observe(lambda c: seen.append(c.name), traitlets.All)", "5", "seen[4:]",
                       "ip.unobserve_all()",
                       "with ip.hold_trait_notifications():\n    ip.execution_count = 40", "6",
                       "ip.execution_count = 'x'", "7",
                       "n = ip.display_formatter; n.observe(saw, 'active_types'); n.active_types = ['text/plain']",
                       "seen[-1][0]"],
    "traits of one's own": ["import traitlets as t\nclass Seven(t.Int):\n"
                            "  def get(self, obj, cls=None): return 7 + super().get(obj, cls)\n"
                            "class More(Seven): pass\nclass Direct(t.Int):\n"
                            "  def __get__(self, obj, cls=None): return 'direct'\n"
                            "class Has(t.HasTraits):\n  a = Seven(3)\n  b = More(4)\n  c = Direct()\n  d = t.Int()\n"
                            "  e = t.List()\n  f = t.Any()\n"
                            "  @t.default('d')\n  def _first(self): print('asked'); return 5\n"
                            "  @t.default('f')\n  def _no(self): raise KeyError('f')\nh = Has()",
                            "h.a, h.b, h.c, h.d, h.d, h.e", "h.a = 1; h.d = 6; h.e.append(2); h.a, h.d, h.e", "h.f",
                            "Has.d is Has.class_traits()['d'], type(Has.a).__name__", "del h._trait_values\nh.d",
                            "h.d = 'x'", "ip = get_ipython(); hook = ip.displayhook",
                            "hook.shell is ip, ip.history_manager.shell is ip, ip.prefilter_manager.shell is ip",
                            "class Plain(t.HasTraits): g = t.Int(2)\nPlain().g"],
    "transformers of input": ["ip = get_ipython()", "def add(lines): return [l.replace('PLUS', '+') for l in lines]\n"
                              "ip.input_transformers_cleanup.append(add)", "1 PLUS 2",
                              "ip.input_transformers_cleanup.remove(add)", "1 PLUS 2",
                              "ip.input_transformers_post.append(add)", "1 PLUS 2", "x = 1 PLUS 2\nx",
                              "ip.input_transformers_post.remove(add)",
                              "def no(lines):\n    if 'REFUSE' in ''.join(lines): raise SyntaxError('refused')\n"
                              "    return lines\n"
                              "ip.input_transformers_cleanup.append(no)", "x = 'REFUSE'", "x",
                              "ip.input_transformers_cleanup.remove(no)",
                              "from IPython.core.inputtransformer2 import TokenTransformBase\n"
                              "class Dbl(TokenTransformBase):\n"
                              "    @classmethod\n    def find(cls, lines):\n        for l in lines:\n"
                              "            for t in l:\n"
                              "                if t.string == 'dbl': return cls(t.start)\n    def transform(self, "
                              "lines):\n"
                              "        return [l.replace('dbl', '2 *') for l in lines]\n"
                              "ip.input_transformer_manager.token_transformers.append(Dbl)", "dbl 4", "(dbl)",
                              "ip.input_transformer_manager.token_transformers.remove(Dbl)", "dbl = 3", "dbl",
                              "ip.input_transformer_manager.line_transforms.append(lambda lines: [l.upper() "
                              "for l in lines])", "'low'"],
    "transformers of trees": ["import ast, tokenize\nip = get_ipython()\nclass Neg(ast.NodeTransformer):\n"
                              "    def visit_Constant(self, node):\n"
                              "        return ast.Constant(-node.value) if type(node.value) is int else node\n"
                              "    visit_Num = visit_Constant\nneg = Neg()\nip.ast_transformers.append(neg)", "5",
                              "5", "5\n6", "x = 7\nx",
                              "ip.ast_transformers.clear()", "5", "from IPython.core.error import InputRejected\n"
                              "class Rej(ast.NodeTransformer):\n    def visit_Constant(self, node):\n"
                              "        if node.value == 13: raise "
                              "InputRejected('13')\n        return node\n    visit_Num = visit_Constant\n"
                              "ip.ast_transformers.append(Rej())",
                              "13", "12", "ip.ast_transformers.clear()", "13"],
    "prefilter": ["ip = get_ipython(); p = ip.prefilter_manager; n = [0]",
                  "from IPython.core.prefilter import PrefilterChecker, "
                  "PrefilterTransformer, PrefilterHandler\nclass C(PrefilterChecker):\n    def check(self, info):\n"
                  "        n[0] += 1",
                  "c = C(shell=ip, prefilter_manager=p, parent=p)", "1", "n", "p.unregister_checker(c)", "1", "n",
                  "class T(PrefilterTransformer):\n    def transform(self, line, more): return line.replace('@@', '+')",
                  "t = T(shell=ip, prefilter_manager=p, parent=p)", "1 @@ 2", "p.unregister_transformer(t)", "1 @@ 2",
                  "from IPython.core.autocall import IPyAutocall\nclass A(IPyAutocall):\n    def __call__(self, *a)"
                  ": return ('called', a)\na = A()",
                  "a", "a 5", "a = 6",
                  "class H(PrefilterHandler):\n    def handle(self, info): return info.line.replace('zz', '9')",
                  "h = H(shell=ip, prefilter_manager=p, parent=p)", "zz", "p.unregister_handler('normal', h, [])",
                  "a = 3", "a", "a.real", "a .real", "*a, = 1, 2", "*a,", ".5", "(3)", "-3", "~3", "@",
                  "ip.prefilter('x?')"],
    "interactivity": ["ip = get_ipython(); ip.ast_node_interactivity = 'all'", "1\n2",
                      "ip.ast_node_interactivity = 'last'", "1\n2",
                      "ip.ast_node_interactivity = 'none'", "1", "ip.ast_node_interactivity = 'last_expr_or_assign'",
                      "y = 4", "y += 1",
                      "y: int = 7", "ip.ast_node_interactivity = 'last_expr'", "y = 5"],
    "cells in cells": ["ip = get_ipython()", "r = ip.run_cell('5')", "r.result, r.execution_count",
                       "r = ip.run_cell('6', store_history=True)",
                       "ip.run_cell('1/0').success", "ip.run_cell('7', silent=True).result",
                       "ip.run_cell('x = (').error_before_exec is None",
                       "ip.transform_cell('%who'), ip.transform_cell('1+1'), ip.transform_cell('a?')",
                       "exec(compile('9', 'a', 'single'))",
                       "ip.ex('q = 4')", "q", "ip.ev('q + 1')", "ip.push({'z': 3}); z",
                       "ip.run_line_magic('who', 'int')",
                       "ip.check_complete('for i in x:'), ip.check_complete('1'), ip.check_complete('%who')",
                       "from __future__ import annotations", "def f(a: nowhere): pass", "f.__annotations__",
                       "ip.run_cell('def f(a: nowhere): pass', shell_futures=False).success",
                       "ip.reset_selective('zz'); 1",
                       "ip.reset(); 1", "1"],
}


def stock():
    """IPython's shell, with nothing changed but where its answers go."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open("/dev/null", os.O_WRONLY), 1)
    import IPython
    from IPython.core.displayhook import DisplayHook
    from IPython.core.displaypub import DisplayPublisher
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets import Type
    from traitlets.config import Config
    events = []

    class Hook(DisplayHook):
        def write_output_prompt(self):
            pass

        def write_format_data(self, data, metadata=None):
            events.append(["result", self.prompt_count, data, metadata or {}])

        def finish_displayhook(self):
            self._is_active = False

    class Pub(DisplayPublisher):
        def publish(self, data, metadata=None, **kwargs):
            events.append(["display", data, metadata or {}])

    class Shell(InteractiveShell):
        displayhook_class, display_pub_class = Type(Hook), Type(Pub)

        def showtraceback(self, exc_tuple=None, *args, **kwargs):
            value = (exc_tuple or sys.exc_info())[1]
            events.append(["error", type(value).__name__, str(value)])

        def showsyntaxerror(self, *args, **kwargs):
            self.showtraceback()

        showindentationerror = showsyntaxerror

    class Stream:
        encoding = "utf-8"

        def write(self, text):
            if events and events[-1][0] == "out":
                events[-1][1] += text
            elif text:
                events.append(["out", text])

        def flush(self):
            pass

    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor" if IPython.version_info[0] >= 9 else "NoColor"
    config.InteractiveShell.separate_in = ""
    sys.stdout = Stream()
    sys.argv = [""]
    ip = Shell.instance(config=config, ipython_dir=os.path.join(os.environ["HOME"], ".ipython"))
    for line in sys.stdin:
        cell = json.loads(line)
        del events[:]
        ip.run_cell(cell["code"], store_history=not cell["silent"], silent=cell["silent"])
        answers.write(json.dumps(events, default=repr) + "\n")
        answers.flush()


class Stock:
    def __init__(self, python):
        self.home = tempfile.TemporaryDirectory(prefix="driver-test-")
        self.p = subprocess.Popen([*python, "-X", "utf8", os.path.abspath(__file__), "--stock"], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=self.home.name,
                                  env={"PATH": "/usr/local/bin:/usr/bin:/bin",
                                  "HOME": self.home.name, "LANG": "C.UTF-8"})

    def run(self, code, silent=False):
        self.p.stdin.write(json.dumps({"code": code, "silent": silent}) + "\n")
        self.p.stdin.flush()
        return json.loads(self.p.stdout.readline())

    def close(self):
        self.p.stdin.close()
        self.p.wait()
        self.p.stdout.close()
        self.home.cleanup()


def of_driver(cell):
    """Its events as the other side tells them."""
    out = []
    for kind, value in cell.events:
        if kind == "stdout":
            out.append(["out", value.decode()])
        elif kind == "result":
            out.append(["result", value["count"], value["data"], value["metadata"]])
        elif kind == "display":
            out.append(["display", value["data"], value["metadata"]])
        elif kind == "error":
            out.append(["error", value["name"], value["value"]])
    return out


def normal(events):
    """Without what differs on purpose (names of cells, what is said of an open bracket) or from run to run."""
    text = json.dumps(events)
    for pattern, new in ((r"<ipython-input-(\d+)-\w+>", r"<cell \1>"), (r"<cell (\d+)\.\d+>", r"<cell \1>"),
                         (r"'[\[({]' was never closed|unexpected EOF while parsing", "incomplete input"),
                         (r" at (0x)?[0-9a-f]+", ""), ("_IncompleteInputError", "SyntaxError")):
        text = re.sub(pattern, new, text)
    return json.loads(text)


def differences(ours, theirs, code):
    for what, silent in ((code, False), (STATE, True)):
        got, wanted = normal(of_driver(ours.run(what, silent))), normal(theirs.run(what, silent))
        if got == wanted:
            continue
        if silent and got[-1][0] == wanted[-1][0] == "out":
            got, wanted = (json.loads(x[-1][1].splitlines()[-1]) for x in (got, wanted))
            got, wanted = ({k: v for k, v in x.items() if v != y[k]} for x, y in ((got, wanted), (wanted, got)))
        yield "after %r%s:\n  driver  %r\n  IPython %r" % (code, ", the state" if silent else "", got, wanted)


def compare(python, name):
    from harness import Interpreter
    ours, theirs = Interpreter(python), Stock(python)
    try:
        for side in ours, theirs:
            side.run("0", silent=True)
        return [d for code in SCENARIOS[name] for d in differences(ours, theirs, code)]
    finally:
        ours.close()
        theirs.close()


def main():
    from checks import PYTHON
    names = [n for n in SCENARIOS if not sys.argv[1:] or any(w in n for w in sys.argv[1:])]
    print("1..%d" % len(names), flush=True)
    have = subprocess.run([*PYTHON, "-c", "import IPython"], stderr=subprocess.DEVNULL).returncode == 0
    failed = 0
    for number, name in enumerate(names, 1):
        if not have:
            print("ok %d - %s # SKIP %s has no IPython" % (number, name, " ".join(PYTHON)), flush=True)
            continue
        try:
            found = compare(PYTHON, name)
        except Exception:
            found = [traceback.format_exc()]
        print("%sok %d - %s" % ("not " if found else "", number, name), flush=True)
        for line in "\n".join(found[:10]).splitlines():
            print("# %s" % line[:2000], flush=True)
        failed += bool(found)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(stock() if sys.argv[1:] == ["--stock"] else main())
