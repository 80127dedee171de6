# SPDX-License-Identifier: Apache-2.0
"""Whether the policy's rules for code let a cell run.

The rules are data, of the policy: by name, each with its words (src/policy/code.c). A cell is looked at as it is run,
with IPython's magics and commands as calls; a syntax that cannot be read is refused. Words can be written in many ways
that no rule knows, and code that runs can change what is done here: this keeps an honest program to what its operator
wants, and isolates nothing. The sandbox does that.
"""
import ast
import re
import shlex
import warnings

FLAGS = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
RULES = ("syntax", "jupyter_commands", "dangerous_builtins", "dangerous_imports", "dangerous_patterns",
         "package_installation")
SYNTAX, COMMAND, BUILTIN, IMPORT, PATTERN, PACKAGE = range(len(RULES))
TOLD_MAX, WORD_MAX, DEPTH_MAX = 5, 60, 8

# What the shells make of lines that are not Python: METHOD("...") of one of these.
HELPERS = {ast.dump(ast.parse(text, mode="eval").body) for text in (
    "get_ipython()", "__codebox__", "__import__('sys').modules['__main__'].__codebox__")}
COMMANDS = ("system", "getoutput", "output")
METHODS = COMMANDS + ("run_line_magic", "run_cell_magic", "line", "cell")
OWN_NAMES = ("get_ipython", "__codebox__")

CODE_MAGICS = ("time", "timeit", "prun", "config")  # whose line and cell are Python
BODY_MAGICS = CODE_MAGICS + ("capture",)            # whose cell is
SHELL_MAGICS = ("sx", "system")
INSTALL_MAGICS = ("pip", "conda", "uv")
UNEXPANDED = ("time", "timeit", "prun", "sql")      # IPython puts no values into their lines
OPTIONS = re.compile(r"^(?:\s*-[A-Za-z](?:\s*\d+)?(?=\s|$))+\s*")

DUNDER = re.compile(r"__\w+__\Z")
IN_FORMAT = re.compile(r"\.(__\w+__)")
EXPANDED = re.compile(r"[{$`]|[<>]\(")
# name>=1, for which a shell writes to a file of that name
UNQUOTED = re.compile(r"""'[^']*'|"[^"]*"|(?<=[\w\].,])([<>]=?)(?=\d)""")

PYTHONS = ("python", "python3")
INSTALLERS = ("pip", "pip3", "conda", "uv")
FLAGS_OF_PIP = ("-U", "--upgrade", "-q", "--quiet", "-qq", "-v", "--verbose", "-y", "--yes", "--user", "--pre",
                "--no-cache-dir", "--disable-pip-version-check", "--no-input", "--force-reinstall", "--prefer-binary",
                "--break-system-packages", "--system")
VALUES_OF_PIP = ("-P", "--upgrade-package", "--upgrade-strategy")
NAME = re.compile(r"([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(?:\[[^\]]*\])?\s*([=<>!~].*)?\Z")
ARCHIVE = re.compile(r"\.(whl|zip|gz|bz2|xz|tgz|tar|conda|txt|toml|lock|ya?ml)\Z", re.I)
SPECIFIER = re.compile(r"(===|==|~=|!=|<=|>=|<|>|=)\s*v?((?:\d+!)?\d[^\s,]*)\Z")
VERSION = re.compile(r"(?:(\d+)!)?(\d+(?:\.\d+)*)(\.\*)?(.*)\Z")
EARLY = re.compile(r"[._-]?(a|b|c|rc|alpha|beta|pre|preview|dev)", re.I)


def canonical(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def number(text):
    """A version, to be compared with others; a pre-release comes before its release. None: it is not one."""
    m = VERSION.match(text)
    if not m:
        return None
    release = [int(part) for part in m.group(2).split(".")]
    while release and not release[-1]:
        release.pop()
    return int(m.group(1) or 0), release, not EARLY.match(m.group(4))


class Judge:
    def __init__(self, shell, rules):
        self.shell = shell
        jupyter = rules.get("jupyter_commands")
        self.commands, self.magics = (jupyter["commands"], jupyter["magics"]) if jupyter else (None, None)
        self.builtins = rules.get("dangerous_builtins", {}).get("builtins", ())
        self.imports = rules.get("dangerous_imports", {}).get("imports", ())
        patterns = rules.get("dangerous_patterns")
        self.names = patterns["names"] if patterns else None
        self.packages = rules.get("package_installation")
        self.found = {}
        self.depth = 0

    def refuse(self, rule, line, text):
        self.found[rule, text] = min(line, self.found.get((rule, text), line))

    def unreadable(self, error, line):
        self.refuse(SYNTAX, line, "Invalid Python syntax: %s" % short(getattr(error, "msg", None) or error))

    # Python

    def cell(self, code, line=1):
        """A cell, or a part of one that is transformed like one."""
        if self.depth == DEPTH_MAX:
            return self.refuse(SYNTAX, line, "Invalid Python syntax: too many magics in each other")
        blank = len(code) - len(code.lstrip(" \t\r\n"))
        try:
            source = self.shell.python(code)
        except Exception as e:
            return self.unreadable(e, line)
        if source[:1] not in ("", "\n"):
            line += code.count("\n", 0, blank)
        self.depth += 1
        self.python(source, line)
        self.depth -= 1

    def python(self, source, line=1):
        try:
            tree = compile(source, "<cell>", "exec", FLAGS, dont_inherit=True)
        except (SyntaxError, ValueError) as e:
            return self.unreadable(e, line + (getattr(e, "lineno", None) or 1) - 1)
        nodes = [tree]
        while nodes:
            node = nodes.pop()
            at = line + getattr(node, "lineno", 1) - 1
            if isinstance(node, ast.Call) and self.helper(node, at):
                continue
            look = getattr(self, "look_" + type(node).__name__, None)
            if look:
                look(node, at)
            nodes.extend(ast.iter_child_nodes(node))

    def look_Name(self, node, line):
        if not isinstance(node.ctx, ast.Load):
            return
        if node.id in self.builtins:
            self.refuse(BUILTIN, line, "Forbidden function call: %s" % node.id)
        elif node.id in OWN_NAMES:
            self.own(node.id, line)
        else:
            self.name(node.id, line)

    def look_Attribute(self, node, line):
        of = node.value
        if node.attr in self.builtins and isinstance(of, ast.Name) and of.id in ("builtins", "__builtins__"):
            self.refuse(BUILTIN, line, "Forbidden function call: %s" % node.attr)
        else:
            self.name(node.attr, line)

    def look_Constant(self, node, line):
        text = node.value
        if not isinstance(text, str):
            return
        self.name(text, line)
        if "{" in text:  # str.format() takes attributes
            for name in IN_FORMAT.findall(text):
                self.name(name, line)

    def look_MatchClass(self, node, line):
        for name in node.kwd_attrs:
            self.name(name, line)

    def look_Import(self, node, line):
        for alias in node.names:
            self.module(alias.name, line)

    def look_ImportFrom(self, node, line):
        if node.module and not node.level:
            self.module(node.module, line)
        for alias in node.names:
            if alias.name in OWN_NAMES:
                self.own(alias.name, line)
            self.name(alias.name, line)

    def module(self, name, line):
        if name.partition(".")[0] in self.imports:
            self.refuse(IMPORT, line, "Forbidden import: %s" % short(name))

    def name(self, name, line):
        if self.names is not None and DUNDER.match(name) and name not in self.names:
            self.refuse(PATTERN, line, "Forbidden pattern found: %s" % short(name))

    def own(self, name, line):
        if self.magics is not None:
            self.refuse(COMMAND, line, "Magic command not allowed: %s" % name)

    # Magics and commands

    def helper(self, call, line):
        """True: the call is of a shell's own, and was looked at."""
        if not isinstance(call.func, ast.Attribute) or call.func.attr not in METHODS or call.keywords or \
                ast.dump(call.func.value) not in HELPERS:
            return False
        words = [arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
        method = call.func.attr
        if not words or len(words) != len(call.args):
            return False
        if method in COMMANDS and len(words) == 1:
            self.command(words[0], line)
        elif method == "run_line_magic" and len(words) == 2:
            self.magic(words[0], words[1], None, line)
        elif method == "run_cell_magic" and len(words) == 3:
            self.magic(words[0], words[1], words[2], line)
        elif method == "line" and len(words) == 1:
            self.magic(*split(words[0].lstrip("%")), None, line)
        elif method == "cell" and len(words) == 2:
            self.magic(*split(words[0].lstrip("%")), words[1], line)
        else:
            return False
        return True

    def magic(self, name, rest, body, line):
        if self.magics is not None and name not in self.magics:
            sign = "%" if body is None else "%%"
            self.refuse(COMMAND, line, "Magic command not allowed: %s%s" % (sign, short(name)))
        elif name in SHELL_MAGICS:
            self.command(rest if body is None else rest + "\n" + body, line)
        elif name in INSTALL_MAGICS:
            self.command("%s %s" % (name, rest), line)
        elif name in CODE_MAGICS:
            self.cell(OPTIONS.sub("", rest), line)
        elif self.magics is not None and name not in UNEXPANDED and EXPANDED.search(rest):
            self.refuse(COMMAND, line, "Magic command not allowed: %%%s with { or $" % short(name))
        if body is not None and name in BODY_MAGICS:
            self.cell(body, line + 1)

    def command(self, text, line):
        """A line of a shell, or several."""
        words, reason = [], EXPANDED.search(text) and "what { or $ or ` stands for is not known before"
        if "install" in text:
            text = UNQUOTED.sub(lambda m: "\\" + m.group(1) if m.group(1) else m.group(), text)
        lexer = shlex.shlex(text, posix=True, punctuation_chars="();<>|&\n")
        lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
        try:
            tokens = list(lexer)
        except ValueError as e:
            tokens, reason = [], str(e)
        if reason and self.commands is not None:
            self.refuse(COMMAND, line, "Shell command not allowed: %s" % reason)
        redirects = False
        for token in tokens + ["\n"]:
            if not token or token.strip("();<>|&\n"):
                if not redirects:
                    words.append(token)
                redirects = False
            elif not token.strip("<>&") and token.strip("&"):
                redirects = True
            else:
                self.simple_command(words, line)
                words, redirects = [], False

    def simple_command(self, words, line):
        if not words:
            return
        if self.commands is not None and words[0] not in self.commands:
            self.refuse(COMMAND, line, "Shell command not allowed: %s" % short(words[0]))
        if self.packages is None:
            return
        program, rest = words[0].rpartition("/")[2], words[1:]
        if program in PYTHONS and "-m" in rest[:-1] and rest[rest.index("-m") + 1] in INSTALLERS:
            program, rest = "pip", rest[rest.index("-m") + 2:]
        elif program in PYTHONS and "-mpip" in rest:
            program, rest = "pip", rest[rest.index("-mpip") + 1:]
        if program in INSTALLERS:
            for verb in "install", "add", "create", "sync", "update", "upgrade", "download", "wheel":
                if verb in rest:
                    return self.installation(program, rest[rest.index(verb) + 1:], line)

    # Packages

    def installation(self, program, words, line):
        words = iter(words)
        for word in words:
            option, equals, value = word.partition("=")
            if word in FLAGS_OF_PIP:
                continue
            if option in VALUES_OF_PIP:
                value = value if equals else next(words, "")
                if option == "--upgrade-strategy":
                    continue
                word = value
            elif word.startswith("-"):  # what follows may be its value
                text = "Option %s of %s is not allowed: give names of packages" % (short(option), program)
                return self.refuse(PACKAGE, line, text)
            self.requirement(word, line)

    def requirement(self, text, line):
        rules, m = self.packages, NAME.match(text.split(";")[0].strip())
        if not m or ARCHIVE.search(m.group(1)):
            return self.refuse(PACKAGE, line, "Package %s is not in the allowed packages list" % short(text))
        name, specifiers = canonical(m.group(1)), m.group(2)
        if any(rule_of(rule) == (name, []) for rule in rules["block"]):
            self.refuse(PACKAGE, line, "Package %s is blocked for security reasons" % short(m.group(1)))
        elif "allow" in rules and all(rule_of(rule)[0] != name for rule in rules["allow"]):
            self.refuse(PACKAGE, line, "Package %s is not in the allowed packages list" % short(m.group(1)))
        for rule in rules["versions"]:
            of, needed = rule_of(rule)
            if of == name and specifiers:
                self.version(m.group(1), specifiers, needed, line)

    def version(self, name, specifiers, needed, line):
        """A version that is asked for must be one that the rule has; to others the installation sees."""
        asked = [SPECIFIER.match(part.strip()) for part in specifiers.split(",")]
        if not all(asked) or not all(number(m.group(2)) for m in asked):
            text = "Invalid version specification for %s: %s" % (short(name), short(specifiers))
            return self.refuse(PACKAGE, line, text)
        must = ",".join(op + version for op, version in needed)
        for op, least in needed:
            least_number = number(least)
            if op not in (">=", ">") or least_number is None:
                continue
            exact = [m.group(2) for m in asked if m.group(1) in ("==", "===", "=")]
            bounds = exact + [m.group(2) for m in asked if m.group(1) in (">=", ">", "~=")]
            if any(number(v) > least_number or (number(v) == least_number and op == ">=") for v in bounds):
                continue
            self.refuse(PACKAGE, line, (
                "Version %s of %s is not allowed. Must satisfy: %s" % (short(exact[0]), short(name), must) if exact else
                "Version %s of %s would allow versions below minimum required (%s). Must satisfy: %s"
                % (short(specifiers), short(name), least, must)))


def rule_of(text):
    """A rule for packages: its name, and [(operator, version)]."""
    m = NAME.match(text)
    parts = [SPECIFIER.match(part.strip()) for part in (m.group(2) or "").split(",") if part.strip()]
    return canonical(m.group(1)), [p.groups() for p in parts if p]


def split(text):
    name, _, rest = text.strip().partition(" ")
    return name, rest.strip()


def short(text):
    text = " ".join(str(text).split())
    return text if len(text) <= WORD_MAX else text[:WORD_MAX] + "..."


REMEDY = "Nothing of it was run. Write it without that, or have \"code\" of the policy changed."


def judge(shell, message):
    """None: it may run. Else why it may not: in one line, and in several."""
    code = message["code"]
    it = Judge(shell, message["rules"])
    try:
        with warnings.catch_warnings():  # they come when it runs
            warnings.simplefilter("ignore")
            if "file" in message:
                import binascii
                code = binascii.a2b_base64(code)
                it.python(code)
                code = code.decode("utf-8", "replace")
            else:
                it.cell(code)
    except (RecursionError, MemoryError):
        it.refuse(SYNTAX, 1, "Invalid Python syntax: too deeply nested to be judged")
    if not it.found:
        return None
    lines, told = code.split("\n"), []
    found = sorted((rule, line, text) for (rule, text), line in it.found.items())
    whole = ["CodeRefused: the policy's rules for code do not let this run"]
    for rule, line, text in found[:TOLD_MAX]:
        told.append("%s (line %d, rule %s)" % (text, line, RULES[rule]))
        whole.append("  line %d, rule %s: %s" % (line, RULES[rule], text))
        if 0 < line <= len(lines):
            whole.append("    " + short(lines[line - 1].strip()))
    if len(found) > TOLD_MAX:
        told.append("and %d more" % (len(found) - TOLD_MAX))
        whole.append("  and %d more" % (len(found) - TOLD_MAX))
    return "; ".join(told) + ". " + REMEDY, "\n".join(whole + [REMEDY])
