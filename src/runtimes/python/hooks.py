# SPDX-License-Identifier: Apache-2.0
"""What is adjusted when user code imports certain modules, and what replaces input() and breakpoint().

A finder at the front of sys.meta_path looks for a few names only; for those it lets the other finders find the module,
and runs a function of ours after the module's own code. So nothing is imported for their sake, and code that brings
its own versions of these modules works as well.
"""
import builtins
import errno
import os
import sys

BACKEND = "codebox_matplotlib"
INLINE = "matplotlib_inline.backend_inline"
NO_DEBUGGER = "%s is not available: nobody can type into this session. Print what you want to know instead."
NO_HELP = "help() asks what to explain, and nobody can type into this session. Name it: help(object), help('topic')."
COLUMNS = 50  # of a data frame, in text and HTML; of a wider one the middle is omitted
NO_INPUT = "%s is not available: nobody can type into this session. Put the value into the code instead."

EDIT = "write the file from Python, or with %%writefile"
SCREEN = {"top": "!top -b -n 1", "htop": "!top -b -n 1", "watch": "run the command itself, in a loop where need be",
          "vim": EDIT, "vi": EDIT, "nano": EDIT, "emacs": EDIT, "more": "!cat", "tmux": "subprocess.Popen()",
          "screen": "subprocess.Popen()"}  # programs that want a terminal, and what does without


class Loader:
    """Runs a hook after a module has been loaded; all else is the real loader's."""

    def __init__(self, loader, hook):
        self._loader, self._hook = loader, hook

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        spec = getattr(module, "__spec__", None)
        if spec is not None:
            spec.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._hook(module)


class BackendLoader:
    """The matplotlib backend, which is not a file on sys.path."""

    def __init__(self, hooks):
        self._hooks = hooks

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        self._hooks.figures().make_backend(module.__dict__)


class Hooks:
    """Also the finder."""

    def __init__(self, driver):
        self.driver = driver
        self.after = {
            "asyncio": driver.events.let_cells_make_tasks,
            "ctypes": self.unbuffer_libc,
            "getpass": self.refuse_getpass,
            "pdb": self.refuse_pdb,
            "pydoc": self.refuse_help,
            "pandas": self.show_all_columns,
            "matplotlib.font_manager": self.fall_back,
            "matplotlib": self.choose_backend,
            INLINE: self.take_over_inline,
        }

    def find_spec(self, name, path=None, target=None):
        hook = self.after.get(name)
        if hook is None:
            if name == BACKEND:
                from importlib.machinery import ModuleSpec
                return ModuleSpec(name, BackendLoader(self))
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec = find(name, path, target)
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = Loader(spec.loader, hook)
                return spec
        return None

    def ended(self, command, status):
        """A shell command of a cell has."""
        words = command.split(None, 1)
        instead = SCREEN.get(words[0].rpartition("/")[2]) if status and words else None
        if instead:
            self.driver.streams.say("%s draws on a terminal, and there is none here; instead: %s" % (words[0], instead), True)

    def figures(self):
        return self.driver.part("figures").get(self.driver)

    @staticmethod
    def unbuffer_libc(ctypes):
        """What C code prints must be in the pipe at once, in order with what Python prints. Then nothing is left to
        be flushed, and fflush(NULL), which waits for any thread that is inside a read, is not needed."""
        try:
            libc = ctypes.CDLL(None)
            stdout = ctypes.c_void_p.in_dll(libc, "stdout")
            libc.fflush(stdout)
            libc.setvbuf(stdout, None, 2, ctypes.c_size_t(0))  # 2: _IONBF, in glibc and musl
        except (OSError, ValueError, AttributeError):
            pass

    def refuse_getpass(self, getpass):
        streams, real = self.driver.streams, getpass.getpass

        def no_getpass(prompt="Password: ", stream=None, **kwargs):
            if sys.stdin is streams.stdin:
                raise EOFError(NO_INPUT % "getpass()")
            if hasattr(sys.stdin, "ask"):
                return sys.stdin.ask(prompt, True)
            return real(prompt, stream, **kwargs)

        getpass.getpass = no_getpass

    def refuse_pdb(self, pdb):
        """Else it reads the end of standard input, and a bare BdbQuit is all that is said."""
        streams, interact = self.driver.streams, pdb.Pdb.interaction

        def interaction(self, *args, **kwargs):
            if self.stdin is streams.stdin and not self.cmdqueue and not getattr(self, "rcLines", None):
                raise EOFError(NO_DEBUGGER % "the debugger")
            return interact(self, *args, **kwargs)

        pdb.Pdb.interaction = interaction

    def refuse_help(self, pydoc):
        streams, interact = self.driver.streams, pydoc.Helper.interact

        def interact_(self):
            if sys.stdin is streams.stdin:
                raise EOFError(NO_HELP)
            interact(self)

        pydoc.Helper.interact = interact_

    @staticmethod
    def show_all_columns(pandas):
        """Where there is a terminal, pandas leaves out what is wider; here is none."""
        pandas.set_option("display.max_columns", COLUMNS)

    @staticmethod
    def fall_back(font_manager):
        """Characters that a font lacks come from the image's further fonts (its matplotlibrc), also when a style has
        replaced the list that names them."""
        import matplotlib
        find = getattr(font_manager.FontManager, "_find_fonts_by_props", None)  # since 3.6
        further = matplotlib.rcParamsOrig["font.family"][1:]
        if find is None or not further:
            return

        def _find_fonts_by_props(self, prop, *args, **kwargs):
            paths = find(self, prop, *args, **kwargs)
            for family in further:
                try:
                    path = self.findfont(family, fallback_to_default=False)
                except ValueError:
                    continue
                if path not in paths:
                    paths.append(path)
            return paths

        font_manager.FontManager._find_fonts_by_props = _find_fonts_by_props

    def backend(self):
        return INLINE if self.driver.shell.inline() else BACKEND

    def choose_backend(self, matplotlib):
        if os.environ.get("MPLBACKEND"):
            return
        matplotlib.rcParams["backend"] = "module://" + self.backend()

    def take_over_inline(self, inline):
        self.driver.shell.take_over_inline(inline)

    @staticmethod
    def link_font_cache():
        """An image may carry matplotlib's font cache; building one takes seconds."""
        shared = "/usr/share/codebox/cache/matplotlib"
        try:
            names = os.listdir(shared)
            own = os.path.expanduser("~/.cache/matplotlib")
            os.makedirs(own, exist_ok=True)
            for name in names:
                if not os.path.lexists(own + "/" + name):
                    os.symlink(shared + "/" + name, own + "/" + name)
        except OSError as e:
            if e.errno not in (errno.ENOENT, errno.EACCES, errno.EROFS, errno.ENOSPC, errno.ENOTDIR, errno.EEXIST):
                raise

    def warm_up(self):
        try:
            import ctypes  # noqa: F401 (for its hook)
        except Exception:  # not there, or user code has patched what it needs
            pass


def replace_input(driver):
    real = builtins.input

    def input(prompt="", /):
        """Raises EOFError: there is nobody to type. Reads sys.stdin if user code has put something else there."""
        if sys.stdin is driver.streams.stdin:
            raise EOFError(NO_INPUT % "input()")
        if hasattr(sys.stdin, "ask"):
            return sys.stdin.ask(prompt)
        return real(prompt)

    def breakpoint(*args, **kwargs):
        if sys.stdin is driver.streams.stdin and "PYTHONBREAKPOINT" not in os.environ:
            raise EOFError(NO_DEBUGGER % "breakpoint()")
        return sys.__breakpointhook__(*args, **kwargs)

    builtins.input = input
    sys.breakpointhook = breakpoint


def install(driver):
    hooks = Hooks(driver)
    for name in hooks.after:
        if name in sys.modules:
            hooks.after[name](sys.modules[name])
    sys.meta_path.insert(0, hooks)
    replace_input(driver)
    return hooks
