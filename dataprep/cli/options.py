"""Declared options as click's, which show them, complete them and take them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from dataprep.errors import UsageError
from dataprep.options import Option, written


class _Read(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic since click 8.2
    """What a declaration reads; what it refuses is said as click says it."""

    name = "text"

    def __init__(self, option: Option) -> None:
        self.option = option

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> object:
        """Read one; of several, only to find out whether it is right. Paths are told as given."""
        try:
            found = self.option.read(value)
        except UsageError as error:
            raise click.UsageError(str(error), ctx) from error
        if self.option.type is Path:
            return Path(value)
        return value if self.option.repeated else found

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Words, or paths."""
        kind: click.ParamType[Any] = click.ParamType()
        if self.option.words:
            kind = click.Choice(self.option.words)
        elif self.option.type is Path:
            kind = click.Path(file_okay=self.option.place != "directory")
        return kind.shell_complete(ctx, param, incomplete)


class Shown(click.Option):
    """A declared option, as a command has it.

    Args:
        settled: whether the call has its default; otherwise the command has.
    """

    def __init__(self, declared: Option, *, settled: bool = True, **more: Any) -> None:
        said = declared
        spelled = [*said.names]
        self.declared, self.rare, self.section = said, said.rare, said.section
        if said.type is bool:
            if said.default is not False:
                spelled = [f"--{said.name}/--no_{said.name}"]
            kind: dict[str, Any] = {"is_flag": True}
        else:
            kind = {"type": _Read(said), "metavar": said.placeholder, "multiple": said.repeated}
        if said.bare:
            kind |= {"is_flag": False, "flag_value": said.bare}
        if not settled and said.default not in (None, False, MISSING):
            kind["default"] = said.default
        if said.type is bool and said.default is None:
            kind["default"] = None
        required = said.default is MISSING
        super().__init__([*spelled, said.name], help=said.help, required=required, **kind, **more)

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Its names and its help, and its default unless the help says that."""
        if self.hidden:
            return None
        said, default = self.declared, self.declared.default
        names = ", ".join(said.names)
        if said.type is bool and default is not False:
            names = f"--{said.name} / --no_{said.name}"
        text = said.help
        if said.required:
            text += " [required]"
        elif said.shown and default not in (None, "", (), False) and default != {}:
            text += f" [default: {written(default)}]"
        return f"{names} {said.placeholder}" if said.type is not bool else names, text


def shown(table: Iterable[Option]) -> list[Shown]:
    """Options of a call."""
    return [Shown(option) for option in table]


def own(
    name: str,
    text: str,
    default: Any = None,
    kind: Any = str,
    *,
    hidden: bool = False,
    **said: Any,
) -> Shown:
    """An option that a command has for itself.

    Args:
        kind: the type of its value.
        said: as of `dataprep.options.option`.
    """
    option = Option(field=name, name=name, type=kind, default=default, help=text, **said)
    return Shown(option, settled=False, hidden=hidden)


def flag(name: str, text: str, **said: Any) -> Shown:
    """The same, without a value."""
    return own(name, text, False, bool, **said)


def number(name: str, metavar: str, text: str, default: int | None = None, least: int = 1) -> Shown:
    """The same, of a whole number."""
    return own(name, text, default, int, metavar=metavar, least=least)


def given(context: click.Context, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values that the user gave; defaults are the call's own business."""
    default = (ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP)
    return {
        name: value
        for name, value in values.items()
        if context.get_parameter_source(name) not in default
    }


# Of the commands that only read.
WORKERS = number("workers", "N", "Cores to use. [default: all cores that this process may use]")
