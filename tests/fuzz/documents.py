"""Every document that dataprep keeps, mutated by its type, so that a new field needs no line here.

A valid document is made from what the type says, or, of those that hold a manifest, from a data
set; then a value at some place gives way to one that the type there is meant to refuse, or hardly
allows. The hash of the document is right.
"""

from __future__ import annotations

import copy
import hashlib
import json
import re
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from msgspec import inspect

from dataprep.errors import DataprepError
from dataprep.system.state_files import encode, parse
from dataprep_schemas.manifest import Manifest
from dataprep_schemas.state import State
from tests.fuzz.raw_readers import NEXT

_NO_HASH = "no hash yet"
_SAMPLES = (
    *("a", "0" * 64, "0" * 32, "train/a", "7", "256", "10%", ".dataprep/commits/a.parquet"),
    *(".dataprep/append/train/a", "1/10"),
)
_TEXTS = (
    *("", ".", "..", "../x", "/etc/passwd", "a//b", "-rf", ".dataprep/job.json", "manifest.json"),
    *("a\0b", "a\n", "\n", "\x1b[2J", "\u202eabc", "\ud800", "\udfff", 'x"; COPY y', "a" * 10**6),
)
_NUMBERS = (
    -1,
    0,
    1,
    2**31,
    2**53 - 1,
    2**53,
    2**63 - 1,
    2**63,
    2**64,
    10**30,
    1.0,
    0.5,
    float("nan"),
)
_OTHERS: tuple[Any, ...] = (None, True, [], {}, [[]], [None], {"a": 1}, {"": {}}, float("inf"))

Place = tuple[Any, Any, inspect.Type]
"""What holds a value, where in it, and the type of the value."""


@cache
def kinds() -> dict[str, type[Manifest | State]]:
    """Every type of a file that says its form."""
    found: list[type[Manifest | State]] = [Manifest, *State.__subclasses__()]
    return {str(kind.__struct_config__.tag): kind for kind in found}


@cache
def _declared(form: str) -> inspect.Type:
    return inspect.type_info(kinds()[form])


def documents(manifest_of_a_set: bytes) -> list[bytes]:
    """One valid document of each type, behind the name of its form."""
    manifest = json.loads(manifest_of_a_set)
    made = []
    for form, kind in kinds().items():
        document = _made(inspect.type_info(kind), manifest) if kind is not Manifest else manifest
        data = _written({"format": form, **document, "sha256": _NO_HASH})
        parse(data, kind, form, "nothing")  # it is valid
        made.append(form.encode() + NEXT + data)
    return made


def _made(kind: inspect.Type, manifest: Any) -> Any:
    """A value of a type, as JSON has it."""
    match kind:
        case inspect.StructType(cls=cls) if cls is Manifest:
            return manifest
        case inspect.StructType(fields=fields, array_like=array_like):
            values = {it.encode_name: _made(it.type, manifest) for it in fields}
            return [*values.values()] if array_like else values
        case inspect.StrType(pattern=pattern, max_length=most):
            fitting = (each for each in _SAMPLES if re.search(pattern or "", each))
            return next(each for each in fitting if len(each) <= (most or len(each)))
        case inspect.IntType():
            return 1
        case inspect.FloatType():
            return 0.5
        case inspect.BoolType():
            return False
        case inspect.BytesType():
            return "AAAA"
        case inspect.LiteralType(values=literals):
            return literals[0]
        case inspect.UnionType(types=types):
            return _made(types[0], manifest)
        case inspect.VarTupleType(item_type=item):
            return [_made(item, manifest)]
        case inspect.TupleType(item_types=items):
            return [_made(item, manifest) for item in items]
        case inspect.DictType(key_type=key, value_type=value):
            return {_made(key, manifest): _made(value, manifest)}
    return None


def _inner(kind: inspect.Type, value: Any) -> list[tuple[Any, inspect.Type]]:
    """Where values are within another, with their types."""
    if isinstance(kind, inspect.UnionType):
        kind = next((it for it in kind.types if not isinstance(it, inspect.NoneType)), kind)
    match kind, value:
        case inspect.StructType(fields=fields, array_like=False), dict():
            return [(it.encode_name, it.type) for it in fields if it.encode_name in value]
        case inspect.StructType(fields=fields), list():
            return [(at, it.type) for at, it in enumerate(fields[: len(value)])]
        case inspect.DictType(value_type=item), dict():
            return [(key, item) for key in value]
        case inspect.VarTupleType(item_type=item), list():
            return [(at, item) for at in range(len(value))]
        case inspect.TupleType(item_types=items), list():
            return [*enumerate(items[: len(value)])]
    return []


def _place(random: Random, kind: inspect.Type, value: Any) -> Place | None:
    """Some value within another, at any depth; None if there is none."""
    inner = _inner(kind, value)
    if not inner:
        return None
    key, item = random.choice(inner)
    deeper = _place(random, item, value[key]) if random.random() < 0.75 else None
    return deeper or (value, key, item)


def mutated_document(random: Random, seeds: list[bytes]) -> bytes:
    """One of the documents with 1 to 3 things changed, whose hash is right."""
    form, data = random.choice(seeds).split(NEXT, 1)
    document = json.loads(data)
    twice = change(random, document)
    document["sha256"] = _NO_HASH
    return form + NEXT + _written(document, twice)


def change(random: Random, document: dict[str, Any]) -> bytes:
    """Change 1 to 3 things of a document that says its form; returns a key to write twice."""
    kind = _declared(document["format"])
    twice = b""
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        place, other = (_place(random, kind, document) for _ in range(2))
        if place is None or other is None:
            break
        holder, key, declared = place
        match random.randrange(8):
            case 0:
                del holder[key]
            case 1 if isinstance(holder, dict):
                holder[random.choice(_TEXTS)] = holder[key]
            case 1:
                holder.insert(key, holder[key])
            case 2 if isinstance(holder, dict) and isinstance(key, str):
                twice = json.dumps(key).encode() + b": "
            case 3:
                holder[key] = copy.deepcopy(other[0][other[1]])
            case _:
                holder[key] = copy.deepcopy(_hostile(random, declared, holder[key]))
    return twice


def _hostile(random: Random, kind: inspect.Type, value: Any) -> Any:
    """What a type is meant to refuse, or hardly allows."""
    if random.random() < 0.2:
        return random.choice(_OTHERS)
    match kind:
        case inspect.IntType(gt=gt, ge=ge, lt=lt, le=le):
            ends = [
                end + more for end in (gt, ge, lt, le) if end is not None for more in (-1, 0, 1)
            ]
            return random.choice([*ends, *_NUMBERS])
        case inspect.StrType(max_length=most) if isinstance(value, str):
            neighbours = [value + "\n", "\n" + value, value + "\0", value[:-1], value + value]
            if most is not None:
                neighbours += ["a" * most, "a" * (most + 1)]
            return random.choice([*neighbours, *_TEXTS, *_NUMBERS])
    return random.choice([*_OTHERS, *_TEXTS, *_NUMBERS])


def _written(document: dict[str, Any], twice: bytes = b"") -> bytes:
    """The file of a document, with the hash of all but its line; the key `twice` comes twice."""
    lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in document.items()]
    data = "{{\n {}\n}}\n".format(",\n ".join(lines)).encode()
    if twice:
        data = data.replace(twice, twice + b"1, " + twice, 1)
    line = f'\n "sha256": "{_NO_HASH}"'.encode()
    before, comma, behind = data.partition(line + b",")
    if not comma:
        before, _, behind = data.partition(b"," + line)
    digest = hashlib.sha256(before + behind).hexdigest()
    return data.replace(_NO_HASH.encode(), digest.encode())


def read_document(data: bytes, _: Path) -> None:
    """It is one, which is written as it was read, or refused in a line."""
    form, content = data.split(NEXT, 1)
    kind = kinds()[form.decode()]
    try:
        document = parse(content, kind, "it", "do that")
    except DataprepError as error:
        if not str(error).isprintable() or len(str(error)) > 1000:
            raise AssertionError(error) from error
        raise
    again = parse(encode(document), kind, "it", "do that")
    bare = [msgspec.structs.replace(each, sha256="0" * 64) for each in (document, again)]
    assert bare[0] == bare[1]
