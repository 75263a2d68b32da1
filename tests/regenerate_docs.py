"""Write the pages made from the program, and the schema: ``python -m tests.regenerate_docs``."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from copy import copy
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

import click

import dataprep
import dataprep_schemas
from dataprep import Contents, Difference, JobStatus, Linted, Plan, Pushed, Verified
from dataprep.api.explicit import NAMES
from dataprep.cli import _DATASETS as DATASETS
from dataprep.cli import command
from dataprep.cli.doctor import Machine
from dataprep.cli.help import HELP_ALL
from dataprep.review.findings import Findings
from dataprep.staging.existing import StagedStatus
from tests.format_page import said, with_parts
from tests.manual import manual
from tests.stub import stub

DOCS = Path(__file__).parent.parent / "docs"
Record = tuple[str, str] | None
"""An option and its help, as a command shows them."""

_COMMANDS = """# Commands

Made from the commands' own `--help-all` by `python -m tests.regenerate_docs`; a test compares them.
Every long option may be written with `_` or with `-`. Each command has `-h`, `--help`, and those
that run a job `--help-all`, which shows every option as this page does. From Python, see
[python.md](python.md).

`dataprep status`, `verify`, `inspect`, `diff`, `lint`, `push`, `doctor`, `stage --status` and every
`--dry_run` of raw data print JSON with `--json`: an object, whose fields [api.md](api.md) describes
below the class that the help names, or the command. Messages stay on stderr, and the exit code is
the same.

Your shell completes commands and options after `eval "$(_DATAPREP_COMPLETE=bash_source dataprep)"`;
`zsh_source` and `fish_source` are for those shells. `man dataprep` is the same text, where the
environment's `bin` is on `PATH`.
"""

_API = """# Python

Made from the docstrings by `python -m tests.regenerate_docs`; a test compares them. A walk through
it is [python.md](python.md). All errors are `dataprep.errors.DataprepError`; its kinds are those of
the commands' exit codes. The fields of the classes are those that `--json` prints, with null for
None; of an example, `encoded` is null, and `bytes` is the image's size.
"""
_PRINTED: tuple[type, ...] = (Contents, Difference, JobStatus, Linted, Plan, Pushed, Verified)
_OF_COMMANDS = {"doctor": Machine, "stage --status": StagedStatus}


def pages() -> dict[Path, str]:
    """The pages that are made, by path."""
    context = click.Context(command, info_name="dataprep", **command.context_settings)
    return {
        DOCS / "commands.md": _COMMANDS + "".join(_sections(context, _common(context))),
        DOCS.parent / "dataprep" / "api" / "functions.pyi": stub(),
        DOCS / "dataprep.1": manual(),
        DOCS / "api.md": _API + "".join(_members()),
        DOCS / "on-disk.md": with_parts(DOCS / "on-disk.md"),
    }


def _common(context: click.Context) -> set[Record]:
    """The options that all data sets have, as they show them."""
    found = [command.get_command(context, name) for name in DATASETS]
    return set.intersection(*({*map(_record, it.params)} for it in found if it is not None)) - {
        None
    }


def _record(parameter: click.Parameter) -> Record:
    if isinstance(parameter, click.Argument):
        return None
    return parameter.get_help_record(click.Context(command, **command.context_settings))


def _sections(context: click.Context, common: set[Record]) -> Iterator[str]:
    found, end = context.command, ""
    if found.name in DATASETS:
        every, found = copy(found), copy(found)
        every.params = [it for it in found.params if _record(it) in common]
        found.params = [it for it in found.params if it not in every.params]
        if found.name == next(iter(DATASETS)):
            _, _, shown = every.get_help(context).partition("\n\nInput:\n")
            shown = shown.partition("\n\nHelp:\n")[0]
            yield f"\n## Options of every data set\n\n```\nInput:\n{shown}\n```\n"
        end = "\nAnd the [options of every data set](#options-of-every-data-set).\n"
    text = found.get_help(context)
    if context.parent is not None:  # every command has these
        text = re.sub(r"(\n\nHelp:)?(\n  --help-all .*)?\n  -h, --help .*$", "", text)
        text = text.removesuffix("\n\nOptions:")
    yield f"\n## {context.command_path}\n\n```\n{text}\n```\n{end}"
    if isinstance(found, click.Group):
        for name in found.list_commands(context):
            sub = found.get_command(context, name)
            if sub is not None:
                inner = click.Context(sub, context, name, **command.context_settings)
                inner.max_content_width = 100
                inner.terminal_width = 100
                inner.meta[HELP_ALL] = True
                yield from _sections(inner, common)


def _members() -> Iterator[str]:
    named = {*dataprep.__all__, *dataprep._WHERE} - {"__version__"}
    members = {name: getattr(dataprep, name) for name in sorted(named)}
    for name, member in sorted(members.items(), key=lambda item: isinstance(item[1], type)):
        yield f"\n## dataprep.{name}\n"
        if name in NAMES:
            yield f"\n```python\n{name}({_places(member)}*, …)\n```\n"
        elif not isinstance(member, type):
            yield f"\n```python\n{name}{_signature(member)}\n```\n"
        yield _text(member)
        if isinstance(member, type):
            for inner, value in vars(member).items():
                wanted = isinstance(value, property) or inspect.isfunction(value)
                if wanted and not inner.startswith("_"):
                    called = inner if isinstance(value, property) else inner + _signature(value)
                    yield f"\n### {name}.{inner}\n\n`{called}`\n{_text(value)}"
        for title, kind in _inner(name, member) if member in _PRINTED else ():
            yield _section(title, kind)
    for name, member in _OF_COMMANDS.items():
        yield f"\n## dataprep {name} --json\n{_text(member)}"
        for title, kind in _inner(name, member):
            yield _section(title, kind)


def printed() -> Iterator[tuple[str, type]]:
    """Every class whose fields ``--json`` prints, with its heading."""
    for kind in _PRINTED:
        yield f"dataprep.{kind.__name__}", kind
        yield from _inner(kind.__name__, kind)
    for name, kind in _OF_COMMANDS.items():
        yield f"dataprep {name} --json", kind
        yield from _inner(name, kind)


def _inner(title: str, kind: type) -> Iterator[tuple[str, type]]:
    """Those in its fields, and in theirs."""
    for name, hint in fields_of(kind).items():
        for each in _ours(hint):
            yield f"{title}.{name}", each
            yield from _inner(f"{title}.{name}", each)


def fields_of(kind: type) -> dict[str, Any]:
    """Names and types of its fields."""
    return get_type_hints(kind, localns={"Findings": Findings})


def _section(title: str, kind: type) -> str:
    about = str(kind.__doc__).partition("\n")[0].replace("``", "`")
    items = (f"* `{name}`: {text}\n" for name, text in said(kind).items())
    return f"\n### {title}\n\n{about}\n\n{''.join(items)}"


def _ours(hint: Any) -> Iterator[type]:
    if isinstance(hint, type) and hint.__module__.startswith("dataprep."):
        yield hint
    for inner in get_args(hint):
        yield from _ours(inner)


def _signature(function: object) -> str:
    assert callable(function)
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(inspect.signature(function)))
    return text.replace("(self, ", "(").replace("(self)", "()")


def _places(function: object) -> str:
    """What comes before the options, which a list names."""
    assert callable(function)
    found = inspect.signature(function).parameters.values()
    named = [it for it in found if it.kind is not it.KEYWORD_ONLY]
    stars = ["*" * (it.kind is it.VAR_POSITIONAL) for it in named]
    return "".join(f"{star}{it.name}, " for star, it in zip(stars, named, strict=True))


def _text(member: object) -> str:
    """A docstring as Markdown: Google's sections become lists."""
    lines: list[str] = []
    section = ""
    for line in inspect.cleandoc(str(getattr(member, "__doc__", ""))).splitlines():
        header = re.fullmatch(r"(Args|Raises|Returns|Attributes):", line)
        item = re.fullmatch(r"    (\w[\w.]*): (.*)", line)
        if header:
            section = header[1]
            lines += [f"**{section}**", ""]
        elif section and item and section != "Returns":
            lines.append(f"* `{item[1]}`: {item[2]}")
        elif section and line.startswith("    "):
            lines.append(f"  {line.strip()}" if section != "Returns" else line.strip())
        else:
            section = section if not line else ""
            lines.append(line)
    text = "\n".join(lines).replace("``", "`")
    if is_dataclass(member) and text.startswith(f"{getattr(member, '__name__', '')}("):
        return ""  # dataclasses' own
    return f"\n{text}\n"


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
    schema = json.dumps(dataprep_schemas.manifest_schema(), indent=1)
    Path(dataprep_schemas.__file__).with_name("manifest.schema.json").write_text(schema + "\n")
