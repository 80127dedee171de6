# SPDX-License-Identifier: Apache-2.0
"""Cells run by IPython's InteractiveShell (7 and later).

IPython is used as it is; what is replaced is where things go (frames instead of a terminal) and what a sandbox has no
use for: history on disk, a profile directory, the pager, pseudo-terminals for `!cmd`. Its package imports much that
only its terminal needs; those imports are kept out while it loads, and work later if user code asks for them.
"""
import codeop
import os
import re
import sys
from ast import Expr, PyCF_ONLY_AST
from types import ModuleType

# `import IPython` runs the package's __init__, which imports the terminal shell and with it prompt_toolkit; completion
# imports jedi, which is slow and has crashed on user objects. Both look absent until the import is done.
_terminal = "IPython.terminal.embed"


def _import_lean():
    stub = None
    hidden = [name for name in ("jedi",) if name not in sys.modules]
    for name in hidden:
        sys.modules[name] = None
    if _terminal not in sys.modules:
        stub = sys.modules[_terminal] = ModuleType(_terminal)

        def embed(*args, **kwargs):
            from IPython.terminal.embed import embed as real
            return real(*args, **kwargs)

        stub.embed = embed
    try:
        from IPython.core import interactiveshell  # noqa: F401
        import IPython.core.completer  # noqa: F401
    finally:
        for name in hidden:
            del sys.modules[name]
        if stub is not None:
            del sys.modules[_terminal]


def _import_ipython():
    before = set(sys.modules)
    try:
        _import_lean()
    except Exception:  # a version that needs more of what was kept out
        for name in set(sys.modules) - before:
            if name.partition(".")[0] in ("IPython", "traitlets"):
                del sys.modules[name]


_import_ipython()

import IPython
from IPython.core import interactiveshell
from IPython.core.autocall import ExitAutocall
from IPython.core.compilerop import CachingCompiler
from IPython.core.displaypub import DisplayPublisher
from IPython.core.error import UsageError
from IPython.core.profiledir import ProfileDir
from traitlets import Any, Type
from traitlets.config import Config

if IPython.version_info[0] < 7:
    raise ImportError("IPython %s is too old" % IPython.__version__)

INCOMPLETE = getattr(codeop, "PyCF_ALLOW_INCOMPLETE_INPUT", 0) | getattr(codeop, "PyCF_DONT_IMPLY_DEDENT", 0)

COLOURS = re.compile(r"\x1b\[[0-9;]*m")

WARM_UP = ("None", "import sys\n1 + 1\n2 + 2")

_driver = None  # set by make()
quick = part("quick")  # noqa: F821 (driver.py puts it here)


class MemoryDB(dict):
    """Stands in for PickleShareDB: what IPython remembers between runs ends with the session."""

    def __init__(self, root=""):
        super().__init__()

    def hset(self, hashroot, key, value):
        self.setdefault(hashroot, {})[key] = value

    def hget(self, hashroot, key, default=None, fast_only=True):
        return self.get(hashroot, {}).get(key, default)

    def hdict(self, hashroot):
        return dict(self.get(hashroot, {}))

    def keys(self, pattern=None):
        if pattern is None:
            return super().keys()
        from fnmatch import fnmatch
        return [k for k in super().keys() if fnmatch(k, pattern)]


class NoProfile(ProfileDir):
    """A profile directory that is not made."""

    def _location_changed(self, change):
        pass


class Exit(ExitAutocall):
    """exit and quit, with or without parentheses and a code."""

    rewrite = False

    def __call__(self, code=None):
        raise SystemExit(code)


class CellCompiler(CachingCompiler):
    """Gives cells the names that tracebacks, warnings and inspect show."""

    serial = 0
    whole = None     # the text of the driver's cell is about to be looked at
    foreseen = None  # its syntax tree, when it has one, and what that was made from

    def name(self, number):
        if _driver.shell is not None and _driver.shell.executing == number:
            return "<cell %d>" % number
        self.serial += 1  # code that a cell gives to run_cell(), and the like
        return "<cell %d.%d>" % (number, self.serial)

    def get_code_name(self, raw_code, transformed_code, number):
        return self.name(number)

    def foresee(self, source):
        """True when source is valid as it is. Of the driver's cell, the tree is kept for ast_parse()."""
        first, self.whole = self.whole, None
        if first is None:
            return False  # what a cell gives to run_cell() and the like may never be run
        key = source, "<cell %d>" % first, self.flags
        try:
            self.foreseen = key, self.ast_parse(source, key[1])
        except Exception:
            return False
        return True

    def ast_parse(self, source, filename="<unknown>", symbol="exec"):
        foreseen, self.foreseen = self.foreseen, None
        if foreseen is not None and foreseen[0] == (source, filename, self.flags):
            return foreseen[1]
        # A cell is whole: "'(' was never closed" tells more than "incomplete input".
        return compile(source, filename, symbol, self.flags & ~INCOMPLETE | PyCF_ONLY_AST, 1)

    def cache(self, transformed_code, number=0, raw_code=None):
        import linecache
        name = self.name(number)
        # Without a time of modification, linecache never asks the disk about an entry.
        linecache.cache[name] = (len(transformed_code), None,
                                 [line + "\n" for line in transformed_code.splitlines()], name)
        if hasattr(linecache, "_ipython_cache"):
            linecache._ipython_cache[name] = linecache.cache[name]
        if hasattr(self, "_filename_map"):
            self._filename_map[name] = number
        _driver.shell.executing = None  # the next code is another
        return name


class Publisher(DisplayPublisher):
    """display() and clear_output() become frames."""

    def publish(self, data, metadata=None, source=None, *, transient=None, update=False, **kwargs):
        _driver.display(data, metadata, transient, update)

    def clear_output(self, wait=False):
        _driver.clear(wait)


class ResultHook(quick.Hook):
    """The value of a cell's last expression becomes a frame."""

    def write_output_prompt(self):
        pass

    def write_format_data(self, format_dict, md_dict=None):
        _driver.result(self.prompt_count, format_dict, md_dict, self.shell.at_end(sys._getframe(2)))

    def log_output(self, format_dict):
        pass  # would keep a copy of everything shown

    def cull_cache(self):
        """Out is full: forget its oldest entries, without the warning that IPython prints each time."""
        results = self.shell.user_ns.get("_oh", {})
        for number in sorted(results)[:max(int(len(results) * self.cull_fraction), 2)]:
            self.shell.user_ns.pop("_%d" % number, None)
            results.pop(number, None)

    def finish_displayhook(self):
        if hasattr(self, "_is_active"):
            self._is_active = False


class Formatter(quick.Formatter):
    """Notes which figures have been shown, and shows them whatever their backend."""

    def format(self, obj, include=None, exclude=None):
        if include is None and exclude is None and self.is_simple(obj):
            text = self.text(obj)
            return ({}, {}) if text is None else ({"text/plain": text}, {})
        data, metadata = super().format(obj, include, exclude)
        figures = _driver.parts.get("figures")
        if figures is not None or "matplotlib.figure" in sys.modules:
            figures = _driver.hooks.figures()
            if figures.is_figure(obj):
                if not include and not any(mime.startswith(("image/", "application/pdf")) for mime in data):
                    png = figures.png(obj)
                    if png is not None:
                        data["image/png"] = png
                figures.mark(obj)
        return data, metadata


class Shell(quick.Unwatched, interactiveshell.InteractiveShell):
    """codebox's shell."""

    compiler_class = Type(CellCompiler)
    display_pub_class = Type(Publisher)
    displayhook_class = Type(ResultHook)
    exiter = Any()
    execution_count = quick.Count(1)
    last_execution_succeeded = quick.Success(True)
    last_execution_result = quick.Result(interactiveshell.ExecutionResult, allow_none=True)

    _memory_db = None

    @property
    def db(self):
        if self._memory_db is None:
            self._memory_db = MemoryDB()
        return self._memory_db

    @db.setter
    def db(self, value):
        pass

    def _exiter_default(self):
        return Exit(self)

    def _ipython_dir_changed(self, change):
        pass  # would make it

    def init_profile_dir(self, profile_dir):
        self.profile_dir = NoProfile(location=os.path.join(self.ipython_dir, "profile_default"))

    def init_virtualenv(self):
        pass

    def init_display_formatter(self):
        self.display_formatter = Formatter(parent=self)
        self.configurables.append(self.display_formatter)

    def init_hooks(self):
        super().init_hooks()
        self.set_hook("show_in_pager", _page, 50)

    def init_prompts(self):
        pass  # sys.ps1 stays unset: this is not a terminal

    def init_logstart(self):
        pass

    def enable_gui(self, gui=None):
        pass  # there is no display to have a loop for

    def enable_matplotlib(self, gui=None):
        """%matplotlib, whatever is asked for: figures are images here."""
        import matplotlib.pyplot as plt
        backend = "module://" + _driver.hooks.backend()
        if matplotlib_backend() != backend:
            plt.switch_backend(backend)
        return "inline", backend

    def ask_exit(self):
        raise SystemExit(0)

    def system(self, cmd):
        """!cmd: the command writes to the pipes itself, so its output is in order and arrives while it runs."""
        self.user_ns["_exit_code"] = run_command(self.var_expand(cmd, depth=1))

    system_piped = system_raw = system

    def should_run_async(self, raw_cell, **kwargs):
        cell = kwargs.get("transformed_cell")
        if cell is not None and "await" not in cell and "async" not in cell:
            return False  # without compiling it to find out
        return super().should_run_async(raw_cell, **kwargs)

    depth = 0          # cells that run: one, and those that it gave to run_cell()
    left = -1          # statements of the first that are still to come; negative: nobody counts
    last_code = None   # of its last statement, when that is an expression

    async def run_ast_nodes(self, nodelist, *args, **kwargs):
        self.depth += 1
        self.left = len(nodelist) if self.depth == 1 and nodelist and type(nodelist[-1]) is Expr else -1
        try:
            return await super().run_ast_nodes(nodelist, *args, **kwargs)
        finally:
            self.depth -= 1
            self.left = -1

    def at_end(self, frame):
        """True when frame is the cell's last statement, an expression, which is showing its value."""
        return self.last_code is not None and frame.f_code is self.last_code

    async def run_code(self, code_obj, result=None, *, async_=False):
        """Run one statement's code. True: it raised."""
        self.left -= 1
        self.last_code = code_obj if self.left == 0 and not async_ else None
        try:
            if async_:
                await eval(code_obj, self.user_global_ns, self.user_ns)
            else:
                exec(code_obj, self.user_global_ns, self.user_ns)
        except SystemExit as e:
            if result is not None:
                result.error_in_exec = e
        except self.custom_exceptions:
            etype, value, tb = sys.exc_info()
            if result is not None:
                result.error_in_exec = value
            self.CustomTB(etype, value, tb)
        except BaseException as e:
            e = _driver.events.own_cancellation(e)
            if result is not None:
                result.error_in_exec = e
            self.report(e)
        else:
            return False
        return True

    def showtraceback(self, exc_tuple=None, filename=None, tb_offset=None, exception_only=False,
                      running_compiled_code=False):
        value = (exc_tuple or sys.exc_info())[1]
        if value is None:  # %tb: an earlier cell's
            value = getattr(sys, "last_value", None)
            print("No traceback available to show." if value is None else
                  _driver.part("tracebacks").describe(_driver, value, None, self.traceback_of(value))[2], file=sys.stderr)
        elif isinstance(value, SystemExit):
            _driver.exit_code(value)  # %run of a script that ends with sys.exit("message")
        else:
            self.report(value, exception_only)

    def showsyntaxerror(self, filename=None, running_compiled_code=False):
        self.showtraceback()

    def showindentationerror(self):
        self.showtraceback()

    def _showtraceback(self, etype, evalue, stb):
        _driver.error(evalue, text="\n".join(stb) if isinstance(stb, list) else str(stb))

    def report(self, value, exception_only=False):
        if not isinstance(value, MemoryError):
            sys.last_type, sys.last_value, sys.last_traceback = type(value), value, value.__traceback__
        short = exception_only or isinstance(value, UsageError)
        _driver.error(value, text=self.in_short(value) if short else self.traceback_of(value))

    @staticmethod
    def in_short(value):
        return "%s: %s" % (type(value).__name__, _driver.bundles.safe_str(value))

    mode_chosen = False  # by %xmode; until then tracebacks are Python's own

    def init_traceback_handlers(self, custom_exceptions):
        super().init_traceback_handlers(custom_exceptions)
        set_mode = self.InteractiveTB.set_mode

        def choose(mode=None):
            set_mode(mode)
            self.mode_chosen = True

        self.InteractiveTB.set_mode = choose

    def traceback_of(self, value):
        """As %xmode has it; None: as Python does."""
        mode = self.InteractiveTB.mode
        if not self.mode_chosen or mode == "Plain" or isinstance(value, SyntaxError):
            return None
        if mode == "Minimal":
            return self.in_short(value)
        tb, internal = value.__traceback__, _driver.part("tracebacks").internal(_driver)
        while tb is not None and internal(tb.tb_frame.f_code.co_filename):
            tb = tb.tb_next
        try:
            return "\n".join(self.InteractiveTB.structured_traceback(type(value), value, tb, tb_offset=0))
        except Exception:  # it looks into sources and variables
            return None

    def debugger(self, force=False):
        raise UsageError(_driver.part("hooks").NO_DEBUGGER % "%debug")


def _page(self, data, start=0, screen_lines=0):
    """`object?` and other long texts: printed, there is no pager."""
    if isinstance(data, dict):
        data = data.get("text/plain", "")
    print(data)


def matplotlib_backend():
    import matplotlib
    return matplotlib.get_backend()


def run_command(command):
    """Run a shell command in the foreground; its exit status, or minus the signal that ended it."""
    import subprocess
    _driver.streams.flush()
    shell = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"
    child = subprocess.Popen(command, shell=True, executable=shell)
    try:
        status = child.wait()
        _driver.hooks.ended(command, status)
        return status
    except BaseException:  # an interrupt reaches the command as well; it gets a moment to end
        try:
            child.wait(1)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        raise


class Kept:
    """What cells change in IPython, as it was before: names, In and Out, counts, the last result."""

    def __init__(self, ip):
        self.before = []
        self.keep(ip.user_ns, ip.user_ns_hidden)
        for owner in ip, ip.history_manager, ip.displayhook:
            self.keep(vars(owner), vars(owner)["_trait_values"])
        for name in "input_hist_parsed", "input_hist_raw", "output_hist", "output_hist_reprs", "outputs", "exceptions":
            self.keep(getattr(ip.history_manager, name, None))

    def keep(self, *containers):
        self.before += [(it, it.copy()) for it in containers if isinstance(it, (dict, list))]

    def restore(self):
        for container, before in self.before:
            if isinstance(container, list):
                del container[len(before):]
                continue
            for name in [name for name in container if name not in before]:
                del container[name]
            for name, value in before.items():
                if container.get(name, container) is not value:
                    container[name] = value


class IPythonShell:
    """What driver.py asks of a shell."""

    kind = "ipython"

    def __init__(self, driver):
        config = Config()
        config.HistoryManager.enabled = False
        config.InteractiveShell.colors = "nocolor" if IPython.version_info[0] >= 9 else "NoColor"
        config.InteractiveShell.separate_in = ""
        config.InteractiveShell.banner1 = ""
        config.Completer.use_jedi = False
        if hasattr(interactiveshell, "PickleShareDB"):
            interactiveshell.PickleShareDB = MemoryDB
        self.driver = driver
        self.executing = None  # number of the cell that is about to be compiled
        home = os.path.expanduser("~/.ipython")
        self.ip = Shell.instance(config=config, ipython_dir=home)
        quick.take_over(self.ip)
        self.ip.loop_runner = driver.events.run
        self.ip.events.register("post_execute", self.show_figures)
        self.ip.exiter = Exit(self.ip)
        for program in "pip", "uv", "conda", "mamba":
            self.ip.register_magic_function(self.installer(program), "line", program)
        self.ip.register_magic_function(self.sql(), "line_cell", "sql")
        self.ip.push({"exit": self.ip.exiter, "quit": self.ip.exiter}, interactive=False)  # nothing for %who

    def installer(self, program):
        """%pip, %uv and %conda, without IPython's advice to restart a kernel."""
        def magic(line):
            self.ip.system(self.driver.packages.command(program, line))

        magic.__doc__ = "%%%s, as in a shell: install packages for this session." % program
        return magic

    def sql(self):
        """%sql and %%sql."""
        def magic(line, cell=None):
            return self.driver.part("databases").run(self.ip.user_ns, line, cell, UsageError)

        magic.__doc__ = "%%sql CONNECTION [NAME <<], and a query below: ask a database; the result is a data frame."
        magic._ipython_magic_no_var_expand = True
        return magic

    def count(self):
        return self.ip.execution_count

    def run(self, code, silent):
        """Run a cell; the exception that ended it, or None."""
        ip = self.ip
        ip.depth = 0
        self.executing = ip.compile.whole = ip.execution_count
        self.driver.events.begin(code)
        if "InlineBackend" in code:
            self.configure_inline()
        with ip.builtin_trap:  # which IPython would set and take away twice
            result = ip.run_cell(code, store_history=not silent, silent=silent)
        history = ip.history_manager
        history.db_input_cache.clear()  # for the database that is not there
        outputs = getattr(history, "outputs", None)
        if outputs:
            outputs.clear()
        return result.error_before_exec or result.error_in_exec

    def python(self, code):
        """The cell as Python, with calls where there are magics and commands."""
        with self.ip.builtin_trap:
            return self.ip.transform_cell(code)

    def run_program(self, call):
        """Have a file run, with display() and the figures that a cell has."""
        self.driver.events.begin("")
        with self.ip.builtin_trap:
            call()
        self.show_figures()

    def warm_up(self, rehearse):
        """Do what a cell does, and leave nothing of it behind."""
        import linecache
        compiler, kept = self.ip.compile, Kept(self.ip)
        try:
            for code in WARM_UP:
                rehearse(code)
        finally:
            kept.restore()
        self.executing = None
        compiler.serial = 0
        for table in (linecache.cache, getattr(linecache, "_ipython_cache", {}),
                      getattr(compiler, "_filename_map", {})):
            for name in [name for name in table if name.startswith("<cell ")]:
                del table[name]

    def is_complete(self, code):
        if code.startswith("%%") and "\n" in code and not code.rpartition("\n")[2].strip():
            return "complete", ""  # one blank line ends it, as it ends a block
        status, indent = self.ip.check_complete(code)
        return status, indent or ""

    def complete(self, code, cursor):
        start = code.rfind("\n", 0, cursor) + 1
        end = code.find("\n", cursor)
        line = code[start:] if end < 0 else code[start:end]
        text, matches = self.ip.complete(None, line, cursor - start)
        return list(matches), cursor - len(text or ""), cursor

    def inspect(self, code, cursor):
        from IPython.utils.tokenutil import token_at_cursor
        name = token_at_cursor(code, cursor)
        if not name or not self.ip._object_find(name).found:
            return ""
        return COLOURS.sub("", self.ip.object_inspect_mime(name)["text/plain"])

    # Figures

    def inline(self):
        from importlib.util import find_spec
        return find_spec("matplotlib_inline") is not None

    def take_over_inline(self, inline):
        """matplotlib_inline would show figures itself after each cell."""
        flush = inline.flush_figures

        def flush_figures():
            """Does nothing: codebox's driver shows figures."""

        inline.flush_figures = flush_figures
        try:
            self.ip.events.unregister("post_execute", flush)
        except ValueError:
            pass

    def configure_inline(self):
        """`%config InlineBackend...` may come before the first plot."""
        try:
            from matplotlib_inline.config import InlineBackend
        except ImportError:
            return
        inline = InlineBackend.instance(parent=self.ip)
        inline.shell = self.ip
        if inline not in self.ip.configurables:
            self.ip.configurables.append(inline)

    def show_figures(self):
        if "matplotlib._pylab_helpers" not in sys.modules:
            return
        config = sys.modules.get("matplotlib_inline.config")
        close = True
        if config is not None and config.InlineBackend.initialized():
            close = config.InlineBackend.instance().close_figures
        try:
            self.driver.hooks.figures().show(close)
        except Exception as e:
            self.ip.report(e)

    def show_figure(self, figure):
        data, metadata = self.ip.display_formatter.format(figure)
        if data:
            self.driver.display(data, metadata)


def make(driver):
    global _driver
    _driver = driver
    return IPythonShell(driver)
