"""Making an output directory a job's own, or finding that it is another's; deleting there.

What makes it the same job is its identity, everything that shapes the bytes, kept in the directory.
Only what dataprep made is ever deleted or written over: the directory may hold other people's
files, even the raw data.
"""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from msgspec import to_builtins
from msgspec.json import encode

from dataprep.errors import DataprepError, DatasetError, SinkError, UsageError
from dataprep.jobs.commit import read_records
from dataprep.jobs.lock import Lease, check_held
from dataprep.jobs.workspace import Workspace
from dataprep.plugins import load_sink
from dataprep.sealed.foreign import foreign_files
from dataprep.sealed.part import NAME as PART
from dataprep.sealed.part import has_part
from dataprep.sealed.set import SealedSet
from dataprep.sinks import ShardName
from dataprep.system.durable_files import PARTIAL, is_partial, sync_directory
from dataprep.system.messages import printable
from dataprep.system.regular_files import read_regular
from dataprep.system.state_files import read_document, read_state, write_state
from dataprep.tables.records import NAME as RECORDS
from dataprep_schemas.manifest import Identity, Manifest
from dataprep_schemas.state import StoredJob

if TYPE_CHECKING:  # `dataprep status` reads jobs, and needs nothing of these
    from dataprep.datasets import Found
    from dataprep.jobs.job import Job
    from dataprep.jobs.request import Request
    from dataprep.sinks import Layout, Sink

_SHOWN = 4  # differences spelled out in an error; the rest are counted

CONVERTED = "the data set to convert"
"""What a conversion calls its only unit; no path, which may be written in many ways."""

COMPACTED = "the data set to compact"
"""The same of a compaction."""


def check_places(request: Request, found: Found) -> None:
    """Refuse, before anything is scanned, what can only go wrong.

    Raises:
        UsageError: a directory is in the raw data or among the shards, where its files would be
            taken for images or shards.
    """
    raw, out, index = request.raw.resolve(), request.out.resolve(), request.index_dir
    containers = [Path(unit.container) for unit in found.units]
    scanned = {raw.joinpath(*path.parts[:1]) for path in containers if not path.is_absolute()}
    if found.whole:
        scanned.add(raw)
    chosen = {"--out": out} | ({"--index_dir": index.resolve()} if index else {})
    for option, place in chosen.items():
        if place == raw or any(each == place or each in place.parents for each in scanned):
            raise UsageError(
                f"{option} {place} is in the raw data, where a later run would take its files "
                "for images; choose a directory of its own"
            )
        if option == "--index_dir" and place in (out, *(out / name for name in found.splits or ())):
            raise UsageError(
                f"{option} {place} is where shards go, and readers would take its files for "
                "shards; choose a directory of its own"
            )


def claim(
    job: Job, identity: Identity, units: Mapping[str, str], *, overwrite: bool, changes: str = ""
) -> None:
    """Accept a directory that is new or this job's, and write down whose it is.

    To be called when nothing that was asked for can be refused any more; hold the lock.

    Args:
        identity: everything that shapes the bytes of the output.

    Raises:
        DatasetError: the directory is being made in another way, or holds foreign shards.
        LockedError: another run has taken it over.
    """
    workspace = job.workspace
    check_held(job.lease)
    if overwrite:
        remove_built_files(job)
    else:
        check_not_grown(workspace)
    fresh = check_identity(workspace, identity, units, changes)
    if fresh:
        # A kill between a rename and the record of it leaves a file under its final name.
        _remove(map(workspace.path_of, planned_paths(workspace)), job.lease)
    check_foreign_files(job, fresh=fresh)
    if fresh:
        check = partial(check_held, job.lease)
        store_identity(workspace, identity, units, check=check)


def claim_generation(job: Job, identity: Identity, units: Mapping[str, str]) -> None:
    """`claim` the directory inside OUT; what was begun there otherwise is deleted."""
    claim(job, identity, units, overwrite=is_other_job(job.workspace, identity, units))


def store_grown(workspace: Workspace, manifest: Manifest) -> None:
    """Make the directory that of a data set that grew, which no job makes again."""
    generations = len(manifest.generations) or 1
    stored = StoredJob(identity_of(manifest), {}, generations=generations)
    write_state(workspace.job, stored, flush=True)
    sync_directory(workspace.private)


def identity_of(manifest: Manifest) -> Identity:
    """The identity of the job that made a data set."""
    return Identity(**{name: getattr(manifest, name) for name in Identity.__struct_fields__})


def check_not_grown(workspace: Workspace) -> None:
    """Refuse a data set that --append added to, as nothing but that can go on with it.

    Raises:
        DatasetError: it is one.
    """
    stored = read_state(workspace.job, StoredJob)
    if stored is not None and stored.generations:
        raise DatasetError(
            f"{shlex.quote(str(workspace.out))} grew by --append; use that again to add what is "
            "new, another output directory, or --overwrite to start it anew"
        )


def is_other_job(workspace: Workspace, identity: Identity, units: Mapping[str, str]) -> bool:
    """Whether a directory is being made from other input, or in another way."""
    theirs = read_state(workspace.job, StoredJob)
    same = theirs is not None and (theirs.identity, theirs.units) == (identity, units)
    return workspace.job.exists() and not same


def check_foreign_files(job: Job, *, fresh: bool, going: Collection[Path] = ()) -> None:
    """Refuse a directory that holds shards of something else, which readers would take in.

    Args:
        fresh: nothing of this job has been written yet, so even its own names are foreign.

    Raises:
        DatasetError: names the first such file.
    """
    counts = {split.name: split.shards for split in job.splits}
    made = _made(job)
    if len(set(made)) < len(made) or any(path.is_absolute() or ".." in path.parts for path in made):
        raise SinkError(
            f"sink {job.sink.name} gives files one place, or places outside of the output "
            "directory; that is a defect of the sink"
        )
    out = job.workspace.out
    for directory in {path.parent / "file" for path in made}:
        job.workspace.path_of(directory)
    whole = (*sorted(made), PurePosixPath(job.workspace.manifest.name))
    present = [str(path) for path in whole if fresh and (out / path).exists()]
    shards = [str(path) for path in made if str(path) != RECORDS]
    for path in (*present, *foreign_files(out, counts, shards)):
        if out / path in going:
            continue
        raise DatasetError(
            f"{out / path} is in the way: it was not written by this job, and readers would "
            "take it in; move it away, or choose another output directory"
            + ("" if job.request.overwrite else "; if an earlier job made it, use --overwrite")
        )


def check_identity(
    workspace: Workspace, identity: Identity, units: Mapping[str, str], changes: str = ""
) -> bool:
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
    if (theirs.identity, theirs.units) == (identity, units):
        return False
    if not any(workspace.commits.glob("[!.]*.json")):
        return True  # nothing was finished in the other way, so nothing can be mixed
    shown = what_differs(theirs.identity, identity, (theirs.units, units), changes)
    made = "was made" if workspace.manifest.exists() else "is being made"
    raise DatasetError(
        f"{shlex.quote(str(workspace.out))} {made} with {shown}; use the same input and options, "
        "another output directory, or --overwrite to start it anew"
    )


def store_identity(
    workspace: Workspace,
    identity: Identity,
    units: Mapping[str, str],
    *,
    check: Callable[[], object] = lambda: None,
) -> None:
    """Make the directory this job's, before any file of it is there, even after a power cut.

    Args:
        check: as for `dataprep.system.durable_files.rename`.
    """
    stored = StoredJob(identity, dict(units), command=_command())
    write_state(workspace.job, stored, flush=True, check=check)
    sync_directory(workspace.private)


def _command() -> str:
    """What was typed, for `dataprep status`; empty where another program calls the library."""
    program, *words = sys.argv
    if Path(program).name != "dataprep" and Path(program).parts[-2:] != ("dataprep", "__main__.py"):
        return ""
    try:
        return printable(f"cd {shlex.quote(str(Path.cwd()))} && {shlex.join(['dataprep', *words])}")
    except FileNotFoundError:  # the working directory was deleted
        return ""


def read_job(workspace: Workspace) -> StoredJob:
    """The stored job.

    Raises:
        DatasetError: it is damaged.
    """
    return read_document(workspace.job, StoredJob, "run the same command with --overwrite")


def planned_paths(workspace: Workspace) -> list[PurePosixPath]:
    """Every file that the stored job makes, relative to the output directory, made or not.

    Empty if there is no job, if it is torn, or if its format is not installed any more.
    """
    stored = read_state(workspace.job, StoredJob)
    if stored is None:
        return []
    made = stored.identity
    try:
        sink = load_sink(made.sink.name, made.sink.config)
        return [*_paths(sink, made.num_shards, made.layout), PurePosixPath(RECORDS)]
    except DataprepError:
        return []


def _merged_paths(workspace: Workspace) -> Iterator[PurePosixPath]:
    """The files of shards that a merge, which nothing else tells of any more, may have renamed."""
    inner = Workspace(workspace.generation)
    before, new = read_state(workspace.job, StoredJob), read_state(inner.job, StoredJob)
    if before is None or new is None or (before.identity.sink != new.identity.sink):
        return
    made, added = before.identity, new.identity.num_shards
    sink = load_sink(made.sink.name, made.sink.config)
    both = {name: count + added.get(name, 0) for name, count in made.num_shards.items()}
    for counts in (added, both):
        yield from _paths(sink, counts, made.layout)


def _made(job: Job) -> list[PurePosixPath]:
    """Every file that a job is going to make."""
    counts = {split.name: split.shards for split in job.splits}
    return [*_paths(job.sink, counts, job.request.layout), PurePosixPath(RECORDS)]


def _paths(sink: Sink, shards: Mapping[str, int], layout: Layout) -> Iterator[PurePosixPath]:
    """The files of every split, given the numbers of their shards."""
    for split, count in shards.items():
        for number in range(count):
            yield from sink.paths(ShardName(split, number, count), layout)
        yield from sink.split_paths(split, count, layout)


def what_differs(
    theirs: Identity,
    ours: Identity,
    units: tuple[Mapping[str, str], Mapping[str, str]] = ({}, {}),
    changes: str = "",
) -> str:
    """In the words of the command line: ``--quality 95, now 80``.

    Args:
        units: the pieces of the input, theirs and ours.
        changes: what is another in them, if that is known.
    """
    found = []
    for name, old, new in _leaves_that_differ(to_builtins(theirs), to_builtins(ours)):
        first, _, rest = name.partition(".")
        if first in ("image", "dataset_config"):
            option = f"--{rest} "
        elif first == "sink":
            option = "--sink_option " + rest.replace("config.", "") + "="
        elif name == "dataset":
            option = "data set "
        elif first in ("seed", "limit", "layout", "shuffle", "num_shards"):
            option = f"--{first} {rest}=" if rest else f"--{first} "
        elif name in ("excluded", "excluded.digest"):
            option, old, new = "--exclude ", old and "a list", new and "another list"
        elif first == "versions":
            option = f"{rest} "
        else:
            continue  # counts and hashes, of which an option or the input is the cause
        said = f"{option}{_show(old)}, now {_show(new)}"
        found.append(said.replace("--sink_option name=", "--sink "))
    found.sort(key=lambda said: not said.startswith("--sink "))  # it explains the most
    before, now = units
    names = [name for name, *_ in _leaves_that_differ(dict(before), dict(now))]
    if names:
        # Where folders came or went, units of the same name are of other ones.
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        what = "the raw data" + (f" of {names[0]}{more}" if before.keys() == now.keys() else "")
        what = CONVERTED if names == [CONVERTED] else what
        found.append(f"other input: {what} changed" + (f": {changes}" if changes else ""))
    more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return "; ".join(found[:_SHOWN] or ["another list of classes"]) + more


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


def remove_built_files(job: Job) -> None:
    """Delete the data set, whole or unfinished, and nobody else's files.

    Ours is what a readable record, the manifest or the plan names; and, where dataprep has left
    its marks, what this job is going to make.

    Raises:
        DatasetError: something that is not ours is in the way; nothing was deleted.
        LockedError: another run has taken the directory over meanwhile.
    """
    workspace, lease = job.workspace, job.lease
    records = read_records(workspace)
    names: list[str | PurePosixPath] = [file.path for record in records for file in record.files]
    # A kill between a rename and the record of it leaves files that only a plan knows.
    names += [*planned_paths(workspace), *_merged_paths(workspace), *_sealed(workspace)]
    manifests = []
    if workspace.job.exists() or records or _is_ours(workspace.manifest):
        manifests = [workspace.manifest]
        made, layout = _made(job), job.request.layout
        if not names:  # nor how many shards there were
            splits = {split.name for split in job.splits}
            beside = foreign_files(workspace.out, splits, [str(path) for path in made[:-1]])
            names += [name for name in beside if is_shard(name, job.sink, splits, layout)]
        names += made
        counts = {record.shard.split: record.shard.count for record in records}
        names += _paths(job.sink, counts, layout)  # of a plan that is damaged
    built = {*map(workspace.path_of, names)}
    workspace.remove_empty([*built, *manifests])
    check_foreign_files(job, fresh=True, going={*built, *manifests})
    # First, so that nobody takes the rest for whole; unless nothing else knows what is to go.
    if planned_paths(workspace):
        _remove(manifests, lease)
    _remove(built, lease)
    # Last: a kill until here leaves what is needed to try again.
    _remove(manifests, lease)
    workspace.job.unlink(missing_ok=True)
    for private in (workspace.commits, workspace.order):
        shutil.rmtree(private)
        private.mkdir()
    shutil.rmtree(workspace.generation, ignore_errors=True)
    directories = {parent for path in built for parent in path.parents}
    for directory in sorted(directories, reverse=True):  # the deepest first
        inside = workspace.out in directory.parents and not directory.is_symlink()
        if inside and directory.is_dir() and not any(directory.iterdir()):
            directory.rmdir()


def is_shard(name: str, sink: Sink, splits: Collection[str], layout: Layout) -> bool:
    """Whether it is a file of a shard of any number of shards: ``train-00003-of-00007``."""
    found = re.search(r"(?:^|/)([^/]+)-([0-9]{5,7})-of-([0-9]{5,7})", name)
    if found is not None:
        shards = [ShardName(found[1], int(found[2]), int(found[3]))]
    else:
        shards = [ShardName(split, 0, 1) for split in splits]
    return any(
        shard.split in splits and name in map(str, sink.paths(shard, layout)) for shard in shards
    )


def _is_ours(manifest: Path) -> bool:
    """Whether a manifest, damaged or not, is dataprep's: many programs have files so called."""
    try:
        return b'"dataprep-manifest-' in read_regular(manifest)
    except OSError:
        return False


def _remove(paths: Iterable[Path], lease: Lease) -> None:
    """Delete files; no power cut brings one back, which may look like what is made in its place."""
    paths = [path for path in paths if path.exists() or path.is_symlink()]
    for path in paths:
        check_held(lease, now=False)
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink(missing_ok=True)
    for directory in {path.parent for path in paths}:
        sync_directory(directory)


def _sealed(workspace: Workspace) -> Iterator[str]:
    """What the manifest names, in case somebody deleted the private directory; a part's note."""
    if has_part(workspace.out):
        yield PART
    try:
        sealed = SealedSet.read(workspace.out)
    except DatasetError:
        return
    yield RECORDS
    yield from (file.path for file in sealed.manifest.files())


def remove_partial_files(workspace: Workspace, splits: Sequence[str]) -> None:
    """Delete what killed runs left behind; call only while holding the lock.

    Looks only where a run writes, and only for names that it gives: the output directory may hold
    other people's files, even the raw data.

    Args:
        splits: those that this run makes, as far as they are known.
    """
    directories = {workspace.out, *workspace.private_directories()}
    of_splits = (PurePosixPath(split, "file") for split in splits)
    directories |= {
        workspace.path_of(path).parent for path in (*of_splits, *planned_paths(workspace))
    }
    for path in (path for directory in directories for path in directory.glob(f".*{PARTIAL}")):
        if not is_partial(path):
            continue
        if path.is_dir() and not path.is_symlink():  # some library insisted on a directory
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
