"""The parts of docs/on-disk.md that are made from the types and the formats."""

from __future__ import annotations

import re
import types
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from dataprep.formats import Layout, ShardName
from dataprep.plugins import OUR_PACKAGE, SINKS, installed, load_sink, package_of
from dataprep_schemas import manifest, state
from dataprep_schemas.tables import RECORDS

PLAIN = {str: "text", int: "whole number", float: "number", bool: "true or false"}
# Annotated types that have a name, in the order of the page.
NAMED = {
    "Sha256": "64 hexadecimal digits, in lower case",
    "Digest": "32 hexadecimal digits, in lower case; see *Hashes*",
    "Count": "whole number from 0 to 2^53 - 1",
    "Positive": "whole number from 1 to 2^53 - 1",
    "Text": "without NUL",
    "Label": "without NUL: identifier or name of a class",
    "Option": "of `A-Za-z0-9_.-`, at least one",
    "FieldName": "of `A-Za-z0-9_`, at least one",
    "SplitName": "without `/` and controls, at least one; begins with neither `.` nor `-`",
    "FilePath": "relative, with `/`; no part is empty, `.` or `..`, or begins with `-`; neither "
    "below `.dataprep` nor `manifest.json`, `part.json` or `records.parquet`",
}


def with_parts(page: Path) -> str:
    """A page with what stands in it between ``<!-- made: NAME -->`` and ``<!-- end -->`` made anew.

    Raises:
        ValueError: it lacks one of these places.
    """
    parts = {
        "types": [_table("name", "what it is"), *map(_named, NAMED)],
        "manifest": _sections(manifest.Manifest),
        "part": [FIELDS, *_rows(state.Part)],
        "records": [
            _table("column", "type", "what it is"),
            *(f"| `{name}` | `{kind}` | {said} |\n" for name, (kind, said) in RECORDS.items()),
        ],
        "names": [_table(*NAMES), *_names()],
    }
    text = page.read_text(encoding="utf-8")
    for name, lines in parts.items():
        before, found, rest = text.partition(f"<!-- made: {name} -->\n")
        _, end, behind = rest.partition("<!-- end -->")
        if not (found and end):
            raise ValueError(f"{page}: no place for {name}")
        text = f"{before}{found}\n{''.join(lines)}\n{end}{behind}"
    return text


def _named(name: str) -> str:
    (meta,) = getattr(manifest, name).__metadata__
    counted = meta.max_length and not NAMED[name].startswith(str(meta.max_length))
    most = f"at most {meta.max_length:,} characters, " if counted else ""
    return f"| {name} | {most}{NAMED[name]} |\n"


def _table(*columns: str) -> str:
    return f"| {' | '.join(columns)} |\n|{' --- |' * len(columns)}\n"


FIELDS = _table("field", "type", "what it is")
NAMES = ("format", "with several shards", "with one", "with `layout` flat", "of the whole split")


def _sections(kind: type[msgspec.Struct]) -> Iterator[str]:
    """A heading, a sentence and a table for each type that is in a type, where it comes first."""
    waiting, told = [kind], set[type]()
    while waiting:
        kind = waiting.pop(0)
        if kind in told:
            continue
        told.add(kind)
        about = cleandoc(str(kind.__doc__)).partition("\nAttributes:")[0]
        heading = "manifest.json" if kind is manifest.Manifest else kind.__name__
        yield f"\n### {heading}\n\n" * (len(told) > 1) + " ".join(about.split()).replace("``", "`")
        yield "\n\n" + FIELDS
        yield from _rows(kind)
        waiting += [each for hint in _hints(kind).values() for each in _structs(hint)]


def _rows(kind: type[msgspec.Struct]) -> Iterator[str]:
    if tag := kind.__struct_config__.tag:
        yield f'| `format` | `"{tag}"` | the version of the form |\n'
    hints, texts = _hints(kind), said(kind)
    for field in msgspec.structs.fields(kind):
        optional = not field.required and field.name != "sha256"
        left_out = "; left out if " + _default(field.default) if optional else ""
        text = texts[field.name].rstrip(".") + left_out
        cells = f"`{field.name}`", _type(hints[field.name]), text
        yield f"| {' | '.join(cells)} |\n"


def _default(value: object) -> str:
    if value in ((), ""):
        return "empty"
    return {"None": "null", "False": "false"}.get(str(value), f"`{value}`")


def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def said(kind: type) -> dict[str, str]:
    """What the docstrings of a type and those that it is of say of each field."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        section = cleandoc(str(each.__doc__)).partition("\nAttributes:\n")[2]
        for name, text in re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", section, re.M):
            said = " ".join(text.split()).replace("``", "`")
            found[name] = said.replace("|", "\\|")
    return found


def _structs(hint: Any) -> Iterator[type[msgspec.Struct]]:
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        yield hint
    for inner in get_args(hint):
        yield from _structs(inner)


def _type(hint: Any) -> str:
    """A type in words."""
    for name in NAMED:
        if hint == getattr(manifest, name):
            return name
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return f"[{hint.__name__}](#{hint.__name__.lower()})"
    origin, inner = get_origin(hint), get_args(hint)
    if hint in PLAIN or hint is type(None):
        return PLAIN.get(hint, "null")
    if origin is Annotated:
        meta = inner[1]
        if meta.ge is not None:
            return f"{meta.ge} to {meta.le}".replace(str(2**63 - 1), "2^63 - 1")
        least = ", not empty" if meta.min_length else ""
        return _type(inner[0]) + least
    if origin is Literal:
        return " or ".join(f'`"{value}"`' for value in inner)
    if origin is tuple and inner[-1] is ...:
        return f"list of {_type(inner[0])}"
    if origin is tuple:
        return f"[{', '.join(map(_type, inner))}]"
    if origin is dict:
        return f"object: {_type(inner[0])} to {_type(inner[1])}"
    if origin in (Union, types.UnionType):
        return " or ".join(map(_type, inner))
    raise TypeError(hint)


def _names() -> Iterator[str]:
    """The files of a shard: one of several, the only one, without directories of splits."""
    for name, point in installed(SINKS).items():
        if package_of(point) != OUR_PACKAGE:
            continue
        sink = load_sink(name)
        layouts: tuple[Layout, ...] = ("split", "flat")
        several, flat = (
            [*map(str, sink.paths(ShardName("train", 3, 16), layout))] for layout in layouts
        )
        only = [*map(str, sink.paths(ShardName("train", 0, 1), "split"))]
        split = [*map(str, sink.split_paths("train", 16, "split"))]
        cells = (
            "<br>".join(f"`{path}`" for path in paths) for paths in (several, only, flat, split)
        )
        yield f"| `{name}` | {' | '.join(cells)} |\n"
