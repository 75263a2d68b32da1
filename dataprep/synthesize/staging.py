"""Files get their names when all of them are complete, and never replace foreign ones."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from dataprep.errors import DatasetError
from dataprep.system.messages import printable, some_of

STAGING = ".synthesize.partial"
# Without it --overwrite on the wrong directory would delete somebody's real data, which
# have the same names. It lists what may be replaced, a name a line.
MARKER = ".dataprep_synthesize"
_MARKER_TEXT = (
    "# These files and folders next to this one were made up by `dataprep synthesize`.\n"
    "# While this file exists, --overwrite may replace them.\n"
)


@contextmanager
def staged(
    directory: Path, names: Sequence[str], belongs: Callable[[str], bool], *, overwrite: bool
) -> Iterator[Path]:
    """Give out a hidden directory to write to; move its contents up when all went well.

    Args:
        directory: where the results belong; made if missing.
        names: what will have been written, in the order of its appearance there.
        belongs: whether the data set has such a name in any of its layouts. A foreign file
            of that name would be taken for a part of it.
        overwrite: replace what an earlier run left there.

    Yields:
        The hidden directory, on the same file system. It is gone afterwards, and after
        an error nothing else has changed.

    Raises:
        DatasetError: the directory holds something else, or cannot be written.
    """
    existed = directory.exists()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        ours = _replaceable(directory, belongs, overwrite=overwrite)
        staging = directory / STAGING
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir()
        try:
            yield staging
            _publish(directory, staging, names, ours)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    except OSError as error:
        raise DatasetError(
            f"cannot write to {directory}: {error}; "
            "choose a directory that is writable and has room enough"
        ) from error
    finally:
        if not existed:
            with suppress(OSError):  # not empty, so it is wanted
                directory.rmdir()


def _replaceable(
    directory: Path, belongs: Callable[[str], bool], *, overwrite: bool
) -> frozenset[str]:
    """The names that an earlier run wrote; refuse everybody else's."""
    found = {path.name for path in directory.iterdir()}
    if found and not overwrite:
        raise DatasetError(
            f"{directory} is not empty: it holds {some_of(found)}; choose another directory, "
            "or add --overwrite to replace what synthesize wrote there earlier"
        )
    ours = found & _listed(directory / MARKER) if MARKER in found else frozenset[str]()
    foreign = sorted(name for name in found - ours if belongs(name))
    if foreign:
        raise DatasetError(
            f"{directory}/{printable(foreign[0])} was not written by synthesize (no {MARKER} next "
            "to it names it) and is not replaced; choose another directory"
        )
    return frozenset(ours)


def _listed(marker: Path) -> frozenset[str]:
    lines = marker.read_text(encoding="utf-8", errors="replace").splitlines()
    return frozenset(line for line in lines if line and not line.startswith("#"))


def _mark(directory: Path, names: Collection[str]) -> None:
    lines = "".join(f"{name}\n" for name in sorted(names))
    (directory / MARKER).write_text(_MARKER_TEXT + lines, encoding="utf-8")


def _publish(directory: Path, staging: Path, names: Sequence[str], ours: Collection[str]) -> None:
    """Put the new files in the place of the old ones, of whichever data set those are."""
    # Killed at any point below, all that is there is still named.
    _mark(directory, {*names, *ours})
    replaced = staging / "replaced"
    replaced.mkdir()
    for name in ours:
        (directory / name).rename(replaced / name)
    for name in names:
        (staging / name).rename(directory / name)
    _mark(directory, names)
