"""Links in raw data that lead out of it.

People link to what lies elsewhere, so they are followed, and told of. In what somebody else has
made, one may lead to a private file of whoever prepares it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dataprep.datasets import Found
from dataprep.datasets.raw_directory import leads_out
from dataprep.errors import SourceError
from dataprep.system.messages import printable, some_of

if TYPE_CHECKING:  # it loads DuckDB, which finding the raw data does not need
    from dataprep.tables.images import Images

_LOOKED_AT: Final = 4096  # entries of a directory

_CONTAINERS: Final = "select distinct container from parts where size is not null"


def describe_links(raw: Path) -> str:
    """Which entries of the top two levels lead out of the raw directory; empty if none does."""
    folders = ["", *(entry.name for entry in _entries(raw) if entry.is_dir())]
    paths = [
        os.path.join(folder, entry.name)  # noqa: PTH118 - of a name
        for folder in folders
        for entry in _entries(raw / folder)
        if entry.is_symlink()
    ]
    if not (found := [path for path in paths if leads_out(raw, path)]):
        return ""
    return (
        f"links that lead out of {printable(str(raw))} are followed: {some_of(found)}; "
        "--links inside stops there"
    )


def _entries(directory: Path) -> Iterator[os.DirEntry[str]]:
    with suppress(OSError), os.scandir(directory) as entries:
        yield from islice(entries, _LOOKED_AT)


def refuse_links(raw: Path, found: Found, images: Images) -> None:
    """Refuse raw data of which something is reached by a link that leads out.

    Raises:
        SourceError: names what is, and where it leads.
    """
    top = os.path.realpath(raw)
    folders: dict[str, str] = {}
    for path in _read(found, images):
        folder, _, name = path.rpartition("/")
        if folder not in folders:
            folders[folder] = os.path.realpath(f"{top}/{folder}")
        there = os.path.join(folders[folder], name)  # noqa: PTH118 - of very many
        there = os.path.realpath(there) if os.path.islink(there) else there  # noqa: PTH114
        if not f"{there}/".startswith(f"{top.rstrip('/')}/"):
            raise SourceError(
                f"{printable(path)} leads out of {printable(top)} by a link, to "
                f"{printable(there)}; remove it, or give --links follow"
            )


def _read(found: Found, images: Images) -> Iterable[str]:
    """What is read, relative to the raw directory."""
    yield from (unit.container for unit in found.units)
    yield from (container for (container,) in images.rows(_CONTAINERS))
