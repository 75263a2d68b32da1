"""Making an output directory a job's own, or finding that it is another's.

What makes it the same job is its identity, everything that shapes the bytes, kept in the directory.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final

from msgspec import to_builtins
from msgspec.json import encode
from msgspec.structs import replace

from dataprep.errors import DatasetError
from dataprep.jobs.output.commit import read_records
from dataprep.jobs.output.lock import check_held
from dataprep.jobs.output.workspace import Workspace, read_job
from dataprep.jobs.running.clearing import check_foreign_files, remove_data_set, remove_planned
from dataprep.system.durable_files import sync_directory
from dataprep.system.messages import printable
from dataprep.system.state_files import differing, read_state, write_state
from dataprep_schemas.manifest import Identity, Manifest
from dataprep_schemas.state import StoredJob

if TYPE_CHECKING:  # `dataprep status` reads jobs, and needs nothing of these
    from dataprep.jobs.running.job import Job
    from dataprep.sealed.set import SealedSet

_SHOWN: Final = 4  # differences spelled out in an error; the rest are counted

CONVERTED: Final = "the data set to convert"
"""What a conversion calls its only unit; no path, which may be written in many ways."""

COMPACTED: Final = "the data set to compact"
"""The same of a compaction."""


def claim(job: Job, identity: Identity, units: Mapping[str, str], *, overwrite: bool) -> Identity:
    """Accept a directory that is new or this job's, and write down whose it is.

    To be called when nothing that was asked for can be refused any more; hold the lock.

    Args:
        identity: everything that shapes the bytes of the output.
        units: a digest of every piece of the input, to name those that changed.

    Returns:
        The identity: of what is sealed its own, where other extras are installed now.

    Raises:
        DatasetError: the directory is being made in another way, or holds foreign shards.
        LockedError: another run has taken it over.
    """
    workspace = job.workspace
    check_held(job.lease)
    if overwrite:
        remove_data_set(job)
    fresh = check_identity(workspace, identity, units)
    if fresh:
        remove_planned(workspace, job.lease)
    check_foreign_files(job, fresh=fresh)
    known = None if fresh else read_job(workspace).identity
    if known is not None and workspace.manifest.exists():
        return known
    if known != identity:
        # Before any file of it is there, even after a power cut.
        stored = StoredJob(identity, dict(units))
        write_state(workspace.job, stored, flush=True, check=partial(check_held, job.lease))
        sync_directory(workspace.private)
    return identity


def claim_generation(
    job: Job,
    identity: Identity,
    units: Mapping[str, str],
    grown: SealedSet,
    report: Callable[[str], None],
) -> Identity:
    """`claim` the directory inside OUT; what was begun there otherwise is deleted.

    Args:
        grown: the data set in OUT; if other versions than now made it, that is told.
    """
    generations = grown.manifest.generations or (grown.manifest,)
    found = (differing(each.versions, identity.versions, ", now") for each in generations)
    if names := sorted({*chain.from_iterable(found)}):
        report(
            f"{grown.out} was made with {'; '.join(names)}: other versions may write other bytes "
            "than one run does; manifest.json names each, and preparing it with --overwrite makes "
            "all anew"
        )
    return claim(job, identity, units, overwrite=is_other_job(job.workspace, identity, units))


def identity_of(manifest: Manifest) -> Identity:
    """The identity of the job that made a data set."""
    return Identity(**{name: getattr(manifest, name) for name in Identity.__struct_fields__})


def is_other_job(workspace: Workspace, identity: Identity, units: Mapping[str, str]) -> bool:
    """Whether a directory is being made from other input, or in another way."""
    theirs = read_state(workspace.job, StoredJob)
    same = theirs is not None and _is_same(workspace, theirs, identity, units)
    return workspace.job.exists() and not same


def _is_same(
    workspace: Workspace, theirs: StoredJob, identity: Identity, units: Mapping[str, str]
) -> bool:
    """Whether it is the same job, but for versions of extras that no finished shard needed."""
    if theirs.identity == identity or theirs.units != units:
        return theirs.units == units
    from dataprep.images.prepare import EXTRAS  # it loads Pillow

    known = {*chain(*EXTRAS.values())}
    used = [it.extras for it in read_records(workspace)]
    differ = {name for name, _ in theirs.identity.versions.items() ^ identity.versions.items()}
    same = replace(theirs.identity, versions=identity.versions) == identity
    return same and differ <= known.difference(*used)


def check_identity(workspace: Workspace, identity: Identity, units: Mapping[str, str]) -> bool:
    """Accept a new directory, or one that is being made from the same input in the same way.

    Args:
        identity: everything that shapes the bytes of the output.
        units: a digest of every piece of the input, to name those that changed.

    Returns:
        Whether the directory is new, or as good as new.

    Raises:
        DatasetError: the directory was made, or is being made, in another way; names what differs.
    """
    if not workspace.job.exists():
        return True
    theirs = read_job(workspace)
    if theirs.generations:
        raise DatasetError(
            f"{shlex.quote(str(workspace.out))} grew by --append; use that again to add what is "
            "new, another output directory, or --overwrite to start it anew"
        )
    if _is_same(workspace, theirs, identity, units):
        return False
    if not any(workspace.commits.glob("[!.]*.json")):
        return True  # nothing was finished in the other way, so nothing can be mixed
    shown = what_differs(theirs.identity, identity, (theirs.units, units))
    sealed = workspace.manifest.exists()
    grows = sealed and theirs.units != units and CONVERTED not in units
    way_out = f"use the same input and options, {'--append if images are only new, ' * grows}"
    if (replace(theirs.identity, versions=identity.versions), theirs.units) == (identity, units):
        way_out = "other versions may write other bytes: "
        way_out += "use it as it is, " if sealed else "install those again to finish it, use "
    raise DatasetError(
        f"{shlex.quote(str(workspace.out))} {'was' if sealed else 'is being'} made with {shown}; "
        f"{way_out}another output directory, or --overwrite to start it anew"
    )


def store_grown(workspace: Workspace, manifest: Manifest) -> None:
    """Make the directory that of a data set that grew, which no job makes again."""
    generations = len(manifest.generations) or 1
    stored = StoredJob(identity_of(manifest), {}, generations=generations)
    write_state(workspace.job, stored, flush=True)
    sync_directory(workspace.private)


def what_differs(
    theirs: Identity, ours: Identity, units: tuple[Mapping[str, str], Mapping[str, str]] = ({}, {})
) -> str:
    """In the words of the command line: ``--quality 95, now 80``.

    Args:
        units: the pieces of the input, theirs and ours.
    """
    found = []
    for name, old, new in _leaves_that_differ(to_builtins(theirs), to_builtins(ours)):
        if name in ("excluded", "excluded.digest"):
            old, new = old and "a list", new and "another list"
        if option := _option(name):
            found.append(f"{option}{_show(old)}, now {_show(new)}")
    found.sort(key=lambda said: not said.startswith("--sink "))  # it explains the most
    before, now = units
    names = [name for name, *_ in _leaves_that_differ(dict(before), dict(now))]
    if names:
        # Where folders came or went, units of the same name are of other ones.
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        what = "the raw data" + (f" of {names[0]}{more}" if before.keys() == now.keys() else "")
        what = CONVERTED if names == [CONVERTED] else what
        found.append(f"other input: {what} changed")
    more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return "; ".join(found[:_SHOWN] or ["another list of classes"]) + more


def recipe_of(made: Identity) -> str:
    """What a data set is made with, in the words of the command line: ``imagenet --sink lmdb …``.

    For people to read: it has neither places nor quotes.
    """
    from dataprep.images import Recipe  # it loads Pillow

    usual = {
        "dataset": made.dataset,
        "dataset_config": {},
        "image": to_builtins(Recipe(passes=made.image.passes).config()),
        "num_shards": {},
        "shuffle": {},
        "sink": {"config": {}},
    }
    asked = to_builtins(made) | {"excluded": None, "versions": None}
    options = (
        (_option(name) + _show(value)).removesuffix(" yes")  # flags have no value
        for name, _, value in _leaves_that_differ(usual, asked)
        if value is not None and _option(name)
    )
    return printable(" ".join([made.dataset, *options]))


def _option(name: str) -> str:
    """What a leaf of an identity is on the command line; empty of what follows from others."""
    first, _, rest = name.partition(".")
    if name == "dataset":
        return "data set "
    if name == "sink.name":
        return "--sink "
    if first == "sink":
        return f"--sink_option {rest.removeprefix('config.')}="
    if first in ("image", "dataset_config"):
        return f"--{rest.removeprefix('options.')} "
    if first in ("seed", "limit", "folds", "layout", "shuffle", "num_shards"):
        return f"--{first} {rest}=" if rest else f"--{first} "
    if name in ("excluded", "excluded.digest"):
        return "--exclude "
    return f"{rest} " if first == "versions" else ""


def _leaves_that_differ(
    before: object, now: object, name: str = ""
) -> Iterator[tuple[str, object, object]]:
    if isinstance(before, dict) and isinstance(now, dict):
        for key in sorted(before.keys() | now.keys()):
            inner = f"{name}.{key}" if name else key
            yield from _leaves_that_differ(before.get(key), now.get(key), inner)
    elif before != now:
        yield name, before, now


def _show(value: object) -> str:
    if value is None:
        return "none"
    return value if isinstance(value, str) else encode(value).decode()
