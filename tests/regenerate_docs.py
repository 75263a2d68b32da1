"""Write the pages made from the program, and the schema: ``python -m tests.regenerate_docs``."""

from __future__ import annotations

import inspect
import json
import re
import tomllib
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import is_dataclass
from functools import cache
from pathlib import Path
from textwrap import fill
from typing import Any, get_args, get_type_hints

import click

import dataprep
import dataprep_schemas
from dataprep import Contents, Difference, JobStatus, Linted, Plan, Pushed, Verified
from dataprep.cli import _DATASETS as DATASETS
from dataprep.cli import command
from dataprep.cli.doctor import Machine
from dataprep.cli.sets import HELP_ALL
from dataprep.review.findings import Findings
from dataprep.staging.existing import StagedStatus
from tests.format_page import said, with_parts
from tests.manual import manual
from tests.stub import stub

DOCS = Path(__file__).parent.parent / "docs"
Record = tuple[str, str] | None
"""An option and its help, as a command shows them."""

_COMMANDS = """# Commands and options

Made from the commands' own `--help-all` by `python -m tests.regenerate_docs`; a test compares
them. An option that several commands have is told once, and named below the others.

Every long option may be written with `_` or with `-`. `--raw` and `--out` are short names of
`--raw_data_dir` and `--local_scratch_dir`. Each command has `-h`, `--help`, and those that run a
job `--help-all`, which shows every option.

With `--json`, a command prints an object, whose fields [api.md](api.md) describes below the class
that the help names, or the command. Messages stay on stderr, and the exit code is the same.

Your shell completes commands and options
after `eval "$(_DATAPREP_COMPLETE=bash_source dataprep)"`; `zsh_source` and `fish_source` are for
those shells. `man dataprep` is the same text, where the environment's `bin` is on `PATH`.
"""

_API = """# The Python calls

Made from the docstrings by `python -m tests.regenerate_docs`; a test compares them. A walk through
it is [python.md](python.md). Options are told in [commands.md](commands.md), under the same names;
types, and what each call raises, by `help()` and by type checkers. All errors are
`dataprep.errors.DataprepError`; its kinds are those of the commands' exit codes. The fields of the
classes are those that `--json` prints, with null for None; of an example, `encoded` is null, and
`bytes` is the image's size. [stability.md](stability.md#python) says which names stay.
"""
_PRINTED: tuple[type, ...] = (Contents, Difference, JobStatus, Linted, Plan, Pushed, Verified)
_PROMISED: tuple[type, ...] = (Contents, Plan, Verified, JobStatus)
"""Those that are."""
_FOR_US = {
    *("announce", "held_out", "identity", "order", "place_of", "remote", "shard_sizes"),
    *("shared", "title", "info", "sink", "require_whole", "split_called", "details"),
}
"""Members of classes that the rest of dataprep needs, and nobody else."""
_MANY = 12
"""A call with more named parameters has options of a command, which docs/commands.md tells."""
_OF_COMMANDS = {"doctor": Machine, "stage --status": StagedStatus}


def pages() -> dict[Path, str]:
    """The pages that are made, by path."""
    context = click.Context(command, info_name="dataprep", **command.context_settings)
    return {
        DOCS / "commands.md": _COMMANDS + "".join(_commands(context)),
        DOCS.parent / "dataprep" / "api" / "functions.pyi": stub(),
        DOCS / "dataprep.1": manual(),
        DOCS / "api.md": _API + "".join(_members()),
        DOCS / "on-disk.md": with_parts(DOCS / "on-disk.md"),
        DOCS.parent / "docker" / "light.txt": _light(),
    }


def _light() -> str:
    """What the project requires besides Beam, which no other of these needs."""
    project = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))
    needed = (it for it in project["project"]["dependencies"] if not it.startswith("apache-beam"))
    return "# Made of pyproject.toml by `python -m tests.regenerate_docs`.\n" + "".join(
        f"{it}\n" for it in sorted(needed)
    )


def _record(parameter: click.Parameter) -> Record:
    if isinstance(parameter, click.Argument) or "--help-all" in parameter.opts:
        return None
    return parameter.get_help_record(click.Context(command, **command.context_settings))


def _commands(context: click.Context) -> Iterator[str]:
    """The program and its commands; an option is told with the first command that has it."""
    yield _told(context, context.command)
    contexts = [*_inner_contexts(context)]
    several = [it for it in contexts if it.parent is context and it.info_name in DATASETS]
    shared = set.intersection(*({*map(_record, it.command.params)} for it in several))
    shared -= {None}
    texts = [set(_paragraphs(it.command)) for it in several]
    common = [it for it in _paragraphs(several[0].command) if all(it in text for text in texts)]
    every = copy(several[0].command)
    every.help = "\n\n".join(common)
    every.params = [it for it in every.params if _record(it) in shared]
    yield _told(several[0], every, "Options of every data set")
    told = dict.fromkeys(shared, "Options of every data set")
    for inner in contexts:
        command = copy(inner.command)
        command.help = "\n\n".join(it for it in _paragraphs(command) if it not in common)
        known = [it for it in command.params if _record(it) in told]
        command.params = [it for it in command.params if it not in known]
        yield _told(inner, command)
        for title in dict.fromkeys(told[_record(it)] for it in known):
            those = [it for it in known if told[_record(it)] == title]
            words = [*_sections(those, every.params)]
            link = f"[{title}](#{title.lower().replace(' ', '-')})"
            text = f"And of {link}: {', '.join(words)}."
            yield "\n" + fill(text, 120, break_on_hyphens=False, break_long_words=False) + "\n"
        told.update({_record(it): inner.command_path for it in command.params})
        told.pop(None, None)


def _sections(some: Sequence[click.Parameter], every: Sequence[click.Parameter]) -> Iterator[str]:
    """Names of options, but of a whole section the section's."""
    for name in dict.fromkeys(getattr(it, "section", "") for it in some):
        inside = [it for it in some if getattr(it, "section", "") == name]
        whole = {_record(it) for it in every if getattr(it, "section", "") == name}
        if whole and whole <= {_record(it) for it in inside}:
            yield f"*{name}*"
        else:
            yield from (f"`{it.opts[0]}`" for it in inside)


def _inner_contexts(context: click.Context) -> Iterator[click.Context]:
    if isinstance(context.command, click.Group):
        for name in context.command.list_commands(context):
            found = context.command.get_command(context, name)
            if found is not None:
                inner = click.Context(found, context, name, **command.context_settings)
                inner.max_content_width = 100
                inner.terminal_width = 100
                inner.meta[HELP_ALL] = True
                yield inner
                yield from _inner_contexts(inner)


def _paragraphs(found: click.Command) -> list[str]:
    return inspect.cleandoc(found.help or "").split("\n\n")


def _told(context: click.Context, found: click.Command, title: str = "") -> str:
    text = found.get_help(context)
    text = re.split(r"\n\n(?:Data sets|Commands):\n", text)[0]  # which have sections of their own
    if context.parent is not None:  # every command has these
        text = re.sub(r"(\n\nHelp:)?(\n  --help-all .*)?\n  -h, --help .*$", "", text)
        text = text.removesuffix("\n\nOptions:")
    if title:
        text = text.partition("\n\n")[2]
    return f"\n## {title or context.command_path}\n\n```\n{text}\n```\n"


def promised() -> list[str]:
    """The names of Python that docs/stability.md promises, in its order."""
    section = (DOCS / "stability.md").read_text("utf-8").partition("\n## Python\n")[2]
    rows = re.findall(r"^\| (`.*?`) \|", section.partition("\n## ")[0], re.M)
    return [name for row in rows for name in re.findall(r"`(\w+)`", row)]


def _members() -> Iterator[str]:
    for name in promised():
        if name != "errors":
            yield from _member(name)
    for kind in _PROMISED:
        yield from _member(kind.__name__)
    yield from _of_command("doctor", _OF_COMMANDS["doctor"])
    yield "\n# Not promised\n\nWhat may still change in a minor version.\n"
    for name in sorted({*dataprep._WHERE} - {*dataprep.__all__}):
        if getattr(dataprep, name) not in _PROMISED:
            yield from _member(name)
    yield from _of_command("stage --status", _OF_COMMANDS["stage --status"])


def _of_command(name: str, kind: type) -> Iterator[str]:
    yield f"\n## dataprep {name} --json\n{_text(kind)}"
    for title, inner in _inner(name, kind):
        yield _section(title, inner)


def _member(name: str) -> Iterator[str]:
    member = getattr(dataprep, name)
    yield f"\n## dataprep.{name}\n"
    first = next(iter(DATASETS))
    if name in DATASETS and name != first:
        command_link = f"[`dataprep {name}`](commands.md#dataprep-{name})"
        yield f"{_text(member).partition(chr(10) * 2)[0]}\n"
        yield f"\nAs [{first}](#dataprep{first}), with the options of {command_link}.\n"
        return
    if not isinstance(member, type):
        signature, left_out = _signature(member)
        text = _text(member, ("Raises", *left_out))
        yield f"\n```python\n{name}{signature}\n```\n{text}"
        return
    yield _text(member, ("Args", "Raises"))  # made by functions
    ours = [kind for kind in member.__mro__ if kind.__module__.startswith("dataprep.")]
    for inner in sorted({it for kind in ours for it in vars(kind) if not it.startswith("_")}):
        told = [vars(kind)[inner] for kind in ours if inner in vars(kind)]
        value = next((it for it in told if not str(it.__doc__).startswith("See `")), told[0])
        if isinstance(value, property) and inner not in _FOR_US:
            yield f"\n### {name}.{inner}\n{_text(value, ('Raises',))}"
        elif inspect.isfunction(value) and inner not in _FOR_US:
            signature, left_out = _signature(value)
            text = _text(value, ("Raises", *left_out))
            yield f"\n### {name}.{inner}\n\n`{inner}{signature}`\n{text}"
    for title, kind in _inner(name, member) if member in _PRINTED else ():
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


def _signature(function: object) -> tuple[str, Sequence[str]]:
    """Without types, which ``help()`` has, and names of options that are left out."""
    assert callable(function)
    signature = inspect.signature(function)
    parameters = [it.replace(annotation=it.empty) for it in signature.parameters.values()]
    parameters = [it for it in parameters if it.name != "self"]
    named = [it.name for it in parameters if it.kind is it.KEYWORD_ONLY]
    left_out = [name for name in named if name in _options()] if len(named) > _MANY else []
    kept = [it for it in parameters if it.name not in left_out]
    text = str(inspect.Signature(kept))
    return (text.removesuffix(")") + ", …)" if left_out else text), left_out


@cache
def _options() -> set[str | None]:
    """Of all commands."""
    contexts = _inner_contexts(click.Context(command, **command.context_settings))
    params = [param for context in contexts for param in context.command.params]
    return {param.name for param in params if isinstance(param, click.Option)}


def _text(member: object, left_out: Sequence[str] = ()) -> str:
    """A docstring as Markdown: Google's sections become lists.

    Args:
        left_out: sections and items that are.
    """
    lines: list[str] = []
    section, skips = "", False
    for line in inspect.cleandoc(inspect.getdoc(member) or "").splitlines():
        header = re.fullmatch(r"(Args|Raises|Returns|Attributes):", line)
        item = re.fullmatch(r"    (\w[\w.]*): (.*)", line)
        if header:
            section, skips = header[1], header[1] in left_out
            lines += [] if skips else [f"**{section}**", ""]
        elif section and item and section != "Returns":
            skips = section in left_out or item[1] in left_out
            lines += [] if skips else [f"* `{item[1]}`: {item[2]}"]
        elif section and line.startswith("    "):
            indent = "" if section == "Returns" else "  "
            lines += [] if skips else [f"{indent}{line.strip()}"]
        else:
            section = section if not line else ""
            skips = skips and bool(section)
            lines.append(line)
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip().replace("``", "`")
    if is_dataclass(member) and text.startswith(f"{getattr(member, '__name__', '')}("):
        return ""  # dataclasses' own
    return f"\n{text}\n"


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
    schema = json.dumps(dataprep_schemas.manifest_schema(), indent=1)
    Path(dataprep_schemas.__file__).with_name("manifest.schema.json").write_text(schema + "\n")
