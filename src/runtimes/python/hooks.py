# SPDX-License-Identifier: Apache-2.0
"""What is adjusted when user code imports certain modules, and what replaces input() and breakpoint().

A finder at the front of sys.meta_path looks for a few names only; for those it lets the other finders find the module,
and runs a function of ours after the module's own code. So nothing is imported for their sake, and code that brings
its own versions of these modules works as well.
"""
import builtins
import os
import sys

BACKEND = "codebox_matplotlib"
INLINE = "matplotlib_inline.backend_inline"
NO_DEBUGGER = "breakpoint() is not available: nobody can type into this session. Print what you want to know instead."
NO_INPUT = "%s is not available: nobody can type into this session. Put the value into the code instead."


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
    """The matplotlib backend, which is no file on sys.path."""

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
            "ctypes": self.unbuffer_libc,
            "getpass": self.refuse_getpass,
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

    @staticmethod
    def refuse_getpass(getpass):
        def no_getpass(prompt="Password: ", stream=None, **kwargs):
            raise EOFError(NO_INPUT % "getpass()")

        getpass.getpass = no_getpass

    def backend(self):
        return INLINE if self.driver.shell.inline() else BACKEND

    def choose_backend(self, matplotlib):
        if os.environ.get("MPLBACKEND"):
            return
        matplotlib.rcParams["backend"] = "module://" + self.backend()

    def take_over_inline(self, inline):
        self.driver.shell.take_over_inline(inline)

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
        return real(prompt)

    def breakpoint(*args, **kwargs):
        if sys.stdin is driver.streams.stdin and "PYTHONBREAKPOINT" not in os.environ:
            raise EOFError(NO_DEBUGGER)
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
