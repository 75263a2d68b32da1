"""What a user sees passes here: whatever a manifest or an archive says, a line stays a line."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from json import dumps
from pathlib import Path
from typing import Any

import click

from dataprep.api.progress import forget_stdout
from dataprep.cli.options import flag
from dataprep.errors import DataprepError
from dataprep.system.messages import printable

PATH = click.Path(path_type=Path)  # of an argument


class _Place(click.Path):  # type: ignore[type-arg,unused-ignore]  # generic since click 8.2
    """A directory of this machine as a path, or the address of a place in a bucket as it is."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Tell which it is."""
        from dataprep.remote.store import address_of  # late: the help needs none of it

        return address_of(value) or super().convert(value, param, ctx)


PLACE = _Place(path_type=Path)  # the same of a data set, which may be in a bucket


def json_option(kind: str) -> click.Option:
    """``--json``, which prints the result as `show` does.

    Args:
        kind: of the result, in the package's public names.
    """
    return flag("json", f"Print the result as JSON: dataprep.{kind}.")


def say(*lines: object, err: bool = False) -> None:
    """Print a line each, in which a terminal finds nothing to obey.

    Raises:
        DataprepError: stdout takes no more; what is for stderr goes there instead.
        BrokenPipeError: nobody reads stdout any more.
    """
    for line in lines:
        hand_on(f"{printable(str(line))}\n", err=err)


def show(result: object, *, json: bool, lines: Iterable[str] | None = None) -> None:
    """Print a result for a person, or field by field for a program.

    Args:
        lines: for a person; None: the result says them itself.

    Raises:
        DataprepError: as `say`.
    """
    if lines is None or json:
        lines = (as_json(result) if json else str(result)).split("\n")
    say(*lines)


def as_json(result: object) -> str:
    """A result as JSON: an object with its fields, in their order; only printable characters."""
    lines = dumps(_plain(result), indent=2, ensure_ascii=False).split("\n")
    return "\n".join(line if line.isprintable() else _escaped(line) for line in lines)


def _escaped(line: str) -> str:
    return "".join(each if each.isprintable() else dumps(each)[1:-1] for each in line)


def _plain(value: object) -> object:
    import msgspec  # late: most commands print no result

    if isinstance(value, msgspec.Struct):
        return _plain(msgspec.structs.asdict(value))
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(inner) for inner in value]
    return str(value) if isinstance(value, Path) else value


def hand_on(text: str, *, err: bool = False) -> None:
    """Print what a program takes in, as it is; of what the user said, and of nothing else.

    Raises:
        DataprepError: as `say`.
    """
    try:
        click.echo(text, nl=False, err=err)  # noqa: TID251  # the one place
    except BrokenPipeError:
        raise
    except OSError as error:
        if err:
            with suppress(OSError):
                click.echo(text, nl=False)  # noqa: TID251  # rather there than nowhere
            return
        forget_stdout()
        raise DataprepError(f"stdout cannot be written: {error.strerror or error}") from error


def open_streams() -> None:
    """Have the three of them: what is opened in the place of a closed one gets all that is said.

    Undecodable names go out as they came in, where a program is to have them.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115  # for the process's life
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115  # likewise
    sys.stdout.reconfigure(errors="surrogateescape")  # type: ignore[union-attr]  # a file's
