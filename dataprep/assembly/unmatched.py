"""Images that are listed but not there, or there but not listed: counted, named, and judged."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path

from dataprep.assembly.commit import CommittedFile
from dataprep.assembly.seal import MaxBad
from dataprep.assembly.workspace import UNMATCHED, Workspace
from dataprep.durable_files import partial_path
from dataprep.errors import RejectedError
from dataprep.index import Unmatched
from dataprep.wording import counted, printable

_SHOWN = 5  # of each kind, on the terminal and in the manifest; all of them are in the file
_HEADER = "kind\tsplit\tname\twhere\n"


@dataclass(slots=True)
class Kind:
    """Those of one kind.

    Attributes:
        what: what they are, in words.
        number: how many.
        first: the names of a few.
    """

    what: str
    number: int = 0
    first: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """How many of what."""
        return f"{counted(self.number, 'image')} {self.what}"


@dataclass(frozen=True, slots=True)
class UnmatchedTable:
    """All of them, in a file, because a wrong directory may make millions.

    Attributes:
        path: the file; not where users look for it before `publish_unmatched`.
        missing: listed but not there.
        unlisted: there but not listed.
        bytes: of the file.
        sha256: of the file.
    """

    path: Path
    missing: Kind
    unlisted: Kind
    bytes: int
    sha256: str

    @property
    def number(self) -> int:
        """How many there are."""
        return self.missing.number + self.unlisted.number

    @property
    def kinds(self) -> list[Kind]:
        """Those kinds of which there are any."""
        return [kind for kind in (self.missing, self.unlisted) if kind.number]

    def describe(self) -> dict[str, object]:
        """What the manifest says of them."""
        file = CommittedFile(UNMATCHED, self.bytes, self.sha256)
        return {
            "missing": self.missing.number,
            "unlisted": self.unlisted.number,
            "first": [name for kind in self.kinds for name in kind.first],
            "file": asdict(file) if self.number else None,
        }


def write_unmatched(workspace: Workspace, entries: Iterable[Unmatched]) -> UnmatchedTable:
    """Write all of them into a private file, one line each; no file if there are none."""
    path = workspace.private / UNMATCHED
    kinds = {"missing": Kind("listed but not there"), "unlisted": Kind("there but not listed")}
    temporary = partial_path(path)
    digest = hashlib.sha256()
    remaining = iter(entries)
    first = next(remaining, None)
    if first is None:
        path.unlink(missing_ok=True)  # of an earlier run
        return UnmatchedTable(path, kinds["missing"], kinds["unlisted"], 0, digest.hexdigest())
    try:
        with temporary.open("xb") as file:
            for line in _lines(chain([first], remaining), kinds):
                digest.update(line)
                file.write(line)
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return UnmatchedTable(path, kinds["missing"], kinds["unlisted"], size, digest.hexdigest())


def _lines(entries: Iterable[Unmatched], kinds: dict[str, Kind]) -> Iterable[bytes]:
    yield _HEADER.encode()
    for entry in entries:
        kind, name = kinds[entry.kind], printable(entry.name)
        kind.number += 1
        if len(kind.first) < _SHOWN:
            kind.first.append(name)
        yield "\t".join((entry.kind, entry.split, name, printable(entry.where) + "\n")).encode()


def report_unmatched(table: UnmatchedTable, report: Callable[[str], None]) -> None:
    """Name the first few on the terminal."""
    for kind in table.kinds:
        more = ", …" if kind.number > len(kind.first) else ""
        report(f"{kind.text}: {', '.join(kind.first)}{more}")


def check_unmatched(table: UnmatchedTable, images: int, max_bad: MaxBad) -> None:
    """Refuse early, before hours of work, what could not be sealed.

    Args:
        table: all of them.
        images: how many images were found that are listed.
        max_bad: how many may be missing.

    Raises:
        RejectedError: there are more than that.
    """
    if max_bad.allows(table.number, images + table.missing.number):
        return
    raise RejectedError(
        f"{' and '.join(kind.text for kind in table.kinds)}, --max_bad allows {max_bad}; no shard "
        f"was written; {table.path} names all of them",
        rejected=table.number,
    )


def publish_unmatched(workspace: Workspace, table: UnmatchedTable) -> None:
    """Put the file where users look for it; only once the directory is this job's."""
    if table.number:
        table.path.replace(workspace.unmatched)
