"""Files get their names when all of them are complete, and never replace foreign ones."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from dataprep.errors import DatasetError
from dataprep.synthesize.layouts import FINAL_NAMES

STAGING = ".synthesize.partial"
# Without it --overwrite on the wrong directory would delete somebody's real ImageNet,
# which has the same names.
MARKER = ".dataprep_synthesize"
_MARKER_TEXT = (
    "The data next to this file was made up by `dataprep synthesize`.\n"
    "While this file exists, --overwrite may replace it.\n"
)
_OUR_NAMES = tuple(name for names in FINAL_NAMES.values() for name in names)


@contextmanager
def staged(directory: Path, names: Sequence[str], *, overwrite: bool) -> Iterator[Path]:
    """Give out a hidden directory to write to; move its contents up when all went well.

    Args:
        directory: where the results belong; made if missing.
        names: what will have been written, in the order of its appearance there.
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
        _refuse_foreign(directory, overwrite=overwrite)
        staging = directory / STAGING
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir()
        try:
            yield staging
            _publish(directory, staging, names)
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


def _refuse_foreign(directory: Path, *, overwrite: bool) -> None:
    found = {path.name for path in directory.iterdir()}
    if found and not overwrite:
        shown = ", ".join(sorted(found)[:3]) + (", ..." if len(found) > 3 else "")
        raise DatasetError(
            f"{directory} is not empty: it holds {shown}; choose another directory, "
            "or add --overwrite to replace what synthesize wrote there earlier"
        )
    foreign = sorted(found.intersection(_OUR_NAMES))
    if foreign and MARKER not in found:
        raise DatasetError(
            f"{directory / foreign[0]} was not written by synthesize (there is no {MARKER} "
            "next to it) and is not replaced; choose another directory"
        )


def _publish(directory: Path, staging: Path, names: Sequence[str]) -> None:
    """Put the new files in the place of the old ones, of whichever layout those are."""
    (directory / MARKER).write_text(_MARKER_TEXT, encoding="ascii")
    replaced = staging / "replaced"
    replaced.mkdir()
    for name in _OUR_NAMES:
        if (directory / name).exists():
            (directory / name).rename(replaced / name)
    for name in names:
        (staging / name).rename(directory / name)
