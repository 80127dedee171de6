# SPDX-License-Identifier: Apache-2.0
"""Errors, interrupts, forks, breakage; then magics and questions about code."""
import os
import signal
import time

from checks import PYTHON, fails, has, lacks, ok, same, test
from harness import Gone, Interpreter


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
    has(error["traceback"], "entries omitted", "in <module>")
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
    has(error["value"], "characters omitted")


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
    """Whatever the moment, a cell ends once, and the interpreter keeps running."""
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


@test("ipython", needs=["IPython"], fresh=True)
def tracebacks_as_xmode_has_them(i):
    ok(i.run("def f(x):\n    y = x + 1\n    return 1 / 0"))
    seen = {}
    for mode in ("Plain", "Context", "Verbose", "Minimal"):
        has(ok(i.run("%xmode " + mode)).stdout, mode)
        seen[mode] = fails(i.run("f(41)"), "ZeroDivisionError")["traceback"]
    has(seen["Plain"], "Traceback (most recent call last):\n  File ", "in f\n")
    has(seen["Context"], "----> 3     return 1 / 0", "      1 def f(x):")
    lacks(seen["Context"], "x=41", "shell_ipython", "\x1b")
    has(seen["Verbose"], "x=41")
    same(seen["Minimal"], "ZeroDivisionError: division by zero")


@test()
def what_is_only_shown_does_not_fail_the_cell(i):
    cell = ok(i.run("class A:\n    def _repr_html_(self):\n        return 1 / 0\nA()"))
    has(cell.result["text/plain"], "A ")
    has(cell.error["traceback"], "Traceback", "in _repr_html_", "ZeroDivisionError: division by zero")
    lacks(cell.error["traceback"], "shell_")


@test("ipython", needs=["IPython"])
def what_user_code_shows_does_not_fail_the_cell(i):
    for code in ("try:\n    1 / 0\nexcept Exception:\n    get_ipython().showtraceback()\nprint('on')",
                 "get_ipython().run_cell('1 / 0')\nprint('on')", "get_ipython().run_cell('1 /')\nprint('on')"):
        cell = ok(i.run(code))
        has(cell.error["name"], "Error")
        same(cell.stdout, "on\n")
    fails(i.run("1 /"), "SyntaxError")
    cell = i.run("get_ipython().run_cell('1 / 0')\n1 / None")
    same((cell.status, [e["name"] for e in cell.all("error")]), ("error", ["ZeroDivisionError", "TypeError"]))


@test()
def there_is_no_debugger_to_type_into(i):
    for code in ("breakpoint()", "import pdb\npdb.set_trace()", "try:\n    1 / 0\nexcept Exception:\n    pdb.post_mortem()",
                 "help()"):
        has(fails(i.run(code), "EOFError")["value"], "nobody can type into this session")
    has(ok(i.run("help(len)")).stdout, "Return the number of items")
    ok(i.run("import io\npdb.Pdb(stdin=io.StringIO('c\\n'), stdout=io.StringIO()).set_trace()\n1"))


@test("ipython", needs=["IPython"])
def debug_says_what_to_do(i):
    i.run("1 / 0")
    has(fails(i.run("%debug"), "UsageError")["value"], "nobody can type into this session")


@test()
def programs_that_want_a_terminal_are_answered(i):
    has(ok(i.run("!vim x.txt </dev/null >/dev/null 2>&1 || false")).stderr, "vim draws on a terminal", "writefile")
    has(ok(i.run("!top </dev/null >/dev/null 2>&1 || false")).stderr, "top draws on a terminal", "!top -b -n 1")
    lacks(ok(i.run("!echo vim")).stderr, "terminal")


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


WRITE_SOON = """
import asyncio, os
async def later(n):
    for i in range(n):
        await asyncio.sleep(0.01)
    open("soon", "w").close()
    return n
"""


def comes(i, name):
    """Whether a file is made while no cell runs."""
    path = os.path.join(i.workspace, name)
    end = time.monotonic() + 60
    while not os.path.exists(path) and time.monotonic() < end:
        time.sleep(0.005)
    found = os.path.exists(path)
    if found:
        os.remove(path)
    return found


@test()
def tasks_run_on_between_cells(i):
    ok(i.run(WRITE_SOON))
    # Made in a cell that awaits, and in one that does not, by several ways.
    for make in ("async def start():\n    return asyncio.create_task(later(3))\ntask = await start()",
                 "task = asyncio.create_task(later(3), name='one')", "task = asyncio.ensure_future(later(3))",
                 "task = asyncio.get_event_loop().create_task(later(3))"):
        ok(i.run(make))
        assert comes(i, "soon"), make
        same(ok(i.run("task.done(), await task")).result["text/plain"], "(True, 3)")


@test()
def threads_reach_the_loop_between_cells(i):
    ok(i.run(WRITE_SOON + "import threading\nloop = asyncio.get_event_loop()\ngo = threading.Event()\n"
             "threading.Thread(target=lambda: go.wait(60) and asyncio.run_coroutine_threadsafe(later(0), loop)).start()"))
    ok(i.run("threading.Timer(0.05, go.set).start()"))
    assert comes(i, "soon")
    ok(i.run("async def wait():\n    return await loop.run_in_executor(None, go.wait)\ntask = loop.create_task(wait())"))
    same(ok(i.run("await task")).result["text/plain"], "True")


@test()
def what_tasks_print_and_show_between_cells_is_kept(i):
    ok(i.run("import asyncio\nasync def say():\n    await asyncio.sleep(0)\n    print('printed')\n    display('shown')\n"
             "    open('soon', 'w').close()\ntask = asyncio.create_task(say())"))
    assert comes(i, "soon")
    cell = ok(i.run("task.done()"))
    same(cell.result["text/plain"], "True")
    has(cell.stdout, "printed\n'shown'\n")


@test()
def a_task_that_fails_ends_alone(i):
    for failure, name in (("1 / 0", "ZeroDivisionError"), ("raise SystemExit('bye')", "SystemExit"),
                          ("raise KeyboardInterrupt", "KeyboardInterrupt")):
        ok(i.run("import asyncio\nasync def fail():\n    open('soon', 'w').close()\n    %s\n"
                 "task = asyncio.create_task(fail())" % failure))
        assert comes(i, "soon")
        same(ok(i.run("1 + 1")).result["text/plain"], "2") if name != "KeyboardInterrupt" else i.run("1 + 1")
        same(ok(i.run("type(task.exception()).__name__")).result["text/plain"], repr(name))


@test()
def an_interrupt_between_cells_ends_no_task(i):
    ok(i.run("import asyncio\nticks = 0\nasync def tick():\n    global ticks\n    while True:\n        ticks += 1\n"
             "        await asyncio.sleep(0.001)\ntask = asyncio.create_task(tick())"))
    for _ in range(3):
        os.killpg(i.process.pid, signal.SIGINT)
        time.sleep(0.1)
    before = int(ok(i.run("ticks")).result["text/plain"])
    same(ok(i.run("task.done()")).result["text/plain"], "False")
    assert before > 10, before
    same(i.ask("is_complete", code="1")["status"], "complete")
    same(i.ask("stale")["packages"], [])
    ok(i.run("task.cancel()"))


@test()
def a_task_that_does_not_give_way_can_be_interrupted(i):
    ok(i.run("import asyncio, time\nkept = 5\nasync def hog():\n    open('soon', 'w').close()\n    while True:\n"
             "        pass\ntask = asyncio.create_task(hog())"))
    assert comes(i, "soon")
    sent = []

    def during(cell):
        if not sent:
            sent.append(os.killpg(i.process.pid, signal.SIGINT))
    cell = i.run("print('not reached')", during=during)
    same((cell.status, cell.stdout), ("interrupted", ""))
    same(ok(i.run("kept, task.done()")).result["text/plain"], "(5, True)")


@test()
def a_loop_with_nothing_to_do_is_not_run(i):
    """It waits like an interpreter that has none: no time is spent."""
    ok(i.run("import asyncio\nawait asyncio.sleep(0)"))
    seen = [i._activity()]
    while len(seen) < 100 and seen[-1] not in seen[:-1]:
        time.sleep(0.1)
        seen.append(i._activity())
    assert seen[-1] in seen[:-1], seen


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
def frames_are_not_inherited(i):
    cell = ok(i.run("import subprocess\nprint(subprocess.run(['ls', '/proc/self/fd'], stdout=-1, close_fds=False)"
                    ".stdout.decode().split())"))
    same(cell.stdout.strip(), "['0', '1', '2', '3']")  # 3 is the directory


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
    same(i.run("%%time\n1/0").error["name"], "ZeroDivisionError")  # a cell that fails, or not: IPython changed its mind
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


COMPLETED = (
    "impor", "whi", "lam", "awai", "Tru", "pri", "ValueE", "displ", "exi", "for i in ran", "some_v", "print(some_v",
    "a = 1\nsome_v", "k.", "k.a", "k._", "k.__cl", "x = k.at", "k.attr_x.bit_l", "k.nothing.x", "some_variable.up",
    "os.path.joi", "import js", "import ", "import os.pa", "import xml.et", "from json.dec", "from o",
    "from os import pat", "from os import path, getc", "from os.path import bas", "import no_such.x",
    "open('da", "open(\"da", "open('fold", "open('folder/", "open('folder/in", "'da", "!ls da", "!ls folder/in",
    "cd fol", "%cd fol", "/tm", "d['ke", "fun(bet", "é_na", "# some")


@test("plain", needs=("IPython",), fresh=True)
def completion_is_that_of_ipython(i):
    """In what is completed, where, and with what; but for magics, of which it has few, and for get_ipython."""
    prepare = (
        "import os\nsome_variable = 'text'\né_name = 1\nd = {'key one': 1, 'key2': 2}\n"
        "class K:\n    def __init__(self): self.attr_x, self._private = 1, 2\nk = K()\n"
        "def fun(alpha_arg, beta_arg=1): pass\nos.mkdir('folder')\n"
        "for name in 'data file.csv', 'data.csv', '.data', 'folder/inner.txt': open(name, 'w').close()")
    other, differ = Interpreter(PYTHON), []
    try:
        for one in i, other:
            ok(one.run(prepare))
        for code in COMPLETED:
            got, wanted = (one.ask("complete", code=code, cursor=len(code)) for one in (i, other))
            for answer in got, wanted:
                # As they would stand there: IPython 8.36 completes "k.a" by ".attr" from the point on.
                answer["matches"] = sorted(code[:answer["start"]] + m for m in answer["matches"] if m[:1] != "%")[:500]
                answer["start"] = None
            if code in ("k._", "k.__cl") and not wanted["matches"]:
                continue  # from 8.36 on IPython keeps such to itself
            if (got["matches"], got["start"]) != (wanted["matches"], wanted["start"]):
                differ.append("%r: %r, IPython: %r" % (code, (got["start"], sorted(set(got["matches"]) - set(
                    wanted["matches"]))), (wanted["start"], sorted(set(wanted["matches"]) - set(got["matches"])))))
        same(i.ask("complete", code="%ti", cursor=3)["matches"], ["%%time", "%time"])
    finally:
        other.close()
    assert not differ, "\n".join(differ)


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
