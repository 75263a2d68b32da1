"""Every message of an error that a user can meet, collected from the source: one table to read.

``python -m tests.error_texts`` prints it.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from dataprep import errors

ROOT = Path(__file__).parents[1]
_HOUSE = ("dataprep", "pipelines", "schemas")
_CLASSES = {
    name
    for name, value in vars(errors).items()
    if isinstance(value, type) and issubclass(value, errors.DataprepError)
}


class Text(NamedTuple):
    """A message where it is made; what is filled in stands in braces."""

    path: str
    line: int
    kind: str
    text: str


def collected() -> Iterator[Text]:
    """All of them, by file and line."""
    for top in _HOUSE:
        for path in sorted((ROOT / top).rglob("*.py")):
            yield from _in_file(path)


def _in_file(path: Path) -> Iterator[Text]:
    tree = ast.parse(path.read_text("utf-8"))
    constants = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args):
            continue
        if node.func.id in _CLASSES:
            text = _said(node.args[0], constants)
            yield Text(str(path.relative_to(ROOT)), node.lineno, node.func.id, text)


def _said(node: ast.expr, constants: dict[str, ast.expr]) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(_said(value, constants) for value in values)
        case ast.FormattedValue(value=ast.Name(id=name)) | ast.Name(id=name) if name in constants:
            return _said(constants[name], constants)
        case ast.FormattedValue(value=value):
            return "{" + ast.unparse(value) + "}"
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _said(left, constants) + _said(right, constants)
        case ast.IfExp(body=body, orelse=orelse):
            return f"{_said(body, constants)} | {_said(orelse, constants)}"
        case ast.Call(func=ast.Attribute(value=value, attr="format")):
            return _said(value, constants)
        case _:
            return "{" + ast.unparse(node) + "}"


if __name__ == "__main__":
    rows = [f"| {path}:{line} | {kind} | {text} |" for path, line, kind, text in collected()]
    sys.stdout.write("\n".join(["| where | error | message |", "| --- | --- | --- |", *rows, ""]))
