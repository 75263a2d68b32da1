"""What one call means for one node: which files are to be where, on which storage."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from heapq import heapreplace
from pathlib import Path

from dataprep.errors import StagingError, UsageError
from dataprep.remote.store import Store, address_of
from dataprep.sealed.set import NAME as MANIFEST
from dataprep.sealed.set import PART, meant_split
from dataprep.staging.directory import StageDirectory
from dataprep.staging.placement import Placement, require_node
from dataprep.staging.request import Source, StageRequest
from dataprep.staging.sentinel import PLANNED, other_jobs, read_sentinel
from dataprep.staging.source import Inventory, SourceFile, read_inventory
from dataprep.system.filesystems import (
    Scratch,
    filesystem_of,
    is_network,
    scratch_conventions,
    scratch_places,
    user_name,
)
from dataprep.system.messages import counted, printable, some_of
from dataprep.system.state_files import encode
from dataprep_schemas.manifest import Manifest
from dataprep_schemas.state import Part

_LONGEST_NAME = 100


@dataclass(frozen=True, slots=True)
class StagePlan:
    """What is to be where: one node's part of one call."""

    request: StageRequest
    placement: Placement  # which node this is, of which job
    inventory: Inventory  # what there is in the source
    selection: Assigned  # what of it this node gets
    target: Scratch  # where it goes, an absolute path, and what chose it; it need not exist

    @property
    def labels(self) -> tuple[str, ...]:
        """What makes the target a data set, or a part of one; none of a plain directory.

        They are not copied, but written when all else is there: so whatever kills a copier, what
        it leaves behind does not look like a finished data set. In this order they go: without its
        part, a manifest means all.
        """
        return (MANIFEST, PART) if self.inventory.manifest is not None else ()

    @property
    def copied_files(self) -> list[SourceFile]:
        """What is copied of the selection: all but the labels."""
        return [file for file in self.selection.files if file.path not in self.labels]


def make_plan(request: StageRequest, placement: Placement) -> StagePlan:
    """Look at the source, and choose what goes where; nothing is written.

    Raises:
        UsageError: options that cannot be together.
        DatasetError: there is nothing that can be staged.
        StagingError: there is no place for it.
    """
    inventory = read_inventory(request.source)
    selection = select(inventory, splits=request.splits, share=share_of(request, placement))
    return StagePlan(request, placement, inventory, selection, find_place(request, placement))


def share_of(request: StageRequest, placement: Placement) -> Share | None:
    """This node's part of the shards, if parts are asked for.

    Raises:
        UsageError: it is not known which node this is.
    """
    if not request.share:
        return None
    require_node(placement, "--share")
    return Share(placement.node, placement.nodes)


def find_place(request: StageRequest, placement: Placement) -> Scratch:
    """Where the copy goes; nothing is made.

    Raises:
        StagingError: there is no place for it, or it would be inside of the source.
    """
    source = request.source
    target = find_target(request.to, _name_of(source), placement, shared=request.shared)
    if isinstance(source, Store):
        return target
    # Not Path.resolve, which raises for links that lead in a circle.
    ours, theirs = Path(os.path.realpath(target.path)), Path(os.path.realpath(source))
    if ours.is_relative_to(theirs) or theirs.is_relative_to(ours):
        raise StagingError(
            f"the target {printable(str(target.path))} and the source "
            f"{printable(str(source))} must not contain each other; choose another "
            "directory (--to)"
        )
    return target


def find_target(
    to: Path | None,
    name: str,
    placement: Placement,
    *,
    shared: bool = False,
    environment: Mapping[str, str] = os.environ,
) -> Scratch:
    """Choose where the copy goes: ``--to``, or this job's own directory in the node's scratch.

    A variable that sites set for nothing but node-local scratch is a promise: if its directory
    cannot be used that is an error, not a reason to fill ``/tmp``. Other places are passed over.

    Args:
        name: of the data set, for the last component of a chosen path.
        shared: a directory that jobs of the same user share, instead of the job's own.

    Raises:
        StagingError: it would be on a network file system; no scratch was found.
    """
    if to is not None:
        path = to.absolute()
        kind = filesystem_of(path)
        if is_network(kind):
            raise StagingError(
                f"{printable(str(path))} (--to) is on {kind}, which other nodes share; name "
                "node-local storage with --to"
            )
        return Scratch("--to", path, promised=True)
    scratch = _choose(environment)
    job = "shared" if shared else _component(placement.job or "nojob")
    path = scratch.path / f"dataprep-{_component(user_name())}" / job / _component(name)
    return scratch._replace(path=path)


def _choose(environment: Mapping[str, str]) -> Scratch:
    """The first place that can be used."""
    passed: list[str] = []
    for scratch in scratch_conventions(environment):
        trouble = _trouble_with(scratch.path)
        if trouble is None:
            return scratch
        passed.append(f"{scratch.why} ({printable(str(scratch.path))}) {trouble}")
        if scratch.promised:
            raise StagingError(
                f"{passed[-1]}, but it names this node's scratch; fix or unset it, or name "
                "node-local storage with --to"
            )
    raise StagingError(
        f"no node-local scratch was found: {', '.join(passed)}; name node-local storage with --to"
    )


def _trouble_with(place: Path) -> str | None:
    """Why a place cannot be used."""
    # Not Path.is_dir, which raises where one may not look.
    if not place.is_absolute() or not os.path.isdir(place):  # noqa: PTH112  # see above
        return "is not the absolute path of a directory"
    if is_network(kind := filesystem_of(place)):
        return f"is on {kind}, which other nodes share"
    return None if os.access(place, os.W_OK | os.X_OK) else "cannot be written"


def _component(name: str) -> str:
    """A name as a directory's: plain characters, and another one for every other name."""
    plain = re.sub(r"[^A-Za-z0-9._+-]+", "-", name).lstrip(".-")[:_LONGEST_NAME]
    if plain and plain == name:
        return plain
    mark = hashlib.sha256(os.fsencode(name)).hexdigest()[:8]
    return f"{plain}-{mark}" if plain else mark


def find_copies(job: str) -> list[Path]:
    """Where a job has staged on this node without ``--to``, alone or with others."""
    tops = [place / f"dataprep-{_component(user_name())}" for place in scratch_places()]
    own = [place for top in tops for place in top.glob(f"{_component(job)}/*")]
    return own + [place for top in tops for place in top.glob("shared/*") if _uses(job, place)]


def _uses(job: str, place: Path) -> bool:
    with suppress(StagingError):  # not this user's
        if (directory := StageDirectory.existing(place)) is not None:
            with directory:
                whose = read_sentinel(directory) or read_sentinel(directory, PLANNED)
                return job in (*other_jobs(directory, None), whose and whose.job)
    return False


def absolute_source(given: str | os.PathLike[str]) -> Source:
    """SRC from the root on, as it was given: links stay links, unless it goes back with ``..``.

    Raises:
        UsageError: it is in a bucket, and obstore is not installed.
    """
    if (address := address_of(given)) is not None:
        return Store(address)
    source = Path(given)
    if ".." in source.parts:  # behind a link that is not where the name before it is
        return Path(os.path.realpath(source))
    return source.absolute()


def _name_of(source: Source) -> str:
    return source.address.rpartition("/")[2] if isinstance(source, Store) else source.name


def find_copy(
    source: str | Path | None, to: Path | None, placement: Placement, *, shared: bool
) -> Path:
    """Where a call with the same options has staged; what is there must be a copy of ``source``.

    Two sources of one name have the same place in a job's scratch.

    Args:
        source: SRC; may be None if ``to`` is given: then any copy will do.

    Raises:
        StagingError: no scratch was found; it is not node-local, or not safe to look at; what is
            there is a copy of something else.
    """
    given = None if source is None else absolute_source(source)
    place = find_target(to, _name_of(given) if given else "", placement, shared=shared).path
    directory = StageDirectory.existing(place) if given else None
    if given is None or directory is None:
        return place
    with directory:
        sentinel = read_sentinel(directory)
    if sentinel and os.path.realpath(sentinel.source) != os.path.realpath(str(given)):
        raise StagingError(
            f"{printable(str(place))} holds a copy of {printable(sentinel.source)}, not of "
            f"{printable(str(source))}; give that SRC, or only the place (--to)"
        )
    return place


@dataclass(frozen=True, slots=True)
class Share:
    """That this node gets only its part of the shards."""

    node: int  # 0-based
    nodes: int  # how many there are


@dataclass(frozen=True, slots=True)
class Assigned:
    """What one node gets."""

    files: tuple[SourceFile, ...]  # to be staged, in the order of their paths
    # SHA-256 (hex) of the inventory's digest, the part and the paths selected; two selections of
    # one source are the same if and only if this is.
    digest: str
    part: Part | None  # what ``part.json`` says; None if everything is here
    notes: tuple[str, ...]  # lines for the user, such as on files that cannot be shared; everywhere

    @property
    def bytes(self) -> int:
        """Of all files together."""
        return sum(file.bytes for file in self.files)


def select(
    inventory: Inventory, *, splits: Collection[str] = (), share: Share | None = None
) -> Assigned:
    """What a node gets.

    The shards of each split are assigned by their records, the files of a plain directory by their
    bytes. Every node gets all of a split that has fewer shards than there are nodes. Files that are
    made once for a split, such as a mean image, are of all its shards, and come only with all.

    Args:
        splits: only these; all if empty.
        share: only this node's part of their shards; all shards if None.

    Raises:
        UsageError: a split is not in the manifest, or there is no manifest that could tell.
    """
    if share is not None and share.nodes == 1:
        share = None
    if inventory.manifest is not None:
        return _of_data_set(inventory, inventory.manifest, splits, share)
    if splits:
        raise UsageError(
            f"{inventory.source} has no manifest, so nothing is known of split {min(splits)}; "
            "name the directory of the split"
        )
    notes: list[str] = []
    sizes = [file.bytes for file in inventory.files]
    own = _own(sizes, share, "the directory", "file", notes)
    return _selection(inventory, [inventory.files[number] for number in own], None, notes)


def _of_data_set(
    inventory: Inventory, manifest: Manifest, splits: Collection[str], share: Share | None
) -> Assigned:
    wanted = {meant_split(name, manifest.splits) for name in splits} or {*manifest.splits}
    if unknown := wanted - {*manifest.splits}:
        raise UsageError(
            f"{inventory.source} has no split {printable(min(unknown))}; it has: "
            f"{', '.join(manifest.splits)}"
        )
    numbers: dict[str, tuple[int, ...]] = {}
    split_files: list[str] = []
    left_out: set[str] = set()
    notes: list[str] = []
    for name, split in manifest.splits.items():
        here: Sequence[int] = ()
        if name in wanted:
            sizes = [shard.records for shard in split.shards]
            here = numbers[name] = _own(sizes, share, name, "shard", notes)
        absent = {*range(len(split.shards))}.difference(here)
        left_out.update(file.path for number in absent for file in split.shards[number].files)
        made_once = [file.path for file in split.files]
        if not absent:
            split_files += made_once
            continue
        left_out.update(made_once)
        if made_once and name in wanted:
            notes.append(
                f"{printable(name)}: left out {some_of(made_once)}, made once for all its shards; "
                "without --share they come along"
            )
    part = None
    if left_out:
        part = Part(
            manifest_sha256=manifest.sha256,
            splits=numbers,
            split_files=tuple(split_files),
            node=share.node if share else 0,
            nodes=share.nodes if share else 1,
        )
    files = [file for file in inventory.files if file.path not in left_out]
    return _selection(inventory, files, part, notes)


def _own(
    sizes: Sequence[int], share: Share | None, what: str, noun: str, notes: list[str]
) -> tuple[int, ...]:
    """The numbers of this node's: all where parts are not asked for, or not every node gets one."""
    if share is not None and len(sizes) < share.nodes:
        notes.append(
            f"{printable(what)}: {counted(len(sizes), noun)}, too few for {share.nodes} nodes, so "
            "all of it is staged on every node"
        )
    elif share is not None:
        nodes = assign_shards(sizes, share.nodes)
        return tuple(number for number, node in enumerate(nodes) if node == share.node)
    return tuple(range(len(sizes)))


def _selection(
    inventory: Inventory, files: Sequence[SourceFile], part: Part | None, notes: Sequence[str]
) -> Assigned:
    text = "" if part is None else encode(part).decode()
    # No path holds a NUL, so no two selections are the same text.
    named = "\0".join([inventory.digest, text, *(file.path for file in files)])
    digest = hashlib.sha256(named.encode()).hexdigest()
    return Assigned(tuple(files), digest, part, tuple(notes))


def assign_shards(sizes: Sequence[int], nodes: int) -> Iterator[int]:
    """Give every shard to the node that has the least so far.

    Of nodes with equally much, the one with fewer shards comes first, then the one with the lower
    index; shards of one size thus go round and round, and no node gets a second shard while
    another has none. Totals never differ by more than the largest shard: of two nodes, the one
    that gets a shard had no more than the other, and has now at most the shard more, or else the
    difference has only shrunk.

    Args:
        sizes: of every shard by number: records, or bytes where no records are known.

    Yields:
        For every shard in turn the index of the node that gets it.
    """
    least = [(0, 0, node) for node in range(nodes)]  # a heap: size, shards, node
    for size in sizes:
        total, shards, node = least[0]
        heapreplace(least, (total + size, shards + 1, node))
        yield node
