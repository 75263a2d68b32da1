"""The bar that is seen while a data set is verified."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tqdm import tqdm

from dataprep.build.manifest import present, read_manifest


@contextmanager
def verify_bar(out: Path) -> Iterator[Callable[[int], object]]:
    """A bar on a terminal, nothing elsewhere; gone when it is full.

    Raises:
        DatasetError: there is no intact manifest.
    """
    manifest = present(out, read_manifest(out))
    total = sum(split["bytes"] for split in manifest["splits"].values())
    with tqdm(
        desc="verify",
        total=total,
        unit="B",
        unit_scale=True,
        leave=False,
        disable=not sys.stderr.isatty(),
    ) as bar:

        def advance(count: int) -> None:
            bar.update(count)
            if bar.n >= total:
                bar.close()

        yield advance
