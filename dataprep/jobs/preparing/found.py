"""Raw data that was found, for a job that holds OUT; and the index of it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dataprep.archives.containers import stat_fingerprint
from dataprep.datasets import Dataset, Found, close_archives
from dataprep.datasets.raw_directory import leads_out
from dataprep.errors import SinkError, SourceError, UsageError
from dataprep.jobs.output.commit import finished_shard
from dataprep.jobs.output.index_parts import (
    IndexParts,
    Scan,
    forget_part,
    has_part,
    shared_index_directory,
)
from dataprep.jobs.output.workspace import Workspace
from dataprep.jobs.preparing.raw_images import RawImages
from dataprep.jobs.request import Request, settle
from dataprep.jobs.running.engine import Engine, Reporter, Workers, working
from dataprep.jobs.running.job import Job
from dataprep.plugins import load_dataset
from dataprep.remote.raw import laid_out
from dataprep.remote.store import address_of
from dataprep.sealed.set import SealedSet
from dataprep.system.durable_files import whole
from dataprep.system.messages import counted, printable, refusal, sized, some_of
from dataprep.system.state_files import file_sha256
from dataprep.tables.cut import StratifiedCut
from dataprep.tables.records import NAME, check_sealed

if TYPE_CHECKING:  # it loads DuckDB, which finding the raw data does not need
    from dataprep.tables.images import Images

_LOOKED_AT: Final = 4096  # entries of a directory

_CONTAINERS: Final = "select distinct container from parts where size is not null"


@dataclass(frozen=True, slots=True)
class RawData:
    """Raw data that was found, and who is to make something of it.

    Attributes:
        request: with absolute paths, and the recipe that the data set and the format need.
    """

    request: Request
    dataset: Dataset
    found: Found
    workers: Workers
    report: Callable[[str], None]

    def scan_into(self, index: Path) -> Scan:
        """What workers are to scan, into a directory."""
        return Scan(self.dataset, self.request.raw, self.found, index)

    def images(self, request: Request, parts: IndexParts) -> RawImages:
        """How their bytes are had."""
        found = self.found
        return RawImages(
            *(request.raw, parts.directory, request.recipe),
            *(found.names_files, found.fields, found.mask_values),
        )


def ready(request: Request) -> Request:
    """The request, once all is known to be there that it names beside raw data in a directory.

    Raw data in a bucket gets a directory in its place, which all workers see.

    Raises:
        DataprepError: the format, what it needs, the list of images to leave out, or a bucket
            cannot be used.
    """
    request.load_sink()
    if request.exclude is not None:
        from dataprep.tables.exclude import read_exclude  # which loads Arrow

        read_exclude(request.exclude)
    if (address := address_of(request.raw)) is None:
        return request
    workspace = Workspace(request.out)
    workspace.require_own()
    return replace(request, raw=laid_out(address, request.index_dir or workspace.private))


@contextmanager
def found(request: Request, engine: Engine, reporter: Reporter) -> Iterator[RawData]:
    """Find the raw data, and hold OUT.

    Args:
        request: that is `ready`.
        engine: on which it is done.
        reporter: told what was found.

    Raises:
        DataprepError: what was asked for is not there, or OUT is somebody else's.
    """
    dataset = load_dataset(request.dataset, request.dataset_options)
    close_archives()  # a new search starts from the files as they are now
    what = _with_copies(request.raw, dataset.find(request.raw, request.splits))
    check_places(request, what)
    if request.links == "follow" and (text := describe_links(request.raw)):
        what = replace(what, description=(*what.description, text))
    request = settle(request, what)
    engine.check()
    for text in what.description:
        reporter.line(text)
    given = {"--index_dir": request.index_dir, "--build_dir": request.build_dir}
    places = {"--raw": request.raw} | {option: path for option, path in given.items() if path}
    workspace = Workspace(request.out)
    with working(workspace, engine, places, what.splits or (), reporter) as workers:
        if what.cut is not None:
            cut = settle_cut(what.cut, workspace, overwrite=request.overwrite)
            what = replace(what, cut=cut)
        yield RawData(request, dataset, what, workers, reporter.line)


def _with_copies(raw: Path, found: Found) -> Found:
    """With the files that scanning unpacks once into the index: their sizes are said first."""
    names = {unit.container for unit in found.units if unit.unpacked_by}
    if not names:
        return found
    size = sum(stat_fingerprint(raw, name)[0] for name in names)
    text = (
        f"{counted(len(names), 'compressed file')} of {sized(size)}: unpacked once into the "
        "index, which takes more than that, until the data set is sealed"
    )
    return replace(found, description=(*found.description, text), copied=found.copied + size)


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


def scan(raw: RawData, *, trust: bool) -> IndexParts:
    """The index of all there is."""
    request, index = raw.request, Workspace(raw.request.out).index
    if request.index_dir is not None:
        index = shared_index_directory(request.index_dir, raw.dataset, request.raw)
    if not (trust and all(has_part(index, unit) for unit in raw.found.units)):
        _check_room(index, raw.found)
    return raw.workers.scan(raw.scan_into(index), trust=trust)


def bring_back_copies(raw: RawData, job: Job, parts: IndexParts) -> None:
    """Copy images again whose copies a seal has deleted, if a shard is to be made anew."""
    lost, workspace = parts.without_copies(), job.workspace
    if not lost or all(finished_shard(workspace, shard) for shard in job.shard_names()):
        return
    for unit in lost:
        forget_part(parts.directory, unit)
    _check_room(parts.directory, raw.found)
    raw.workers.scan(raw.scan_into(parts.directory), trust=True)


def _check_room(index: Path, found: Found) -> None:
    """Refuse, before the first byte, copies of images that the disk has no room for."""
    there = sum(path.stat().st_size for path in index.glob("*.images"))
    free, needed = shutil.disk_usage(index.parent).free, found.copied - there
    if needed > free:
        raise SinkError(
            f"{index}: {sized(needed)} of images have to be copied from compressed files, and "
            f"{sized(free)} are free; make room, or choose another disk with --index_dir "
            "(TMPDIR, where nothing is to be made)"
        )


def settle_cut(cut: StratifiedCut, workspace: Workspace, *, overwrite: bool) -> StratifiedCut:
    """The cut with a table to read, and its digest; hold OUT.

    Of OUT itself a copy is kept there, since a run that deletes the table may be killed, and must
    find it when it is run again.

    Raises:
        DatasetError: there is no sealed set, or its table is damaged.
        UsageError: a table cannot be read.
    """
    if cut.kept is None:
        return cut
    table = cut.kept
    if table.is_dir():
        own = table.resolve() == workspace.out.resolve()
        again = overwrite and workspace.manifest.exists()
        if own and workspace.kept_splits.exists() and not again:
            table = workspace.kept_splits
        else:
            check_sealed(table / NAME, SealedSet.read(table).manifest.records_table)
            table = table / NAME
            if own:
                with whole(workspace.kept_splits) as temporary:
                    shutil.copyfile(table, temporary)
                table = workspace.kept_splits
    try:
        return replace(cut, kept=table, digest=file_sha256(table))
    except OSError as error:
        raise UsageError(
            f"--splits_from {printable(str(table))} cannot be read ({refusal(error)}); check the "
            "path"
        ) from error


def config_of(raw: RawData) -> dict[str, str]:
    """The options that shape the data set: its own, and a digest of what is assigned."""
    digest = "" if raw.found.cut is None else raw.found.cut.digest
    return {**raw.dataset.config(), **({"splits_from": digest} if digest else {})}


# Links in raw data may lead out of it. People link to what lies elsewhere, so they are followed,
# and told of. In what somebody else has made, one may lead to a private file of its user.


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
