# SPDX-License-Identifier: Apache-2.0
"""What IPython does in every cell, without the part of it that comes to nothing.

Most of the time of a short cell goes into asking whether anybody has registered, replaced or written something special.
Each function here asks that in a quicker way, and where the answer is not a plain no, IPython's own code runs. What can
be seen from user code must be the same either way; tests/driver/same.py compares the two.

A cell of two lines in a session takes 0.34 ms in place of 0.55, from the request to the answer on the control socket.
"""
import re
from functools import wraps
from threading import Event

from IPython.core import formatters, inputtransformer2 as inputs, prefilter
from IPython.core.displayhook import DisplayHook
from IPython.core.history import HistoryManager
from IPython.core.interactiveshell import ExecutionResult
from IPython.lib import pretty
from traitlets import All, Bool, Instance, Int, TraitType

SIMPLE = frozenset((int, float, bool, complex, str, bytes, list, tuple, dict, set, frozenset, range))
NOBODY = {}
TEXT_TRANSFORMS = [[inputs.leading_empty_lines, inputs.leading_indent, inputs.classic_prompt, inputs.ipython_prompt],
                   [inputs.cell_magic]]  # what they change begins with a space, "%" or a prompt
ONE_LINE = frozenset((int, str))  # whose repr() never has more

_begins = re.compile(r"[\w\"'(\[{#@]").match
_prompt = re.compile(r">>>|\.\.\.|In \[").search
_word = re.compile(r"(?![\s,;/%!?])[\w.*]*").match  # what prefilter takes for the name of a macro, a magic or a call


class Unwatched:
    """A HasTraits whose changes are not reported when nothing observes them."""

    def is_watched(self, name):
        watched = self._trait_notifiers
        return name in watched or any(watched.get(All, NOBODY).values()) or hasattr(self, "_%s_changed" % name) or \
            "notify_change" in vars(self)

    def _notify_trait(self, name, old_value, new_value):
        if self.is_watched(name):
            super()._notify_trait(name, old_value, new_value)


class Unchecked:
    """A trait that each cell sets, to a value that is right, and of which nobody hears."""

    right = ()  # types

    def set(self, obj, value):
        if type(value) in self.right and self.name not in obj._trait_validators and not obj.is_watched(self.name):
            obj._trait_values[self.name] = value
        else:
            super().set(obj, value)


class Success(Unchecked, Bool):
    right = (bool,)


class Count(Unchecked, Int):
    right = (int,)


class Result(Unchecked, Instance):
    right = (ExecutionResult,)


class Hook(Unwatched, DisplayHook):
    exec_result = None  # set twice in each cell; it need not be a trait

    def quiet(self):
        cells = self.shell.history_manager.input_hist_parsed
        return bool(cells) and ";" in cells[-1] and super().quiet()


class Unheard(Event):
    def set(self):
        """Does nothing: there is no database, and no thread that would write to it."""


class History(Unwatched, HistoryManager):
    _i00 = _i = _ii = _iii = ""  # set in each cell, likewise
    save_flag = Unheard()


class Inputs(inputs.TransformerManager):
    """What is special in IPython's input (magics, commands, help) is not valid Python; so what is valid need not be
    taken apart into tokens for it."""

    compiler = None
    own = None

    def transform_cell(self, cell):
        source = cell if cell.endswith("\n") else cell + "\n"
        if _begins(cell) and not _prompt(cell) and [self.cleanup_transforms, self.line_transforms] == TEXT_TRANSFORMS and \
                self.is_valid(source, source.splitlines()):
            return source
        return super().transform_cell(cell)

    def is_valid(self, source, lines):
        # IPython also breaks lines where Python does not, at a form feed for instance, and then may find something.
        return source.count("\n") == len(lines) and "\r" not in source and self.token_transformers == self.own and \
            self.compiler.foresee(source)

    def do_token_transforms(self, lines):
        if self.is_valid("".join(lines), lines):
            return lines
        return super().do_token_transforms(lines)


class Prefilter(prefilter.PrefilterManager):
    """For cells of one line: macros, automatic calls and magics without a percent sign."""

    own = [prefilter.EmacsChecker, prefilter.MacroChecker, prefilter.IPyAutocallChecker, prefilter.AssignmentChecker,
           prefilter.AutoMagicChecker, prefilter.PythonOpsChecker, prefilter.AutocallChecker]

    def prefilter_lines(self, lines, continue_prompt=False):
        line = lines.rstrip("\n")
        if line and not continue_prompt and "\n" not in line and self.is_plain(line):
            self.shell._last_input_line = line
            return line
        return super().prefilter_lines(lines, continue_prompt)

    def is_plain(self, line):
        word = _word(line)
        if word is None or self._transformers or self.shell.autocall or \
                [type(checker) for checker in self._checkers] != self.own or \
                type(self._handlers.get("normal")) is not prefilter.PrefilterHandler:
            return False
        word = word.group()
        named = self.shell.user_ns.get(word)
        return not isinstance(named, (prefilter.Macro, prefilter.IPyAutocall)) and not self.shell.find_magic(word)


class Formatter(Unwatched, formatters.DisplayFormatter):
    def is_simple(self, obj):
        """True for a value of a built-in type for which user code has registered nothing: it has a text, and asking a
        dozen formatters for more would take half of the time of a short cell."""
        kind = type(obj)
        if kind not in SIMPLE or "text/plain" not in self.active_types:
            return False
        own = self.formatters
        text = own["text/plain"]
        for formatter in (self.ipython_display_formatter, self.mimebundle_formatter, *own.values()):
            if formatter is text:
                continue
            values = formatter._trait_values
            try:
                types = values["type_printers"]
                special = values["singleton_printers"] or values["deferred_printers"]
            except KeyError:  # a default that nobody has asked for yet
                types, special = formatter.type_printers, formatter.singleton_printers or formatter.deferred_printers
            if special or types and not types.keys().isdisjoint(kind.__mro__):
                return False
        return True

    def text(self, obj):
        formatter = self.formatters["text/plain"]
        kind = type(obj)
        if kind in ONE_LINE and type(formatter) is formatters.PlainTextFormatter and \
                formatter.type_printers.get(kind) is pretty._repr_pprint and \
                id(obj) not in formatter.singleton_printers:
            try:
                return repr(obj)
            except ValueError:  # an int with too many digits
                pass
        return formatter(obj)


def _read_directly():
    """A trait that has a value is read by one function rather than two: a cell of one line reads fifty."""
    usual = TraitType.__get__
    kinds = [TraitType]
    for kind in kinds:
        kinds += kind.__subclasses__()
    if any("get" in vars(kind) or "__get__" in vars(kind) for kind in kinds[1:]):
        return

    def __get__(self, obj, cls=None):
        if obj is None:
            return self
        try:
            return obj._trait_values[self.name]
        except Exception:
            return self.get(obj, cls)

    def __init_subclass__(cls, **kwargs):
        super(TraitType, cls).__init_subclass__(**kwargs)
        if "get" in vars(cls) and "__get__" not in vars(cls):
            cls.__get__ = usual

    TraitType.__get__ = __get__
    TraitType.__init_subclass__ = classmethod(__init_subclass__)


def _call_directly():
    """The package `decorator`, with which IPython 8 wraps the calls of formatters, binds the arguments of each call to
    the signature, which takes longer than the call."""
    guard = getattr(formatters.catch_format_error, "__wrapped__", None)
    if guard is None:
        return
    for cls in list(vars(formatters).values()):
        method = getattr(vars(cls).get("__call__"), "__wrapped__", None) if isinstance(cls, type) else None
        if method is not None:
            cls.__call__ = _guarded(guard, method)


def _guarded(guard, method):
    @wraps(method)
    def __call__(self, obj, *args, **kwargs):
        return guard(method, self, obj, *args, **kwargs)

    return __call__


def take_over(ip):
    """Put these into the place of IPython's own; their state stays."""
    _call_directly()
    _read_directly()
    for name, cls in (("history_manager", History), ("input_transformer_manager", Inputs),
                      ("prefilter_manager", Prefilter)):
        part = getattr(ip, name)
        if type(part) in cls.__mro__:
            cls.__name__ = type(part).__name__  # %config finds it by that
            part.__class__ = cls
            cls.shell = ip
    type(ip.displayhook).shell = ip  # asked for so often that it should not be a trait
    manager = ip.input_transformer_manager
    if hasattr(ip.compile, "foresee"):
        manager.compiler, manager.own = ip.compile, list(manager.token_transformers)
    if vars(ip).get("prefilter") is not None:
        ip.prefilter = ip.prefilter_manager.prefilter_lines
