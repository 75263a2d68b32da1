"""Writing shards as dataprep does: under temporary names, then renamed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

import pytest

from dataprep.errors import UsageError
from dataprep.sinks.base import DatasetInfo, Layout, ShardName, ShardWriter, Sink, WrittenFile
from dataprep.sinks.conformance.material import CASES, Case
from dataprep.sinks.example import Example

ONLY = ShardName("train", 0, 1)


@dataclass(frozen=True)
class Shard:
    """A finished shard.

    Attributes:
        names: of its files, relative to the output directory.
        paths: the files.
        written: what the writer said about them.
    """

    names: tuple[PurePosixPath, ...]
    paths: tuple[Path, ...]
    written: tuple[WrittenFile, ...]

    @property
    def digests(self) -> list[str]:
        """SHA-256 of the files as they are now."""
        return [sha256(path) for path in self.paths]


@dataclass(frozen=True)
class Started:
    """A shard being written, under temporary names."""

    writer: ShardWriter
    names: tuple[PurePosixPath, ...]
    temporary: tuple[Path, ...]
    root: Path

    def publish(self) -> tuple[Path, ...]:
        """Give the files their final names."""
        paths = tuple(self.root / name for name in self.names)
        for temporary, path in zip(self.temporary, paths, strict=True):
            temporary.rename(path)
        return paths


def start(
    sink: Sink,
    info: DatasetInfo,
    root: Path,
    shard: ShardName = ONLY,
    *,
    layout: Layout = "split",
    tag: str = "1a2b3c4d",
) -> Started:
    """Open a shard below ``root``."""
    names = tuple(sink.paths(shard, layout))
    temporary = temporary_paths(root, names, tag)
    return Started(sink.open(temporary, info), names, temporary, root)


def write_shard(
    sink: Sink,
    info: DatasetInfo,
    examples: Sequence[Example],
    root: Path,
    shard: ShardName = ONLY,
    *,
    layout: Layout = "split",
    tag: str = "1a2b3c4d",
) -> Shard:
    """Write a shard from beginning to end."""
    started = start(sink, info, root, shard, layout=layout, tag=tag)
    try:
        for example in examples:
            started.writer.write(example)
        written = tuple(started.writer.close())
    except BaseException:
        started.writer.abandon()
        raise
    return Shard(started.names, started.publish(), written)


def temporary_paths(root: Path, names: Sequence[PurePosixPath], tag: str) -> tuple[Path, ...]:
    """Where files are written before they are published; the directories are made."""
    paths = tuple(root / name.parent / f".{name.name}.{tag}.partial" for name in names)
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
    return paths


def all_held(sink: Sink) -> list[Case]:
    """The kinds of data sets that the sink can hold with these options."""
    return [case for case in CASES if _holds(sink, case)]


def held(sink: Sink) -> Case:
    """One of them."""
    found = all_held(sink)
    if not found:
        options = ", ".join(f"{name}={value}" for name, value in sink.options.items())
        pytest.fail(f"sink {sink.name} ({options}) refuses every kind of data set")
    return found[0]


def _holds(sink: Sink, case: Case) -> bool:
    try:
        sink.check(case.info_for(sink))
    except UsageError:
        return False
    return True


def expected(sink: Sink, examples: Sequence[Example]) -> list[Example]:
    """What a reader must give back: all that the format has a place for."""
    found = list(examples)
    if not sink.keeps_boxes:
        found = [replace(it, boxes=(), box_labels=()) for it in found]
    if not sink.keeps_attributes:
        found = [replace(it, attributes={}) for it in found]
    return found


def files_below(root: Path) -> list[Path]:
    """Every file."""
    return sorted(path for path in root.rglob("*") if not path.is_dir())


def sha256(path: Path) -> str:
    """In hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def held_open(root: Path) -> list[str]:
    """Files below ``root`` that this process has open or mapped; none where nobody can tell."""
    descriptors = Path("/proc/self/fd")
    if not descriptors.is_dir():
        return []
    found = []
    for descriptor in descriptors.iterdir():
        try:
            found.append(str(descriptor.readlink()))
        except OSError:  # the descriptor that lists the directory
            continue
    maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="surrogateescape")
    found += [line.split(maxsplit=5)[5] for line in maps.splitlines() if str(root) in line]
    return [name for name in found if name.startswith(f"{root}/")]
