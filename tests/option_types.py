"""The types of the options of the Python calls, made from the one table of options."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import click

from dataprep.api.options import (
    compact_options,
    convert_options,
    prepare_options,
    select_options,
    stage_options,
)
from dataprep.plugins import dataset_class

BUILT_IN = ("imagenet", "chestxray14", "folder", "shards")

_HEAD = '''"""What the Python calls take as options, for type checkers and completion.

Made from the table in `dataprep.api.options` by ``python -m tests.regenerate_docs``.
What a command takes with commas may be a list or a mapping. None is as good as nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict

StrPath = str | os.PathLike[str]
Names = str | Sequence[str]
'''

# What is text on the command line, by what its help calls it.
_BY_METAVAR = {
    **dict.fromkeys(("FILE", "RAW", "OUT", "OUT2", "DIR", "OLD"), "StrPath"),
    **dict.fromkeys(("NAMES", "NAME,...|all"), "Names"),
    **dict.fromkeys(("N|P%", "SIZE", "INTEGER", "[auto|COUNT|off]"), "int | str"),
    "SHARE": "float | str",
    "COUNTS": "int | str | Mapping[str, int]",
    "SPLIT=SHARE,...": "str | Mapping[str, float]",
    "NAME=VALUE": "str | Sequence[str] | Mapping[str, str]",
}


def option_types() -> str:
    """The module."""
    prepare: dict[str, str] = {}
    for name in BUILT_IN:
        prepare = {**_types(prepare_options(dataset_class(name))), **prepare}
    compact, convert, select = map(_types, (compact_options(), convert_options(), select_options()))
    job = {name: it for name, it in compact.items() if prepare.get(name) == it}
    text = _HEAD
    text += _declared("JobOptions", "TypedDict", "Of every call that makes shards", job, {})
    text += _declared(
        "PrepareOptions",
        "JobOptions",
        "Of `prepare`, of every data set that comes with it",
        prepare,
        job,
    )
    text += _declared("CompactOptions", "JobOptions", "Of `compact`", compact, job)
    text += _declared("ConvertOptions", "CompactOptions", "Of `convert`", convert, compact)
    text += _declared("SelectOptions", "ConvertOptions", "Of `select`", select, convert)
    stage = {name: it for name, it in _types(stage_options()).items() if name != "to"}
    return text + _declared("StageOptions", "TypedDict", "Of `stage`", stage, {})


def _declared(
    name: str, base: str, words: str, fields: Mapping[str, str], inherited: Mapping[str, str]
) -> str:
    lines = [f'\n\nclass {name}({base}, total=False):\n    """{words}."""\n']
    lines += [f"    {field}: {it} | None" for field, it in fields.items() if field not in inherited]
    return "\n".join(lines) + "\n"


def _types(table: Sequence[click.Option]) -> dict[str, str]:
    return {name.removeprefix("--"): _type(option) for option in table for name in option.opts}


def _type(option: click.Option) -> str:
    if option.is_flag:
        return "bool"
    if isinstance(option.type, click.Choice):
        return f"Literal[{', '.join(map(_quoted, option.type.choices))}]"
    if words := re.fullmatch(r"\[([a-z|]+)\]", str(option.metavar)):
        return f"Literal[{', '.join(map(_quoted, words[1].split('|')))}]"
    known = _BY_METAVAR.get(str(option.metavar))
    if known is None and isinstance(option.type, click.Path):
        known = "StrPath"
    if known is None and isinstance(option.type, click.types.IntParamType):
        known = "int"
    if known is None and isinstance(option.type, click.types.FloatParamType):
        known = "float"
    return known or ("Names" if option.multiple else "str")


def _quoted(word: object) -> str:
    return f'"{word}"'
