"""dataprep: raw image archives in; verified, shuffled, sharded record files out.

Every name is imported when it is first used, so that ``import dataprep`` costs nothing.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Final

from dataprep import errors as errors  # dataprep.errors, with no import of its own
from dataprep.version import __version__

if TYPE_CHECKING:
    from dataprep.api.calls import diff, plan, prepare, push, status, verify
    from dataprep.api.contents import Contents as Contents
    from dataprep.api.contents import inspect
    from dataprep.api.functions import (
        chestxray14,
        compact,
        convert,
        folder,
        imagenet,
        select,
        shards,
        stage,
    )
    from dataprep.api.progress import Progress as Progress
    from dataprep.api.review import Linted as Linted
    from dataprep.api.review import browse, card, lint, report, sql
    from dataprep.formats.example import Example
    from dataprep.jobs.preparing.dry_run import Plan as Plan
    from dataprep.jobs.running.status import JobStatus as JobStatus
    from dataprep.sealed.diff import Difference as Difference
    from dataprep.sealed.set import SealedSet
    from dataprep.sealed.verify import Verified as Verified
    from dataprep.staging.push import Pushed as Pushed
    from dataprep.training.mixture import mix
    from dataprep.training.records import Records

# What is promised (docs/stability.md); the classes of results are there besides.
__all__ = [
    "Example",
    "Records",
    "SealedSet",
    "__version__",
    "browse",
    "card",
    "chestxray14",
    "compact",
    "convert",
    "diff",
    "folder",
    "imagenet",
    "inspect",
    "lint",
    "mix",
    "open",
    "plan",
    "prepare",
    "push",
    "report",
    "select",
    "shards",
    "sql",
    "stage",
    "status",
    "verify",
]

_WHERE: Final = {
    **dict.fromkeys(
        ("chestxray14", "compact", "convert", "folder", "imagenet", "select", "shards", "stage"),
        "dataprep.api.functions",
    ),
    **dict.fromkeys(("diff", "plan", "prepare", "push", "status", "verify"), "dataprep.api.calls"),
    **dict.fromkeys(("Contents", "inspect"), "dataprep.api.contents"),
    "Difference": "dataprep.sealed.diff",
    "Example": "dataprep.formats.example",
    "JobStatus": "dataprep.jobs.running.status",
    "Plan": "dataprep.jobs.preparing.dry_run",
    **dict.fromkeys(("Linted", "browse", "card", "lint", "report", "sql"), "dataprep.api.review"),
    "Progress": "dataprep.api.progress",
    "Pushed": "dataprep.staging.push",
    "mix": "dataprep.training.mixture",
    "Records": "dataprep.training.records",
    "SealedSet": "dataprep.sealed.set",
    "Verified": "dataprep.sealed.verify",
}


def open(  # noqa: A001  # dataprep.open
    path: str | os.PathLike[str],
    split: str = "train",
    *,
    where: str | None = None,
    limit: int | None = None,
    sample: float | None = None,
    stratify: bool = False,
    cache: str | os.PathLike[str] | None = None,
    cache_bytes: int | str | None = None,
) -> Records:
    """One split of a finished data set, in whatever format, to be read; or what is chosen of it.

    Args:
        path: the directory that holds ``manifest.json``; or ``s3://BUCKET/PREFIX``, ``gs://…`` or
            ``az://…``: then shards are downloaded as they are read, each whole, and compared with
            the manifest before anybody sees a byte.
        split: its name.
        where: a condition in SQL on the columns of ``records.parquet``: ``"view = 'PA'"``.
        limit: only the first so many.
        sample: only this share of what `where` leaves, ``0.1``: the images with the lowest hashes
            of the set's seed, split and key, so that a smaller share is part of a larger one. Of a
            node's part of a data set, what is there of the share of all.
        stratify: sample each class, or set of labels, alike.
        cache: of a data set in a bucket: the directory in which all processes of this node keep
            what they have downloaded. None: ``$DATAPREP_CACHE``, or ``~/.cache/dataprep``.
        cache_bytes: how much it may have, ``"100G"``; shards that nobody reads go, the oldest
            first. None: as much as the disk has room for.

    Raises:
        dataprep.errors.DatasetError: there is no intact manifest there, or what is chosen from,
            ``records.parquet``, cannot be read.
        dataprep.errors.RemoteError: the bucket does not answer, or refuses.
        dataprep.errors.UsageError: no such split, a format that is not installed, or a condition
            that is none.
    """
    from dataprep.api.places import located
    from dataprep.sealed.set import SealedSet
    from dataprep.training.records import Records

    sealed = SealedSet.read(located(path, cache, cache_bytes))
    return Records(sealed, split, where=where, limit=limit, sample=sample, stratify=stratify)


if not TYPE_CHECKING:  # or a checker would take any name

    def __getattr__(name: str) -> object:
        """``dataprep.prepare`` and the rest of `__all__`, imported when first asked for."""
        if name in _WHERE:
            return getattr(import_module(_WHERE[name]), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """What there is, imported or not."""
    return sorted({*globals(), *__all__, *_WHERE})
