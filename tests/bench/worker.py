# SPDX-License-Identifier: Apache-2.0
"""A bare Python that runs cells: the peer of a codebox session, without a sandbox, a daemon or IPython.

A line of JSON with code comes in; a line with what it printed and the value of its last expression goes out.
"""
import ast
import contextlib
import io
import json
import sys

names = {"__name__": "__main__"}
answers = sys.stdout
for line in sys.stdin:
    tree = ast.parse(json.loads(line))
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        if tree.body and isinstance(tree.body[-1], ast.Expr):
            last = ast.Expression(tree.body.pop().value)
            exec(compile(tree, "<cell>", "exec"), names)
            value = eval(compile(last, "<cell>", "eval"), names)
        else:
            exec(compile(tree, "<cell>", "exec"), names)
    answers.write(json.dumps([printed.getvalue(), None if value is None else repr(value)]) + "\n")
    answers.flush()
