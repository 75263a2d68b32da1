"""A finished data set, as its manifest has it: parsed once, by `SealedSet.read`, and immutable.

The manifest holds no time, host name or path of the machine that made it, so the same input and
options give the same manifest, byte for byte. What lies in it is `dataprep_schemas.manifest`.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

import msgspec

from dataprep.errors import DatasetError, UsageError
from dataprep.system.messages import REMEDY, cannot_be_read, counted, printable, sized, some_of
from dataprep.system.regular_files import read_regular
from dataprep.system.state_files import parse, upgrade
from dataprep_schemas.manifest import Examples, File, Manifest, Shard, Split
from dataprep_schemas.state import Part

if TYPE_CHECKING:
    from dataprep.formats import DatasetInfo, Sink


NAME: Final = "manifest.json"

PART: Final = "part.json"
"""Which shards of a data set a node has. ``dataprep stage`` copies the manifest as it is, since its
hash must stay; with ``--share`` or ``--split`` only some of what that names comes along."""

_OURS: Final = b'"dataprep-part-'  # also of versions to come; the name is common
_STAGE_AGAIN: Final = "stage the data set again"


@dataclass(frozen=True, slots=True)
class PresentSplit:
    """What is here of a split: all of it, or a node's part."""

    whole: Split  # what the manifest says of all of it
    numbers: Sequence[int]  # of the shards that are here, ascending
    shards: tuple[Shard, ...]  # which they are
    files: tuple[File, ...]  # made once for the split, those that are here

    @property
    def records(self) -> int:
        """In the shards that are here."""
        return sum(shard.records for shard in self.shards)

    @property
    def bytes(self) -> int:
        """Of the shards that are here."""
        return sum(shard.bytes for shard in self.shards)

    @property
    def records_per_shard(self) -> tuple[int, int]:
        """Smallest and largest of the shards that are here."""
        counts = [shard.records for shard in self.shards]
        return min(counts), max(counts)


@dataclass(frozen=True, slots=True)
class SealedSet:
    """A finished data set, whole or a node's part.

    Attributes:
        out: the directory of ``manifest.json``.
        manifest: what it says, of all of the data set.
        part: which part is here; None if all is.
        splits: what is here of each split of which something is, by name.
    """

    out: Path
    manifest: Manifest
    part: Part | None
    splits: Mapping[str, PresentSplit]

    @classmethod
    def read(cls, out: Path) -> SealedSet:
        """Parse what is in a directory.

        Raises:
            DatasetError: there is no manifest (nothing is sealed here, or staged half), it is not
                intact, or it is not clear which part is here.
        """
        path = out / NAME
        try:
            found = path.stat()
            state = (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns)
            manifest = _parsed(path, state)
        except (FileNotFoundError, NotADirectoryError):
            require_directory(out)
            raise DatasetError(
                f"{out}: no {NAME} here, so not a finished data set, nor a whole copy; "
                "`dataprep status` tells how far a run has come, `dataprep stage --status` a copy"
            ) from None
        except OSError as error:
            raise DatasetError(f"{path} {cannot_be_read(error, REMEDY)}") from error
        return cls.of(out, manifest)

    @classmethod
    def of(cls, out: Path, manifest: Manifest) -> SealedSet:
        """The same, given the manifest that is there."""
        part = read_part(out, manifest)
        splits = {
            name: _present(split, name, part)
            for name, split in manifest.splits.items()
            if part is None or name in part.splits
        }
        return cls(out, manifest, part, splits)

    @property
    def info(self) -> DatasetInfo:
        """What readers of the shards are told."""
        from dataprep.formats import DatasetInfo

        said = msgspec.structs.asdict(self.manifest.examples)
        return DatasetInfo(classes=self.manifest.classes, **said)

    @property
    def sink(self) -> Sink:
        """The format, with the options that it was written with.

        Raises:
            UsageError: it is not installed here.
        """
        return sink_of(self.manifest)

    def require_whole(self, doing: str) -> None:
        """Refuse a part.

        Args:
            doing: what needs all of it, for the message: ``converted``.

        Raises:
            DatasetError: only a part is here.
        """
        if self.part is not None:
            raise DatasetError(
                f"{self.out} holds a part of its data set ({described(self.part)}) and only a "
                f"whole one can be {doing}; use the directory that it was staged from"
            )

    def split_called(self, name: str) -> str:
        """The split that a name means: ``validation``, say, for ``val``, where no split is ``val``.

        Raises:
            UsageError: there is none.
        """
        found = meant_split(name, self.splits)
        if found not in self.splits:
            raise UsageError(
                f"{self.out} has no split {printable(name)!r}; it has: {', '.join(self.splits)}"
            )
        return found

    # What a person wants to know of it.

    @property
    def records(self) -> int:
        """How many records all splits have."""
        return self.manifest.totals.records

    @property
    def shards(self) -> int:
        """How many shards."""
        return len(self.manifest.shards())

    @property
    def bytes(self) -> int:
        """Of all shards."""
        return sum(file.bytes for file in self.manifest.files())

    @property
    def rejected(self) -> int:
        """Images that could not be used, and are named in ``records.parquet``."""
        return self.manifest.totals.rejected

    @property
    def noted(self) -> int:
        """Images that were repaired, or about which there is a warning."""
        return self.manifest.totals.repaired + self.manifest.totals.warned

    @property
    def unmatched(self) -> int:
        """Images that are listed but missing, or there but not listed."""
        return self.manifest.totals.missing + self.manifest.totals.unlisted

    @property
    def spread(self) -> int | None:
        """The largest difference of any class's count between two shards of a stratified split.

        None if images have one label each, or there is no such split of several shards.
        """
        spreads = [
            split.class_spread
            for name, split in self.manifest.splits.items()
            if len(split.shards) > 1 and self.manifest.shuffle[name] == "stratified"
        ]
        return max(spreads, default=None) if self.manifest.examples.multilabel else None

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from dataprep.sealed.html import table

        rows = [
            (name, f"{split.records:,}", f"{len(split.shards):,}", sized(split.bytes))
            for name, split in self.splits.items()
        ]
        title = f"{self.out}: {len(self.manifest.classes):,} classes, {self.manifest.sink.name}"
        return table(title, ("split", "records", "shards", "size"), rows)

    def __repr__(self) -> str:
        """One line, since a manifest has thousands."""
        return f"<{self}>"

    def __str__(self) -> str:
        """One line."""
        text = f"sealed {self.out / NAME}: {counted(self.records, 'record')} in "
        text += f"{counted(self.shards, 'shard')}, {sized(self.bytes)}, "
        text += f"{self.rejected} rejected, {self.noted} noted"
        if self.unmatched:
            text += f", {self.unmatched} missing or not listed"
        if self.spread is not None:
            text += f"; no class differs by more than {self.spread} between two stratified shards"
        return text


@lru_cache(maxsize=4)  # because a conversion asks once a shard
def _parsed(path: Path, state: tuple[int, ...]) -> Manifest:  # noqa: ARG001 - `state` tells changes
    return parse(read_regular(path), Manifest, path, REMEDY)


def _present(split: Split, name: str, part: Part | None) -> PresentSplit:
    if part is None:
        return PresentSplit(split, range(len(split.shards)), split.shards, split.files)
    numbers = part.splits[name]
    files = tuple(file for file in split.files if file.path in part.split_files)
    return PresentSplit(split, numbers, tuple(split.shards[at] for at in numbers), files)


def require_directory(out: Path) -> None:
    """Refuse a path at which no data set can be.

    Raises:
        DatasetError: nothing is there, or a file.
    """
    if not out.is_dir():
        found = "is a file" if out.exists() else "does not exist"
        raise DatasetError(f"{out} {found}; name the directory of a data set")


def has_part(out: Path) -> bool:
    """Whether the ``part.json`` of a directory is one that staging wrote; else it is not ours.

    Raises:
        DatasetError: it cannot be read.
    """
    return _part_data(out / PART) is not None


def read_part(out: Path, manifest: Manifest) -> Part | None:
    """What ``part.json`` says; None if there is none of ours, so everything should be here.

    Raises:
        DatasetError: it cannot be understood, or is a part of another data set.
    """
    path = out / PART
    data = _part_data(path)
    if data is None:
        return None
    part = parse(data, Part, path, _STAGE_AGAIN)
    if part.manifest_sha256 != manifest.sha256:
        raise DatasetError(f"{path} is of another data set; {_STAGE_AGAIN}")
    for name, numbers in part.splits.items():
        known = manifest.splits.get(name)
        ascending = all(before < number for before, number in pairwise((-1, *numbers)))
        if known is None or not numbers or not ascending or numbers[-1] >= len(known.shards):
            raise DatasetError(f"{path} names shards of {name} that there are not; {_STAGE_AGAIN}")
    return part


def described(part: Part) -> str:
    """For messages: ``part 2 of 4``, ``only validation``."""
    if part.nodes > 1:
        return f"part {part.node + 1} of {part.nodes}"
    return f"only {some_of(part.splits)}"


def _part_data(path: Path) -> bytes | None:
    """The file, if it is one of ours, whole or damaged."""
    try:
        data = read_regular(path)
    except (FileNotFoundError, IsADirectoryError):
        return None
    except OSError as error:
        raise DatasetError(f"{path} {cannot_be_read(error, _STAGE_AGAIN)}") from error
    return data if _OURS in data else None


def first_rows(manifest: Manifest) -> dict[str, list[int]]:
    """By split, the row of each shard's first record; of the whole data set, also of a part."""
    splits = sorted(manifest.splits.items())
    sizes = (shard.records for _, split in splits for shard in split.shards)
    starts = accumulate(sizes, initial=0)
    return {name: [next(starts) for _ in split.shards] for name, split in splits}


def meant_split(name: str, known: Mapping[str, object]) -> str:
    """The split that a name means where these are known; itself if none of them."""
    if name in known:
        return name
    from dataprep.datasets.splits import split_of_folder  # late: it loads the data sets

    return split_of_folder(str(name)) or name


def examples_of(info: DatasetInfo) -> Examples:
    """What is true of every example, as the manifest has it; the inverse of `SealedSet.info`."""
    return Examples(info.multilabel, info.colorspace, info.size, info.fields)


def sink_of(manifest: Manifest) -> Sink:
    """The format of a data set, with the options that it was written with.

    Raises:
        UsageError: it is not installed.
    """
    from dataprep.plugins import load_sink

    try:
        return load_sink(manifest.sink.name, manifest.sink.config)
    except UsageError as error:
        if way_out := upgrade(manifest.versions):
            raise UsageError(f"{error}; {way_out}") from error
        raise


def foreign_files(out: Path, splits: Collection[str], own: Iterable[str]) -> Iterator[str]:
    """Files that are not the data set's own, but that its readers would take in.

    That is what begins like a shard, since readers are told ``train-*``; and in a directory called
    after its split what ends like one, since they are told ``train/*.tar``. Hidden files are not.

    Args:
        own: every file of the data set; those it would be mistaken for lie beside them. Relative,
            with ``/``, as what is found is.
    """
    prefixes = tuple(f"{split}-" for split in splits)
    known: dict[str, set[str]] = defaultdict(set)  # names, by directory; there may be 300,000
    for path in own:
        place, _, name = path.rpartition("/")
        above, _, folder = place.rpartition("/")
        # A shard may be a directory that holds its files, such as Caffe's databases.
        if "-of-" in folder and folder.startswith(prefixes):
            known[above].add(folder)
        else:
            known[place].add(name)
    for place, names in sorted(known.items()):
        directory = out / place
        alike = names if directory.name in splits else ()
        endings = tuple({PurePosixPath(name).suffix for name in alike} - {""})
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            for name in sorted({*os.listdir(directory)} - names):  # noqa: PTH208  # names will do
                if name.startswith(prefixes) or (name.endswith(endings) and name[0] != "."):
                    yield f"{place}/{name}" if place else name
