"""Checking a finished data set against its manifest; nothing is trusted, everything is named."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, Final, Literal, get_args

import xxhash

from dataprep.errors import DatasetError, ImageError, RemoteError, SinkError
from dataprep.formats import DatasetInfo, Sink
from dataprep.formats.example import Example
from dataprep.formats.subprocess_reader import in_child
from dataprep.images import Recipe, prepare
from dataprep.remote.cache import Cache, cache_at
from dataprep.sealed.set import SealedSet, described, first_rows, foreign_files
from dataprep.system.messages import printable
from dataprep.system.state_files import file_sha256
from dataprep.system.throttle import pay
from dataprep.tables.records import NAME as RECORDS
from dataprep.tables.records import STORED, RecordsTable
from dataprep_schemas.manifest import File, RecordsFile
from dataprep_schemas.state import Part

Level = Literal["size", "hash", "records", "decode", "reader"]
LEVELS: tuple[Level, ...] = get_args(Level)
_READING = ("records", "decode", "reader")

# How long another process may take for a shard: that, and its bytes by so many a second.
_SECONDS = 60.0
_SLOWEST = 1e6

# What a record and its row of the table have in common; a row has its status besides.
_COLUMNS: Final = (
    *("key", "labels", "classes", "format", "height", "width", "bytes", "xxh3"),
    *("split", "shard", "position"),
)


@dataclass(frozen=True, slots=True)
class Problem:
    """A file that is not what the manifest says.

    Attributes:
        path: relative to the directory of ``manifest.json``.
        what: how, in words.
        foreign: whether it is not the data set's, but readers would take it in.
        missing: whether it is not there.
        unreadable: whether the system refuses to read it, so that it may be good or damaged.
    """

    path: str
    what: str
    foreign: bool = False
    missing: bool = False
    unreadable: bool = False

    @property
    def damaged(self) -> bool:
        """Whether it is the data set's, is there and was read, and so is better deleted."""
        return not (self.foreign or self.missing or self.unreadable)


@dataclass(frozen=True, slots=True)
class Verified:
    """What a verification found.

    Attributes:
        files: how many there should be.
        bytes: of all of them.
        records: how many there should be.
        problems: what is wrong with which file; empty if everything is good.
        part: as in ``part.json``, if only a part of the data set should be there.
        discarded: bad files that were deleted.
        remedy: what to do about the problems; empty if there are none.
    """

    files: int
    bytes: int
    records: int
    problems: tuple[Problem, ...]
    part: Part | None = None
    discarded: tuple[str, ...] = ()
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class _Shard:
    """A shard, or files besides, which hold no records of their own."""

    split: str
    number: int
    row: int  # of its first record in the table
    records: int | None  # None if there are none to look at
    files: tuple[File | RecordsFile, ...]

    @property
    def bytes(self) -> int:
        """Of its files."""
        return sum(file.bytes for file in self.files)


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
        level: ``size``: every file is there, with its size. ``hash``: and with its SHA-256.
            ``records``: and the format's own checksums, record counts, labels, and class names
            where the format stores them hold, and the table of records says the same of each.
            ``decode``: and every image decodes in full. ``reader``: and the format's own reader,
            not written by us, gives the same images and labels.
        progress: told the bytes of each shard when it is done.

    Raises:
        DatasetError: there is no intact manifest to check against, or it is not clear which part
            of it should be there.
        UsageError: the format, or for ``reader`` its own reader, is not installed.
    """
    sealed = SealedSet.read(out)
    recipe = Recipe(
        check="pixels",
        passes=("JPEG", "PNG"),
        depth="keep",
        max_pixels=sealed.manifest.image.max_pixels,
    )
    check = _Check(out, level, sealed.sink, sealed.info, recipe)
    shards = [*_shards(sealed)]
    problems = [*_check_foreign_files(sealed)]
    if level == "reader":
        threads = 1  # other people's readers are not always made for more
    with ThreadPoolExecutor(threads) as pool:
        looks = (
            _in_children(check, shards, pool, threads)
            if level in _READING and check.sink.trusts_files
            else pool.map(partial(_check_shard, check), shards)
        )
        for shard, found in zip(shards, looks, strict=True):
            problems += found
            if progress is not None:
                progress(shard.bytes)
    return Verified(
        files=sum(len(shard.files) for shard in shards),
        bytes=sum(shard.bytes for shard in shards),
        records=sum(shard.records or 0 for shard in shards),
        problems=tuple(dict.fromkeys(problems)),  # of the table of records, every shard says it
        part=sealed.part,
    )


def _shards(sealed: SealedSet) -> Iterator[_Shard]:
    """The shards, and what else the manifest names, as shards without records."""
    rows = first_rows(sealed.manifest)
    yield _Shard("", 0, 0, None, (sealed.manifest.records_table,))
    for name, split in sealed.splits.items():
        for number, shard in zip(split.numbers, split.shards, strict=True):
            yield _Shard(name, number, rows[name][number], shard.records, shard.files)
        if split.files:
            yield _Shard(name, 0, 0, None, split.files)


def _in_children(
    check: _Check, shards: Sequence[_Shard], pool: Executor, count: int
) -> Iterator[list[Problem]]:
    """The problems of each shard, of formats whose libraries may crash or hang.

    That the hash is the manifest's says nothing of one who made both.
    """
    children = [_in_child(check, shards[first::count]) for first in range(min(count, len(shards)))]
    yield from pool.map(next, children)  # which starts all of them
    yield from (next(children[number % count]) for number in range(len(children), len(shards)))


def _in_child(check: _Check, shards: Sequence[_Shard]) -> Iterator[list[Problem]]:
    """The same of some of them; in another process if one ends or has to be ended."""
    while shards:
        most = max(shard.bytes for shard in shards)
        seconds = _SECONDS + most / _SLOWEST
        try:
            for found in in_child(check.out, _check_shards, check, shards, seconds=seconds):
                shards = shards[1:]
                yield found
        except SinkError as error:
            yield [Problem(shards[0].files[0].path, str(error))]
            shards = shards[1:]


def _check_shards(check: _Check, shards: Sequence[_Shard]) -> Iterator[list[Problem]]:
    return map(partial(_check_shard, check), shards)


def _check_shard(check: _Check, shard: _Shard) -> list[Problem]:
    cache = cache_at(check.out)
    hashed = check.level != "size"
    looked = [_check_file(check.out, cache, file, hashed=hashed) for file in shard.files]
    problems = [problem for problem in looked if problem]
    if check.level not in _READING or problems or shard.records is None:
        return problems
    place = shard.files[0].path
    try:
        with nullcontext() if cache is None else cache.held(shard.files):
            problems += [Problem(place, what) for what in _read_shard(check, shard, shard.records)]
    except (SinkError, RemoteError) as error:
        problems.append(Problem(place, str(error)))
    except DatasetError as error:
        problems.append(_refused(RECORDS, str(error), error.__cause__))
    return problems


def _refused(path: str, what: str, cause: BaseException | None) -> Problem:
    """A file that cannot be read: by the system's refusal, which has a number, it may be good."""
    missing = isinstance(cause, FileNotFoundError)
    refused = isinstance(cause, OSError) and cause.errno is not None
    return Problem(path, what, missing=missing, unreadable=refused and not missing)


def _check_file(
    out: Path, cache: Cache | None, expected: File | RecordsFile, *, hashed: bool
) -> Problem | None:
    """What is wrong with a file; of a data set in a bucket, with that there."""
    path = out / expected.path
    try:
        size, sha256 = path.stat().st_size if cache is None else 0, ""
        if cache is not None:
            size, sha256 = cache.look(expected, hashed=hashed)
        if size != expected.bytes:
            what = f"has {size} bytes, the manifest says {expected.bytes}"
            return Problem(expected.path, what)
        if hashed and (sha256 or file_sha256(path, pay)) != expected.sha256:
            what = "its SHA-256 is not the manifest's: it was damaged or changed"
            return Problem(expected.path, what)
    except FileNotFoundError as error:
        return _refused(expected.path, "is missing", error)
    except OSError as error:
        return _refused(expected.path, f"cannot be read: {error.strerror}", error)
    return None


def _read_shard(check: _Check, shard: _Shard, expected: int) -> Iterator[str]:
    """What is wrong with the shard's records."""
    paths = [check.out / file.path for file in shard.files]
    same_table = True
    with check.sink.reader(paths, check.info) as reader, RecordsTable(check.out, None) as table:
        columns = (*_COLUMNS, *(field.name for field in check.info.fields), "status")
        rows = table.rows(shard.row, shard.row + expected, columns)
        for position, (example, row) in enumerate(zip_longest(reader, rows)):
            if example is None or row is None:
                yield f"holds {'fewer' if example is None else 'more'} than {expected} records"
                return
            what = _judge(check, example)
            if what is None and same_table:
                place = (shard.split, shard.number, position)
                what = _other_row(row, example, place, check.info)
                same_table = what is None  # of a table of another data set, one row says it
            if what is not None:
                yield f"record {position}: {printable(what)}"
        if check.level == "reader":
            _compare_with_reference(check, paths, iter(reader))


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
    )
    *values, status = row
    for name, here, there in zip(_COLUMNS, found, values, strict=False):
        if here != there:
            return f"{example.key}: its {name} is {here}, {RECORDS} says {there}"
    for field, there in zip(info.fields, values[len(_COLUMNS) :], strict=True):
        here = example.fields.get(field.name)
        if not field.rules.same(here, there):
            return f"{example.key}: its {field.name} is {here}, {RECORDS} says {there}"
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


def _check_foreign_files(sealed: SealedSet) -> Iterator[Problem]:
    part = sealed.part
    own = "the manifest" if part is None else f"what should be here ({described(part)})"
    for name, split in sealed.splits.items():
        files = chain(split.files, *(shard.files for shard in split.shards))
        for path in foreign_files(sealed.out, [name], (file.path for file in files)):
            what = f"is not in {own}, but readers would take it in; move it away"
            yield Problem(path, what, foreign=True)
