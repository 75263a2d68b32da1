"""What the calls return; ``--json`` prints the same, field by field."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path

import msgspec


def as_json(result: object) -> str:
    """A result as JSON: an object with its fields, in their order; only printable characters."""
    lines = json.dumps(_plain(result), indent=2, ensure_ascii=False).split("\n")
    return "\n".join(line if line.isprintable() else _escaped(line) for line in lines)


def _escaped(line: str) -> str:
    return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in line)


def _plain(value: object) -> object:
    if isinstance(value, msgspec.Struct):
        return _plain(msgspec.structs.asdict(value))
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(inner) for inner in value]
    return str(value) if isinstance(value, Path) else value
