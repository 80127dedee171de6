# SPDX-License-Identifier: Apache-2.0
"""Errors, interrupts, forks, breakage; then magics and questions about code."""
import os

from checks import fails, has, lacks, ok, same, test
from harness import Gone


# Errors

@test()
def tracebacks(i):
    ok(i.run("def outer(n):\n    return inner(n)\n\ndef inner(n):\n    return 1 / n"))
    error = fails(i.run("print('x')\nouter(0)"), "ZeroDivisionError")
    same(error["value"], "division by zero")
    trace = error["traceback"]
    has(trace, "Traceback (most recent call last):", "line 2, in <module>", "    outer(0)", "in outer",
        "    return 1 / n", "ZeroDivisionError: division by zero", "<cell ")
    lacks(trace, "driver.py", "shell_", "interactiveshell", "\x1b")


@test()
def chained_exceptions(i):
    trace = fails(i.run("try:\n    1/0\nexcept Exception as e:\n    raise ValueError('second') from e"),
                  "ValueError")["traceback"]
    has(trace, "ZeroDivisionError", "direct cause", "ValueError: second")
    lacks(trace, "driver.py", "shell_", "interactiveshell")


@test()
def syntax_errors(i):
    error = fails(i.run("a = 1\nb = = 2"), "SyntaxError")
    has(error["traceback"], "line 2", "b = = 2", "^", "SyntaxError")
    lacks(error["traceback"], "Traceback", "ast_parse")
    fails(i.run("def f():\nreturn 1"), "IndentationError")
    fails(i.run("return 5"), "SyntaxError")


@test()
def deep_recursion(i):
    error = fails(i.run("def a(n): return b(n)\ndef b(n): return a(n)\na(1)"), "RecursionError")
    assert len(error["traceback"]) < 20000, len(error["traceback"])
    has(error["traceback"], "entries left out", "in <module>")
    fails(i.run("import sys\nsys.setrecursionlimit(5000)\ndef c(n): return c(n + 1)\n"
                "try:\n    c(0)\nfinally:\n    sys.setrecursionlimit(3000)"), "RecursionError")


@test()
def warnings_are_those_of_user_code(i):
    """A long answer is sent with all signals blocked; that is nothing to warn of, in a cell that makes errors of it."""
    r = ok(i.run("import warnings\nwarnings.simplefilter('error')\n'x' * 200000"))
    lacks(str(r), "driver.py", "RuntimeWarning")
    lacks(str(ok(i.run("warnings.simplefilter('always')\n'x' * 200000"))), "RuntimeWarning")


@test()
def huge_messages(i):
    error = fails(i.run("raise ValueError('v' * 50_000_000)"), "ValueError")
    assert len(error["value"]) < 200 << 10 and len(error["traceback"]) < 400 << 10
    has(error["value"], "characters left out")


@test()
def hostile_exceptions(i):
    error = fails(i.run("class E(Exception):\n    def __str__(self): raise RuntimeError('str')\n"
                        "    __repr__ = __str__\nraise E()"), "E")
    has(error["traceback"], "<cell ")
    fails(i.run("class X(Exception):\n    @property\n    def __cause__(self): 1/0\nraise X('m')"), "X")
    fails(i.run("class Y(BaseException): pass\nraise Y()"), "Y")


@test()
def no_escape_sequences(i):
    error = fails(i.run("raise ValueError('\\x1b[31mred\\x1b[0m')"), "ValueError")
    same(error["value"], "red")
    lacks(error["traceback"], "\x1b")


@test()
def memory_errors(i):
    ok(i.run("import resource\nold = resource.getrlimit(resource.RLIMIT_AS)\n"
             "used = int(open('/proc/self/statm').read().split()[0]) * 4096\n"
             "resource.setrlimit(resource.RLIMIT_AS, (used + (256 << 20), old[1]))"))
    fails(i.run("hog = []\nwhile True: hog.append(bytearray(16 << 20))"), "MemoryError")
    same(ok(i.run("n = len(hog); del hog; n > 1")).result["text/plain"], "True")
    ok(i.run("x = bytearray(64 << 20)\nresource.setrlimit(resource.RLIMIT_AS, old)"))


@test()
def no_input(i):
    error = fails(i.run("input('Name? ')"), "EOFError")
    has(error["value"], "input() is not available", "Put the value into the code")
    has(fails(i.run("import getpass\ngetpass.getpass()"), "EOFError")["value"], "getpass()")
    has(fails(i.run("from getpass import getpass as g\ng('pw: ')"), "EOFError")["value"], "getpass()")
    has(fails(i.run("def f(x):\n    breakpoint()\nf(1)"), "EOFError")["value"], "breakpoint()", "Print")
    same(ok(i.run("import os\nos.environ['PYTHONBREAKPOINT'] = '0'\nbreakpoint()\n"
                  "del os.environ['PYTHONBREAKPOINT']\n'went on'")).result["text/plain"], "'went on'")
    same(ok(i.run("import io, sys\nold, sys.stdin = sys.stdin, io.StringIO('typed\\n')\n"
                  "v = input()\nsys.stdin = old\nv"))
         .result["text/plain"], "'typed'")


@test()
def exits(i):
    cell = i.run("import sys\nprint('x')\nsys.exit(7)")
    same((cell.status, cell.done["exit_code"], cell.stdout), ("exit", 7, "x\n"))
    same(cell.all("error"), [])
    cell = i.run("sys.exit('a message')")
    same((cell.status, cell.done["exit_code"], cell.stderr), ("exit", 1, "a message\n"))
    same(i.run("exit()").done["exit_code"], 0)
    same(i.run("quit(3)").done["exit_code"], 3)
    same(i.run("exit").status, "exit")
    same(i.run("raise SystemExit").done["exit_code"], 0)
    same(ok(i.run("1")).stderr, "")


@test(fresh=True)
def sudden_ends(i):
    try:
        i.run("import os\nprint('last words')\nos._exit(9)")
        assert False, "it lives"
    except Gone as gone:
        same(gone.args[0], 9)
        same(gone.cell.stdout, "last words\n")


@test(fresh=True)
def crashes_leave_a_trace(i):
    try:
        i.run("import ctypes\nctypes.string_at(0)")
        assert False, "it lives"
    except Gone as gone:
        same(gone.args[0], -11)
        has(gone.cell.stderr, "Segmentation fault", "<cell ")


# Interrupts

@test()
def interrupts_keep_variables(i):
    ok(i.run("kept = 'yes'"))
    cell = i.interrupt_when(b"go", "import time\nprint('go')\nlocal = 5\nwhile True: pass")
    same(cell.status, "interrupted")
    same(cell.error["name"], "KeyboardInterrupt")
    has(cell.error["traceback"], "while True: pass")
    same(ok(i.run("kept, local")).result["text/plain"], "('yes', 5)")
    cell = i.interrupt_when(b"go", "print('go')\ntime.sleep(100)")
    same(cell.status, "interrupted")


@test()
def interrupted_await(i):
    cell = i.interrupt_when(b"go", "import asyncio\nprint('go')\nawait asyncio.sleep(100)\nprint('not reached')")
    same((cell.status, cell.stdout, cell.error["name"]), ("interrupted", "go\n", "KeyboardInterrupt"))
    same(ok(i.run("await asyncio.sleep(0.01)\n'fine'")).stdout, "")
    cell = i.interrupt_when(b"go", "async def main():\n    print('go')\n    await asyncio.sleep(100)\n"
                            "asyncio.run(main())")
    same(cell.status, "interrupted")


@test()
def interrupted_subprocess(i):
    cell = i.interrupt_when(b"go", "import subprocess\np = subprocess.run('echo go; sleep 100', shell=True)")
    same(cell.status, "interrupted")
    cell = i.interrupt_when(b"go", "!echo go; sleep 100")
    same(cell.status, "interrupted")
    ok(i.run("1"))


@test()
def late_interrupts_do_no_harm(i):
    for n in range(30):
        os.kill(i.process.pid, 2)
        same(ok(i.run("%d" % n)).result["text/plain"], str(n))
        os.kill(i.process.pid, 2)


@test()
def interrupts_at_any_moment(i):
    """Whatever the moment, a cell ends once, and the interpreter goes on."""
    def during(cell):
        os.kill(i.process.pid, 2)

    for n in range(60):
        cell = i.run("for k in range(%d): display(k)" % (n % 7), during=during if n % 2 else None)
        assert cell.status in ("ok", "interrupted", "error"), cell.status
    os.kill(i.process.pid, 2)
    same(ok(i.run("'alive'")).result["text/plain"], "'alive'")


@test()
def handlers_of_user_code(i):
    ok(i.run("import signal\nold = signal.signal(signal.SIGINT, signal.SIG_IGN)"))
    same(i.interrupt_when(b"go", "import time\nprint('go')\ntime.sleep(100)").status, "interrupted")
    ok(i.run("def ring(*a): raise TimeoutError('alarm')\n"
             "old = signal.signal(signal.SIGALRM, ring)"))
    os.kill(i.process.pid, 14)
    same(ok(i.run("'not hit'")).result["text/plain"], "'not hit'")
    fails(i.run("signal.setitimer(signal.ITIMER_REAL, 0.05)\ntime.sleep(10)"), "TimeoutError")
    i.run("import sys\nsys.settrace(lambda *a: 1/0)")
    ok(i.run("1"))


# asyncio

@test()
def top_level_await(i):
    ok(i.run("import asyncio\nasync def slow(n):\n    await asyncio.sleep(0.01)\n    return n * 2"))
    same(ok(i.run("await slow(21)")).result["text/plain"], "42")
    same(ok(i.run("x = await slow(4)\nx")).result["text/plain"], "8")
    same(ok(i.run("asyncio.run(slow(5))")).result["text/plain"], "10")
    same(ok(i.run("[await slow(n) for n in (1, 2)]")).result["text/plain"], "[2, 4]")
    fails(i.run("await slow(None)"), "TypeError")


@test()
def background_tasks_survive(i):
    ok(i.run("import asyncio\nticks = []\nasync def tick():\n    while True:\n        ticks.append(1)\n"
             "        await asyncio.sleep(0.001)\nasync def start():\n    return asyncio.ensure_future(tick())\n"
             "task = await start()"))
    ok(i.run("asyncio.run(asyncio.sleep(0))"))
    ok(i.run("before = len(ticks)\nawait asyncio.sleep(0.1)"))
    same(ok(i.run("task.cancel()\nlen(ticks) > before")).result["text/plain"], "True")


# Forks

@test()
def forked_children_have_no_say(i):
    cell = ok(i.run("import os, sys\npid = os.fork()\nif pid == 0:\n    display('child')\n"
                    "    raise ValueError('in child')\n"
                    "_, status = os.waitpid(pid, 0)\nos.WEXITSTATUS(status)"))
    same([k for k, v in cell.events if k not in ("stdout", "stderr")], ["result"])
    same(cell.result["text/plain"], "1")
    has(cell.stdout, "child")
    has(cell.stderr, "ValueError: in child")
    same(ok(i.run("1")).result["text/plain"], "1")


@test()
def multiprocessing_works(i):
    code = ("import multiprocessing as mp\nctx = mp.get_context('fork')\ndef double(n):\n    print('in worker')\n"
            "    return 2 * n\nwith ctx.Pool(2) as pool:\n    got = pool.map(double, range(4))\ngot")
    cell = ok(i.run(code))
    same(cell.result["text/plain"], "[0, 2, 4, 6]")
    same(cell.stdout.count("in worker"), 4)


@test()
def sockets_are_not_inherited(i):
    cell = ok(i.run("import subprocess\nprint(subprocess.run(['ls', '-l', '/proc/self/fd'], stdout=-1, close_fds=False)"
                    ".stdout.decode())"))
    lacks(cell.stdout, "socket:")


# Breaking things by accident

@test(fresh=True)
def patched_modules(i):
    ok(i.run("import json, socket, struct, os, time, builtins, signal, sys, io, base64\n"
             "for m in (json, socket, struct, time, base64):\n    for n in list(vars(m)):\n"
             "        if not n.startswith('__'): setattr(m, n, None)\n"
             "os.write = os.read = builtins.open = None\n"))
    same(ok(i.run("print('still'); 7")).order, ["o:still", "result"])
    fails(i.run("1/0"), "ZeroDivisionError")


@test(fresh=True)
def a_cell_ends_whatever_is_broken(i):
    """Not every break can be helped; but a cell that does not end would be a hang."""
    i.run("import sys, os, builtins\nsys.settrace = sys.getrecursionlimit = os.fstat = os.dup2 = os._exit = None\n"
          "sys.stdout = sys.stderr = sys.stdin = None")
    same(ok(i.run("print('x')\n2")).order, ["o:x", "result"])
    i.run("builtins.compile = builtins.len = builtins.print = builtins.open = builtins.range = None")
    assert i.run("1").status in ("ok", "error")
    assert i.run("1/0").status in ("ok", "error")


@test("plain", fresh=True)
def emptied_modules(i):
    ok(i.run("import sys\nfor n in list(sys.modules):\n"
             "    if n not in ('sys', 'builtins', '__main__'): del sys.modules[n]"))
    same(ok(i.run("5 * 5")).result["text/plain"], "25")


@test()
def shadowing_names(i):
    ok(i.run("print, list, str, len, type, isinstance, dict, id = (None,) * 8\nsys = os = json = driver = None"))
    same(ok(i.run("2 + 2")).result["text/plain"], "4")
    fails(i.run("1/0"), "ZeroDivisionError")
    ok(i.run("del print, list, str, len, type, isinstance, dict, id"))


@test(fresh=True)
def removed_directory(i):
    ok(i.run("import os, shutil\nd = os.path.abspath('sub')\nos.mkdir(d)\nos.chdir(d)\nshutil.rmtree(d)"))
    same(ok(i.run("3")).result["text/plain"], "3")
    fails(i.run("os.getcwd()"), "FileNotFoundError")


@test(fresh=True)
def local_files_do_not_shadow_the_driver(i):
    for name in ("streams", "bundles", "hooks", "tracebacks", "figures", "json", "traceback"):
        with open(os.path.join(i.workspace, name + ".py"), "w") as f:
            f.write("raise RuntimeError('shadowed')\n")
    same(ok(i.run("1 + 1")).result["text/plain"], "2")


@test(fresh=True)
def low_limits(i):
    ok(i.run("import sys, gc\ngc.disable()\nsys.setrecursionlimit(60)"))
    same(ok(i.run("4")).result["text/plain"], "4")


# Magics and commands

@test()
def commands(i):
    ok(i.run("name = 'v'"))
    same(ok(i.run("print('a')\n!echo {name}$name; echo e >&2\nprint('b')")).stdout, "a\nvv\nb\n")
    same(ok(i.run("lines = !printf 'x\\ny\\n'\nlist(lines)")).result["text/plain"], "['x', 'y']")
    same(ok(i.run("!exit 3\n_exit_code")).result["text/plain"], "3")
    same(ok(i.run("for k in range(2):\n    !echo $k")).stdout, "0\n1\n")
    same(ok(i.run("s = '''\n!not a command\n'''\nprint(s)")).stdout, "\n!not a command\n\n")


@test()
def bash_cells(i):
    same(ok(i.run("%%bash\necho one\nx='two words'; echo \"$x\" '3'")).stdout, "one\ntwo words 3\n")
    fails(i.run("%%bash\nexit 4"), "CalledProcessError")


@test()
def magics(i):
    ok(i.run("%cd /"))
    same(ok(i.run("import os; os.getcwd()")).result["text/plain"], "'/'")
    ok(i.run("%%cd %s" % i.workspace))
    cell = ok(i.run("%%time\nn = 5\nprint(n)"))
    has(cell.stdout, "5\n", "Wall time")
    same(ok(i.run("n")).result["text/plain"], "5")
    error = fails(i.run("%no_such_magic"), "UsageError")
    has(error["value"], "no_such_magic")
    lacks(error["traceback"], "File")


@test("ipython")
def more_magics(i):
    has(ok(i.run("%timeit -n1 -r1 1+1")).stdout, "per loop")
    same(ok(i.run("%%capture out\nprint('caught')")).stdout, "")
    same(ok(i.run("out.stdout")).result["text/plain"], "'caught\\n'")
    with open(os.path.join(i.workspace, "script.py"), "w") as f:
        f.write("import sys\nran = 1\nprint('script')\nsys.exit('over')\n")
    cell = ok(i.run("%run script.py"))
    has(cell.stdout, "script")
    has(ok(i.run("%who")).stdout, "out")
    fails(i.run("%%time\n1/0"), "ZeroDivisionError")
    has(ok(i.run("%tb")).stderr, "ZeroDivisionError: division by zero")


@test("ipython")
def help_is_text(i):
    cell = ok(i.run("len?"))
    has(cell.stdout, "Docstring", "Return the number of items")
    lacks(cell.stdout, "\x1b")
    ok(i.run("def documented():\n    'what it does'\n    return 1"))
    has(ok(i.run("documented??")).stdout, "return 1")
    has(ok(i.run("help(len)")).stdout, "Return the number of items")


@test("ipython")
def modules_hidden_at_start_are_there_later(i):
    cell = ok(i.run("import IPython, importlib.util\n(IPython.embed.__name__, "
                    "importlib.util.find_spec('jedi') is None or __import__('jedi').__name__)"))
    assert cell.result["text/plain"] in ("('embed', 'jedi')", "('embed', True)"), cell.result
    ok(i.run("import IPython.terminal.embed"))


@test("ipython")
def breakpoints_do_not_hang(i):
    cell = i.run("breakpoint()\nprint('x')")
    assert cell.status in ("ok", "error"), cell.status
    ok(i.run("1"))


# is_complete and complete

@test()
def completeness(i):
    def status(code):
        return i.ask("is_complete", code=code)["status"]

    same(status("1 + 1"), "complete")
    same(status("for k in x:"), "incomplete")
    same(i.ask("is_complete", code="for k in x:")["indent"], "    ")
    same(status("for k in x:\n    pass\n\n"), "complete")
    same(status("f("), "incomplete")
    same(status("s = '''abc"), "incomplete")
    same(status("x = )"), "invalid")


@test()
def completion(i):
    ok(i.run("some_variable = 'text'"))
    answer = i.ask("complete", code="a = 1\nsome_var", cursor=14)
    assert any(m.startswith("some_variable") for m in answer["matches"]), answer
    same((answer["start"], answer["end"]), (6, 14))
    answer = i.ask("complete", code="some_variable.up", cursor=16)
    assert any("upper" in m for m in answer["matches"]), answer
    ok(i.run("class Mean:\n    def __getattr__(self, n): raise RuntimeError('mean')\n"
             "    def __dir__(self): 1/0\nm = Mean()"))
    i.ask("complete", code="m.x", cursor=3)
    i.ask("complete", code="", cursor=0)
    i.ask("complete", code="é = 1; é", cursor=8)


@test(fresh=True)
def garbage_from_the_other_side_is_survived(i):
    i.send(op="nonsense", id=1)
    same(ok(i.run("1")).result["text/plain"], "1")
    i.run("import sys; sys.stdout.flush()")


@test(fresh=True)
def many_cells_keep_memory(i):
    def rss():
        with open("/proc/%d/statm" % i.process.pid) as f:
            return int(f.read().split()[1]) * 4096

    for n in range(1500):
        i.run("%d" % n)
    before = rss()
    for n in range(1500):
        same(ok(i.run("%d" % n)).stderr, "")
    assert rss() - before < 8 << 20, "grew by %d bytes" % (rss() - before)
