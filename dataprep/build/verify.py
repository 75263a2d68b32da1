"""Checking a finished data set against its manifest; nothing is trusted, everything is named."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final, Literal, get_args

import numpy as np
import numpy.typing as npt
import xxhash

from dataprep.build.manifest import (
    NAME,
    Part,
    dataset_info,
    manifest_sink,
    present,
    read_manifest,
    read_part,
    shard_numbers,
)
from dataprep.build.workspace import foreign_files
from dataprep.errors import DatasetError, ImageError, SinkError
from dataprep.images import Recipe, prepare
from dataprep.index.records import NAME as RECORDS
from dataprep.index.records import STATUSES, STORED, RecordsTable, first_rows
from dataprep.sinks import DatasetInfo, Sink
from dataprep.sinks.example import Example
from dataprep.system.messages import printable
from dataprep.system.state_files import file_sha256
from dataprep.system.throttle import pay

Level = Literal["size", "hash", "records", "decode", "reader"]
LEVELS: tuple[Level, ...] = get_args(Level)
_READING = ("records", "decode", "reader")

# What a record and its row of the table have in common; a row has its status besides.
_COLUMNS: Final = (
    *("key", "labels", "classes", "format", "height", "width", "bytes", "xxh3"),
    *("split", "shard", "position"),
)

KEY_HASH: Final = np.dtype("V16")
"""128 bits: a million keys fit in memory, and no two are ever taken for the same."""


def key_hash(key: str) -> bytes:
    """The 16 bytes of a `KEY_HASH`."""
    return hashlib.blake2b(key.encode("utf-8", "surrogateescape"), digest_size=16).digest()


def repeated(hashes: npt.NDArray[Any]) -> int:
    """How many of the hashes stand there for the second, third, … time."""
    ordered = np.sort(hashes)
    return int(np.count_nonzero(ordered[1:] == ordered[:-1]))


@dataclass(frozen=True, slots=True)
class Problem:
    """One file that is not what the manifest says, and how."""

    path: str
    what: str


@dataclass(frozen=True, slots=True)
class Verified:
    """What a verification found; ``part`` if only a part of the data set should be there."""

    files: int
    bytes: int
    records: int
    problems: tuple[Problem, ...]
    part: Part | None = None


@dataclass(frozen=True, slots=True)
class _Shard:
    """A shard, or the files that its split has besides, which hold no records of their own.

    Attributes:
        row: of its first record in the table.
    """

    split: str
    number: int
    row: int
    records: int | None
    files: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class _Result:
    """What a look at a shard gave: problems, records by class, and a hash of every key."""

    problems: list[Problem]
    classes: Counter[int]
    keys: bytearray


@dataclass(frozen=True, slots=True)
class _Check:
    """How every shard is looked at."""

    out: Path
    level: Level
    sink: Sink
    info: DatasetInfo
    recipe: Recipe


def verify(
    out: Path, level: Level, *, threads: int, progress: Callable[[int], object] | None = None
) -> Verified:
    """Check every shard; of a node's part of a data set, those that should be there.

    Args:
        out: the directory that holds ``manifest.json``.
        level: ``size``: every file is there, with its size. ``hash``: and with its SHA-256.
            ``records``: and the format's own checksums, record counts, labels, class names where
            the format stores them, and class counts hold, and the table of records says the same
            of each. ``decode``: and every image decodes in
            full. ``reader``: and the format's own reader, not written by us, gives the same images
            and labels.
        threads: shards looked at at the same time.
        progress: told the bytes of each shard when it is done.

    Raises:
        DatasetError: there is no intact manifest to check against, or it is not clear which part
            of it should be there.
        UsageError: the format, or for ``reader`` its own reader, is not installed.
    """
    whole = read_manifest(out)
    part, manifest = read_part(out, whole), present(out, whole)
    recipe = Recipe(
        check="pixels",
        passes=("JPEG", "PNG"),
        depth="keep",
        max_pixels=manifest["image"]["max_pixels"],
    )
    check = _Check(out, level, manifest_sink(manifest), dataset_info(manifest), recipe)
    shards = [*_shards(manifest, whole, shard_numbers(out, whole))]
    problems = [*_check_accounts(whole), *_check_foreign_files(out, manifest, part)]
    classes: dict[str, Counter[int]] = {split: Counter() for split in manifest["splits"]}
    keys = {split: bytearray() for split in manifest["splits"]}

    def check_shard(shard: _Shard) -> _Result:
        return _check_shard(check, shard)

    # Other people's readers are not always made for threads.
    with ThreadPoolExecutor(1 if level == "reader" else threads) as pool:
        for shard, result in zip(shards, pool.map(check_shard, shards), strict=True):
            problems += result.problems
            classes[shard.split] += result.classes
            keys[shard.split] += result.keys
            if progress is not None:
                progress(sum(file["bytes"] for file in shard.files))
    if level in _READING and not problems:
        problems += _check_class_counts(manifest, whole, classes)
        problems += _check_totals(out, whole)
    problems += _check_unique(keys)
    return Verified(
        files=sum(len(shard.files) for shard in shards),
        bytes=sum(file["bytes"] for shard in shards for file in shard.files),
        records=sum(shard.records or 0 for shard in shards),
        problems=tuple(problems),
        part=part,
    )


def _shards(
    manifest: dict[str, Any], whole: dict[str, Any], numbers: Mapping[str, Sequence[int]]
) -> Iterator[_Shard]:
    """The shards, and what else the manifest names, as shards without records."""
    rows = first_rows(whole)
    yield _Shard(next(iter(manifest["splits"])), 0, 0, None, (manifest["records_table"],))
    for split, content in manifest["splits"].items():
        for number, shard in zip(numbers[split], content["shards"], strict=True):
            row = rows[split][number]
            yield _Shard(split, number, row, shard["records"], tuple(shard["files"]))
        if content["files"]:
            yield _Shard(split, 0, 0, None, tuple(content["files"]))


def _check_shard(check: _Check, shard: _Shard) -> _Result:
    found = _Result([], Counter(), bytearray())
    for file in shard.files:
        what = _check_file(check.out / file["path"], file, hashed=check.level != "size")
        if what:
            found.problems.append(Problem(file["path"], what))
    if check.level in _READING and not found.problems and shard.records is not None:
        place = shard.files[0]["path"]
        try:
            for what in _read_shard(check, shard, found):
                found.problems.append(Problem(place, what))
        except SinkError as error:
            found.problems.append(Problem(place, str(error)))
        except DatasetError as error:
            found.problems.append(Problem(RECORDS, str(error)))
    return found


def _check_file(path: Path, expected: dict[str, Any], *, hashed: bool) -> str | None:
    try:
        size = path.stat().st_size
        if size != expected["bytes"]:
            return f"has {size} bytes, the manifest says {expected['bytes']}"
        if hashed and file_sha256(path, pay) != expected["sha256"]:
            return "its SHA-256 is not the manifest's: it was damaged or changed"
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return None


def _read_shard(check: _Check, shard: _Shard, found: _Result) -> Iterator[str]:
    """What is wrong with the shard's records; takes in their classes and keys."""
    paths = [check.out / file["path"] for file in shard.files]
    expected, position = shard.records or 0, -1
    with check.sink.reader(paths, check.info) as reader, RecordsTable(check.out) as table:
        own = tuple(name for name, _ in check.info.attributes)
        rows = table.rows(shard.row, shard.row + expected, (*_COLUMNS, *own, "status"))
        for position, example in enumerate(reader):
            found.classes.update(example.labels)
            found.keys.extend(key_hash(example.key))
            row = next(rows, None)
            what = _judge(check, example)
            if what is None and row is not None:
                place = (shard.split, shard.number, position)
                what = _other_row(row, example, place, check.info)
                if what is not None:
                    rows = iter(())  # of a table that is of another data set, one row says it
            if what is not None:
                yield f"record {position}: {printable(what)}"
        if check.level == "reader":
            _compare_with_reference(check, paths, iter(reader))
    if position + 1 != expected and not found.problems:
        yield f"holds {position + 1} records, the manifest says {expected}"


def _judge(check: _Check, example: Example) -> str | None:
    """What is wrong with it by itself, if anything."""
    info, known = check.info, range(len(check.info.classes))
    if not all(label in known for label in example.labels):
        return f"{example.key}: labels {example.labels} are not in the class list"
    if not info.multilabel and len(example.labels) != 1:
        return f"{example.key}: {len(example.labels)} labels, expected one"
    # Readers of formats that store no names have them from the manifest.
    named = (example.synset, example.class_name)
    for found, expected in zip(
        named, (info.identifiers(example.labels), info.names(example.labels)), strict=True
    ):
        if found != expected:
            return f"{example.key}: its class is {found!r}, the manifest says {expected!r}"
    # Of an array the reader has looked at the size.
    if check.level == "decode" and example.format != "RAW":
        try:
            prepare(example.encoded, check.recipe)
        except ImageError as error:
            return f"({example.filename}): {error}"
    return None


def _other_row(
    row: tuple[Any, ...], example: Example, place: tuple[str, int, int], info: DatasetInfo
) -> str | None:
    """What the table of records says of it, if that is something else."""
    own = tuple(name for name, _ in info.attributes)
    found = (
        example.key,
        list(example.labels),
        [info.classes[label][0] for label in example.labels],
        example.format,
        example.height,
        example.width,
        len(example.encoded),
        xxhash.xxh3_128_hexdigest(example.encoded),
        *place,
        *(example.attributes.get(name) for name in own),
    )
    *values, status = row
    for name, here, there in zip((*_COLUMNS, *own), found, values, strict=True):
        if here != there:
            return f"{example.key}: its {name} is {here}, {RECORDS} says {there}"
    if status not in STORED:
        return f"{example.key}: is in the data set, {RECORDS} says it was {status}"
    return None


def _compare_with_reference(check: _Check, paths: list[Path], ours: Iterator[Example]) -> None:
    name = check.sink.reference
    theirs = check.sink.reference_records(paths, check.info)
    for number, (example, other) in enumerate(zip_longest(ours, theirs)):
        if example is None or other is None:
            raise SinkError(f"{name} finds {'more' if example is None else 'fewer'} records")
        if other[0] != example.encoded:
            raise SinkError(f"record {number}: {name} gives another image")
        if tuple(other[1]) != example.labels:
            raise SinkError(f"record {number}: {name} gives {other[1]}, expected {example.labels}")


def _check_class_counts(
    manifest: dict[str, Any], whole: dict[str, Any], classes: dict[str, Counter[int]]
) -> Iterator[Problem]:
    """Exactly those of the manifest; of some of a split's shards no more than it has."""
    for split, found in classes.items():
        described = whole["splits"][split]
        expected = Counter(
            {int(label): count for label, count in described["class_records"].items()}
        )
        some = len(manifest["splits"][split]["shards"]) < len(described["shards"])
        if found - expected if some else found != expected:
            yield Problem(NAME, f"{split}: its records by class are not what the shards hold")


def _check_unique(keys: dict[str, bytearray]) -> Iterator[Problem]:
    for split, hashes in keys.items():
        twice = repeated(np.frombuffer(hashes, KEY_HASH))
        if twice:
            yield Problem(NAME, f"{split}: {twice} records have the key of another one")


def _check_accounts(manifest: dict[str, Any]) -> Iterator[Problem]:
    """Every image of the input is a record or a rejection."""
    for name, split in manifest["splits"].items():
        known = split["records"] + split["rejected"]
        images = manifest["input"][name]["images"]
        if not known == split["images_found"] == images:
            what = f"{name}: {known} records and rejected images, but the input had {images}"
            yield Problem(NAME, what)


def _check_totals(out: Path, manifest: dict[str, Any]) -> Iterator[Problem]:
    """The table has as many rows of each status as the manifest says."""
    with RecordsTable(out) as table:
        found = table.totals()
    everything: Counter[str] = sum(found.values(), Counter())
    pairs = [("all splits", everything, manifest["totals"])]
    pairs += [
        (name, found.get(name, Counter()), split) for name, split in manifest["splits"].items()
    ]
    for name, counts, said in pairs:
        stored = sum(counts[status] for status in STORED)
        numbers = {"records": stored, **{status: counts[status] for status in STATUSES[1:]}}
        for status, number in numbers.items():
            if number != said[status]:
                what = f"{name}: {number} rows are {status}, the manifest says {said[status]}"
                yield Problem(RECORDS, what)


def _check_foreign_files(
    out: Path, manifest: dict[str, Any], part: Part | None
) -> Iterator[Problem]:
    own = "the manifest" if part is None else f"what should be here ({part})"
    for name, split in manifest["splits"].items():
        files = [file for shard in split["shards"] for file in shard["files"]] + split["files"]
        for path in foreign_files([name], {out / file["path"] for file in files}):
            what = f"is not in {own}, but readers would take it in; move it away"
            yield Problem(str(path.relative_to(out)), what)
