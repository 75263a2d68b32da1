"""Images that are listed but not there, or there but not listed: counted, named, and judged."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

from dataprep.assembly.commit import CommittedFile
from dataprep.assembly.seal import MaxBad
from dataprep.assembly.workspace import UNMATCHED, Workspace, write_durably
from dataprep.errors import RejectedError
from dataprep.index import Unmatched
from dataprep.wording import counted, printable

_SHOWN = 5  # of each kind, on the terminal and in the manifest; all of them are in the file


def describe_unmatched(entries: Sequence[Unmatched]) -> dict[str, object]:
    """What the manifest says of them: how many, the first few, and the file with all."""
    table = _table(entries)
    file = CommittedFile(UNMATCHED, len(table), hashlib.sha256(table).hexdigest())
    return {
        "missing": _count(entries, "missing"),
        "unlisted": _count(entries, "unlisted"),
        "first": [entry.name for kind in _KINDS for entry in _first(entries, kind)],
        "file": asdict(file) if entries else None,
    }


def report_unmatched(entries: Sequence[Unmatched], report: Callable[[str], None]) -> None:
    """Name the first few on the terminal."""
    for kind, what in _KINDS.items():
        number = _count(entries, kind)
        if number:
            names = ", ".join(printable(entry.name) for entry in _first(entries, kind))
            more = ", …" if number > _SHOWN else ""
            report(f"{counted(number, 'image')} {what}: {names}{more}")


def keep_unmatched(workspace: Workspace, entries: Sequence[Unmatched]) -> None:
    """Name all of them in ``OUT/unmatched.tsv``; only once the directory is this job's."""
    if entries:
        write_durably(workspace.unmatched, _table(entries))
    else:
        workspace.unmatched.unlink(missing_ok=True)


def check_unmatched(
    workspace: Workspace, entries: Sequence[Unmatched], images: int, max_bad: MaxBad
) -> None:
    """Refuse early, before hours of work, what could not be sealed.

    Args:
        workspace: where a file that names all of them is written.
        entries: all of them.
        images: how many images were found that are listed.
        max_bad: how many may be missing.

    Raises:
        RejectedError: there are more than that.
    """
    if max_bad.allows(len(entries), images + _count(entries, "missing")):
        return
    # What is there may be the file of a sealed data set, which stays as it is.
    claimed = workspace.job.exists()
    place = workspace.private / UNMATCHED if claimed else workspace.unmatched
    write_durably(place, _table(entries))
    found = [
        f"{counted(_count(entries, kind), 'image')} {what}"
        for kind, what in _KINDS.items()
        if _count(entries, kind)
    ]
    raise RejectedError(
        f"{' and '.join(found)}, --max_bad allows {max_bad}; no shard was written; "
        f"{place} names all of them",
        rejected=len(entries),
    )


_KINDS: Mapping[str, str] = {
    "missing": "listed but not there",
    "unlisted": "there but not listed",
}


def _count(entries: Sequence[Unmatched], kind: str) -> int:
    return sum(entry.kind == kind for entry in entries)


def _first(entries: Sequence[Unmatched], kind: str) -> list[Unmatched]:
    return [entry for entry in entries if entry.kind == kind][:_SHOWN]


def _table(entries: Sequence[Unmatched]) -> bytes:
    lines = ["kind\tsplit\tname\twhere"]
    lines += [
        "\t".join((entry.kind, entry.split, printable(entry.name), printable(entry.where)))
        for entry in entries
    ]
    return ("\n".join(lines) + "\n").encode()
