# SPDX-License-Identifier: Apache-2.0
"""Cells run without IPython: a small shell with the same frames.

It has what cells commonly use: the value of the last expression, `_`, In and Out, display(), rich representations,
top-level await, `!command` and `name = !command`. Of the magics it has a few that are often written out of habit; the
others give an error that says so.
"""
import ast
import builtins
import inspect
import linecache
import os
import re
import sys
from types import ModuleType

METHODS = (
    ("text/html", "_repr_html_"), ("text/markdown", "_repr_markdown_"), ("text/latex", "_repr_latex_"),
    ("image/svg+xml", "_repr_svg_"), ("image/png", "_repr_png_"), ("image/jpeg", "_repr_jpeg_"),
    ("application/pdf", "_repr_pdf_"), ("application/javascript", "_repr_javascript_"),
    ("application/json", "_repr_json_"),
)
AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
NO_MAGIC = "%s needs IPython, which this image does not have. Available here: !command, %%cd, %%pip, %%uv, %%conda, %%sql, %%env, %%time, " \
    "%%%%bash and %%%%sh."
QUESTION = re.compile(r"\s*(?:\?\s*([A-Za-z_][\w.]*)|([A-Za-z_][\w.]*)\s*\?{1,2})\s*$")  # "?len", "len?"


class MagicError(Exception):
    pass


MagicError.__name__ = MagicError.__qualname__ = "UsageError"
MagicError.__module__ = "builtins"  # so that it prints without a prefix


class PlainShell:
    kind = "plain"

    def __init__(self, driver):
        self.driver = driver
        self.number = 1
        self.flags = 0  # of `from __future__` imports, which hold for later cells
        module = ModuleType("__main__", "The namespace of the cells.")
        self.ns = module.__dict__
        self.ns.update(__builtins__=builtins, In=[""], Out={}, _="", __="", ___="")
        self.out = self.ns["Out"]
        self.last = ["", "", ""]
        sys.modules["__main__"] = module
        builtins.display = self.display
        builtins.exit = builtins.quit = leave
        self.plain = _module_function("pprint", "pformat")

    def count(self):
        return self.number

    def run(self, code, silent):
        """Run a cell; the exception that ended it, or None."""
        number = self.number
        self.driver.events.begin(code)
        name = "<cell %d>" % number if not silent else "<silent>"
        if not silent and code.strip():
            self.number += 1
            self.ns["In"].append(code)
        try:
            self._run(code, name, number, silent)
            value = None
        except SystemExit as e:
            value = e
        except BaseException as e:
            value = e
            self._report(e)
        try:
            self._show_figures()
        except Exception as e:
            value = value or e
            self._report(e)
        return value

    def python(self, code):
        """The cell as Python, with calls where there are magics and commands."""
        return self._transform(code)

    def run_program(self, call):
        """Have a file run, with display() and the figures that a cell has."""
        call()
        self._show_figures()

    def warm_up(self, rehearse):
        pass  # it is light

    def _report(self, value):
        if not isinstance(value, MemoryError):
            sys.last_type, sys.last_value, sys.last_traceback = type(value), value, value.__traceback__
        if isinstance(value, MagicError):
            self.driver.error(value, text="UsageError: %s" % value)
        else:
            self.driver.error(value)

    def _run(self, code, name, number, silent):
        asked = QUESTION.match(code)
        if asked:
            of = asked.group(1) or asked.group(2)
            text = self.driver.part("complete").describe(self.ns, of, len(of))
            print(text or "Object `%s` not found." % of)
            return
        source = self._transform(code)
        lines = [line + "\n" for line in _dedent(code).splitlines()]  # as written: lines are kept one to one
        linecache.cache[name] = (len(code), None, lines, name)
        tree = compile(source, name, "exec", ast.PyCF_ONLY_AST | self.flags, dont_inherit=True)
        last = None
        if not silent and tree.body and isinstance(tree.body[-1], ast.Expr) and not _ends_quietly(source):
            last = ast.Expression(tree.body.pop().value)
        self._exec(compile(tree, name, "exec", AWAIT | self.flags, dont_inherit=True))
        if last is not None:
            value = self._exec(compile(last, name, "eval", AWAIT | self.flags, dont_inherit=True))
            if value is leave:
                leave()
            if value is not None:
                self._result(value, number)

    def _exec(self, code):
        import __future__
        for feature in __future__.all_feature_names:
            self.flags |= code.co_flags & getattr(__future__, feature).compiler_flag
        if code.co_flags & inspect.CO_COROUTINE:
            return self.driver.events.run(eval(code, self.ns))
        return eval(code, self.ns)

    def _result(self, value, number):
        ns, last = self.ns, self.last
        if value is not self.out:
            if all(ns.get("_" * (i + 1)) is last[i] for i in range(3)) and "_" not in vars(builtins):
                last[:] = [value] + last[:2]
                ns["_"], ns["__"], ns["___"] = last
            self.out[number] = value
            ns["_%d" % number] = value
        data, metadata = self.format(value)
        if data:
            self.driver.result(number, data, metadata, True)

    # Representations

    def format(self, value):
        """(data, metadata) of a value, as IPython makes them."""
        data, metadata = {}, {}
        if _own_display(value):
            return data, metadata
        try:
            data["text/plain"] = self._text(value)
        except Exception as e:
            self.driver.error(e)
            return data, metadata
        if isinstance(value, type):
            return data, metadata
        for mime, method in METHODS:
            self._call(value, method, mime, data, metadata)
        bundle = getattr(type(value), "_repr_mimebundle_", None)
        if callable(bundle):
            self._bundle(value, data, metadata)
        figures = self._figures()
        if figures is not None and figures.is_figure(value):
            png = figures.png(value)
            if png is not None:
                data["image/png"] = png
            figures.mark(value)
        return data, metadata

    def _text(self, value):
        pretty = getattr(type(value), "__repr__", None)
        if pretty in (dict.__repr__, list.__repr__, tuple.__repr__, set.__repr__, frozenset.__repr__):
            text = repr(value)
            return text if len(text) <= 79 else self.plain(value, width=79, compact=True)
        text = repr(value)
        return text if isinstance(text, str) else str(text)

    def _call(self, value, method, mime, data, metadata):
        if not callable(getattr(type(value), method, None)):
            return
        try:
            made = getattr(value, method)()
        except NotImplementedError:
            return
        except Exception as e:
            self.driver.error(e)
            return
        if isinstance(made, tuple) and len(made) == 2:
            made, metadata[mime] = made
        if made is not None:
            data[mime] = made

    def _bundle(self, value, data, metadata):
        try:
            made = value._repr_mimebundle_(include=None, exclude=None)
        except NotImplementedError:
            return
        except Exception as e:
            self.driver.error(e)
            return
        if isinstance(made, tuple):
            made, more = made
            metadata.update(more)
        data.update(made or {})

    def display(self, *values, metadata=None, display_id=None, raw=False, clear=False, update=False, **kwargs):
        """Show values with all their representations."""
        if clear:
            self.driver.clear(True)
        transient = None
        if display_id:
            transient = {"display_id": os.urandom(8).hex() if display_id is True else display_id}
        for value in values:
            data, meta = (value, {}) if raw else self.format(value)
            if data:
                meta.update(metadata or {})
                self.driver.display(data, meta, transient, update)

    # Figures

    def inline(self):
        return False

    def take_over_inline(self, inline):
        pass

    def _figures(self):
        return self.driver.hooks.figures() if "matplotlib.figure" in sys.modules else None

    def _show_figures(self):
        figures = self._figures()
        if figures is not None:
            figures.show()

    def show_figure(self, figure):
        data, metadata = self.format(figure)
        self.driver.display(data, metadata)

    # Lines that are not Python

    def _transform(self, code):
        """`!command` and `%magic` lines as calls. Only code that is not Python is looked at."""
        if "!" not in code and "%" not in code and "pip install " not in code and "conda install " not in code:
            return _dedent(code)
        stripped = code.lstrip()
        if stripped.startswith("%%"):
            head, _, body = stripped.partition("\n")
            return "__import__('sys').modules['__main__'].__codebox__.cell(%r, %r)" % self._expose(head, body)
        try:
            ast.parse(_dedent(code))
            return _dedent(code)
        except (SyntaxError, ValueError):
            pass
        strings = _inside_strings(code)
        lines = []
        for number, line in enumerate(code.split("\n"), 1):
            lines.append(line if number in strings else self._line(line))
        return _dedent("\n".join(lines))

    def _expose(self, *args):
        self.ns["__codebox__"] = self
        return args

    def _line(self, line):
        text = line.lstrip()
        indent = line[:len(line) - len(text)]
        call = indent + "%s__codebox__.%s(%r)"
        if text.startswith(("pip install ", "uv pip install ", "conda install ")):
            text = "%" + text
        if text[:1] in ("!", "%"):
            self._expose()
            return call % (("", "system", text[1:]) if text[0] == "!" else ("", "line", text))
        target, sign, command = text.partition("= %sql ")
        if sign and target.strip().isidentifier():
            self._expose()
            return call % (target.strip() + " = ", "line", "%sql " + command)
        target, sign, command = text.partition("= !") if "= !" in text else text.partition("=!")
        if sign and target.strip().isidentifier():
            self._expose()
            return call % (target.strip() + " = ", "output", command)
        return line

    def system(self, command, quiet=False, expand=True):
        """!command. It writes to the pipes itself, so its output is in order and arrives while it runs."""
        import subprocess
        self.driver.streams.flush()
        child = subprocess.Popen(self._expand(command) if expand else command, shell=True,
                                 stdout=subprocess.PIPE if quiet else None, executable=_bash())
        try:
            out = child.communicate()[0]
        except BaseException:
            try:
                child.wait(1)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
            raise
        self.driver.hooks.ended(command, child.returncode)
        self.ns["_exit_code"] = child.returncode
        return out.decode("utf-8", "replace").splitlines() if quiet else None

    def output(self, command):
        return self.system(command, quiet=True)

    def _expand(self, command):
        """{expression} and $name, as IPython has them; what does not evaluate stays as it is."""

        def value(match):
            try:
                return str(eval(match.group(1) or match.group(2), self.ns))
            except Exception:
                return match.group(0)

        return re.sub(r"\{([^{}]+)\}|\$([A-Za-z_]\w*)", value, command)

    def line(self, text):
        name, _, rest = text[1:].strip().partition(" ")
        rest = rest.strip()
        if name == "cd":
            os.chdir(os.path.expanduser(rest.strip("'\"") or "~"))
            print(os.getcwd())
        elif name in ("pip", "uv", "conda", "mamba"):
            self.system(self.driver.packages.command(name, rest))
        elif name == "env":
            key, _, value = rest.partition("=")
            if "=" not in rest:
                return print(os.environ.get(key, "") if key else dict(os.environ))
            os.environ[key.strip()] = value.strip()
        elif name == "time":
            self._timed(rest)
        elif name == "sql":
            return self.sql(rest, None)
        elif name not in ("matplotlib", "load_ext", "autoreload", "config"):
            raise MagicError(NO_MAGIC % ("%" + name))

    def cell(self, head, body):
        name, _, rest = head[2:].strip().partition(" ")
        if name in ("bash", "sh"):
            import shlex
            self.ns["_exit_code"] = None
            self.system("exec %s -c %s" % (_bash() or "/bin/sh", shlex.quote(body)), expand=False)
            if self.ns["_exit_code"]:
                import subprocess
                raise subprocess.CalledProcessError(self.ns["_exit_code"], name)
        elif name == "time":
            self._timed(body)
        elif name == "sql":
            return self.sql(rest, body)
        else:
            raise MagicError(NO_MAGIC % ("%%" + name))

    def sql(self, line, body):
        return self.driver.part("databases").run(self.ns, line, body, MagicError)

    def _timed(self, code):
        import time
        start = time.perf_counter()
        try:
            self._run(code, "<cell %d.time>" % self.number, self.number - 1, False)
        finally:
            print("Wall time: %.3g s" % (time.perf_counter() - start))

    # What else is asked of a shell

    def is_complete(self, code):
        """As IPython judges: a block, and a cell that begins with %%, is complete when a blank line follows it."""
        import codeop
        import warnings
        lines = code.split("\n")
        ended = len(lines) > 1 and not lines[-1].strip()
        last = next((line for line in reversed(lines) if line.strip()), "")
        indent = last[:len(last) - len(last.lstrip())]
        if code.lstrip().startswith("%%"):
            return ("complete", "") if ended else ("incomplete", indent)
        if QUESTION.match(code):
            return "complete", ""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                source = self._transform(code)
                done = codeop.compile_command(source + "\n", "<input>", "exec")
        except (SyntaxError, OverflowError, ValueError):
            return "invalid", ""
        if done is not None and (ended or not _in_block(source)):
            return "complete", ""
        return "incomplete", indent + "    " if _opens_block(last) else indent

    def inspect(self, code, cursor):
        return self.driver.part("complete").describe(self.ns, code, cursor)

    def complete(self, code, cursor):
        return self.driver.part("complete").complete(self.ns, code, cursor)


def leave(code=None):
    """Ends the program, as in a script."""
    raise SystemExit(code)


def _module_function(module, name):
    def call(*args, **kwargs):
        return getattr(__import__(module), name)(*args, **kwargs)
    return call


def _bash():
    return "/bin/bash" if os.path.exists("/bin/bash") else None


def _own_display(value):
    """True when the value has shown itself."""
    method = getattr(type(value), "_ipython_display_", None)
    if not callable(method):
        return False
    try:
        value._ipython_display_()
        return True
    except NotImplementedError:
        return False


def _dedent(code):
    """Cells that are indented as a whole are taken, as IPython takes them."""
    if code[:1] not in (" ", "\t"):
        return code
    import textwrap
    return textwrap.dedent(code)


def _ends_quietly(source):
    """A semicolon after the last expression: its value is not shown."""
    if ";" not in source:
        return False
    import io
    import tokenize
    last = None
    skip = (tokenize.ENDMARKER, tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT, tokenize.DEDENT)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token[0] not in skip:
            last = token[1]
    return last == ";"


def _in_block(source):
    """True when the last statement is in an indented block."""
    import io
    import tokenize
    depth = last = 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(source + "\n").readline):
            if token[0] == tokenize.NEWLINE:
                last = depth
            depth += {tokenize.INDENT: 1, tokenize.DEDENT: -1}.get(token[0], 0)
    except (tokenize.TokenError, SyntaxError, IndentationError):
        pass
    return last > 0


def _opens_block(line):
    import io
    import tokenize
    try:
        tokens = [token[1] for token in tokenize.generate_tokens(io.StringIO(line.strip()).readline)
                  if token[0] != tokenize.COMMENT and token[1].strip()]
    except (tokenize.TokenError, SyntaxError, IndentationError):
        return False
    return tokens[-1:] == [":"]


def _inside_strings(code):
    """Numbers of the lines that begin within a string of several lines."""
    import io
    import tokenize
    inside = set()
    try:
        for token in tokenize.generate_tokens(io.StringIO(code).readline):
            inside.update(range(token[2][0] + 1, token[3][0] + 1))
    except (tokenize.TokenError, SyntaxError, IndentationError):
        pass
    return inside


def make(driver):
    return PlainShell(driver)
