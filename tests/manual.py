"""``docs/dataprep.1``: the page of ``man dataprep``, of the same texts as ``--help``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from inspect import cleandoc

import click

import dataprep
from dataprep.cli import command
from dataprep.cli.sets import HELP_ALL

_HEAD = r""".\" Made by `python -m tests.regenerate_docs`.
.TH DATAPREP 1 "" "dataprep {version}" "User Commands"
.ad l
.nh
.SH NAME
dataprep \- raw image archives in; verified, shuffled, sharded record files out
.SH SYNOPSIS
.B dataprep
.I COMMAND
[\fIOPTION\fR]...
.SH DESCRIPTION
"""
_TAIL = r""".SH ENVIRONMENT
.TP
.B DATAPREP_CONFIG
The file of defaults, instead of /etc/dataprep.toml; empty: none.
.TP
.B DATAPREP_SCRATCH
Storage of this node's own, for
.BR "dataprep stage" .
.TP
.B DATAPREP_RENDEZVOUS_SECRET
What the nodes of
.B dataprep stage
prove to each other.
.SH FILES
.TP
.I /etc/dataprep.toml
Defaults that a site sets for all its users.
"""


def manual() -> str:
    """The whole page."""
    context = click.Context(command, info_name="dataprep", **command.context_settings)
    return "".join(
        (_HEAD.format(version=dataprep.__version__), *_text(context), *_all(context), _TAIL)
    )


def _all(context: click.Context) -> Iterator[str]:
    found = context.command
    assert isinstance(found, click.Group)
    if context.parent is None:
        yield ".SH OPTIONS\n"
        yield from _options(context)
        yield ".SH COMMANDS\n"
    for name in found.list_commands(context):
        sub = found.get_command(context, name)
        assert sub is not None
        inner = click.Context(sub, context, name, **command.context_settings)
        inner.meta[HELP_ALL] = True
        usage = " ".join([inner.command_path, *sub.collect_usage_pieces(inner)])
        yield f'.SS "{_escaped(usage)}"\n'
        yield from _text(inner)
        yield from _options(inner)
        if isinstance(sub, click.Group):
            yield from _all(inner)


def _text(context: click.Context) -> Iterator[str]:
    for paragraph in cleandoc(context.command.help or "").split("\n\n"):
        yield f"{_escaped(' '.join(paragraph.split()))}\n.PP\n"


def _options(context: click.Context) -> Iterator[str]:
    for parameter in context.command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None:
            yield f".TP\n.B {_escaped(record[0])}\n{_escaped(' '.join(record[1].split()))}\n"


def _escaped(text: str) -> str:
    """A line in which roff finds nothing to obey."""
    text = text.replace("\\", r"\e").replace("-", r"\-").replace('"', r"\(dq")
    text = re.sub(r",(?=\S)", r",\\:", text)  # a line may break there
    return re.sub(r"^(?=[.'])", r"\\&", text).replace("…", r"\&...")
