"""Checking a finished data set against its manifest; nothing is trusted, everything is named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from dataprep.errors import ImageError, SinkError
from dataprep.hashing import file_sha256
from dataprep.images import Recipe, prepare
from dataprep.manifest import NAME, read_manifest
from dataprep.plugins import load_sink
from dataprep.wording import printable

Level = Literal["size", "hash", "records", "decode"]
LEVELS: tuple[Level, ...] = get_args(Level)


@dataclass(frozen=True, slots=True)
class Problem:
    """One shard file that is not what the manifest says, and how."""

    path: str
    what: str


@dataclass(frozen=True, slots=True)
class Verified:
    """What a verification found."""

    files: int
    bytes: int
    records: int
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class _Shard:
    split: str
    records: int
    files: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class _Result:
    problems: list[Problem]
    classes: Counter[int]


def verify(
    out: Path, level: Level, *, threads: int, progress: Callable[[int], object] | None = None
) -> Verified:
    """Check every shard.

    Args:
        out: the directory that holds ``manifest.json``.
        level: ``size``: every file is there, with its size. ``hash``: and with its SHA-256.
            ``records``: and the format's own checksums, record counts, labels and class counts
            hold. ``decode``: and every image decodes in full.
        threads: shards looked at at the same time.
        progress: told the bytes of each shard when it is done.

    Raises:
        DatasetError: there is no intact manifest to check against.
    """
    manifest = read_manifest(out)
    shards = [
        _Shard(split, shard["records"], tuple(shard["files"]))
        for split, content in manifest["splits"].items()
        for shard in content["shards"]
    ]
    problems = [*_check_accounts(manifest), *_check_strangers(out, manifest)]
    classes: dict[str, Counter[int]] = {split: Counter() for split in manifest["splits"]}

    def check(shard: _Shard) -> _Result:
        return _check_shard(out, manifest, shard, level)

    with ThreadPoolExecutor(threads) as pool:
        for shard, result in zip(shards, pool.map(check, shards), strict=True):
            problems += result.problems
            classes[shard.split] += result.classes
            if progress is not None:
                progress(sum(file["bytes"] for file in shard.files))
    if level in ("records", "decode") and not problems:
        problems += _check_class_counts(manifest, classes)
    return Verified(
        files=sum(len(shard.files) for shard in shards),
        bytes=sum(file["bytes"] for shard in shards for file in shard.files),
        records=sum(shard.records for shard in shards),
        problems=tuple(problems),
    )


def _check_shard(out: Path, manifest: dict[str, Any], shard: _Shard, level: Level) -> _Result:
    problems = [
        Problem(file["path"], what)
        for file in shard.files
        if (what := _check_file(out / file["path"], file, hashed=level != "size"))
    ]
    classes: Counter[int] = Counter()
    if level in ("records", "decode") and not problems:
        try:
            for label, what in _read_shard(out, manifest, shard, decode=level == "decode"):
                classes[label] += 1
                if what:
                    problems.append(Problem(shard.files[0]["path"], what))
        except SinkError as error:
            problems.append(Problem(shard.files[0]["path"], str(error)))
        if not problems and classes.total() != shard.records:
            what = f"holds {classes.total()} records, the manifest says {shard.records}"
            problems.append(Problem(shard.files[0]["path"], what))
    return _Result(problems, classes)


def _check_file(path: Path, expected: dict[str, Any], *, hashed: bool) -> str | None:
    try:
        size = path.stat().st_size
        if size != expected["bytes"]:
            return f"has {size} bytes, the manifest says {expected['bytes']}"
        if hashed and file_sha256(path) != expected["sha256"]:
            return "its SHA-256 is not the manifest's: it was damaged or changed"
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return None


def _read_shard(
    out: Path, manifest: dict[str, Any], shard: _Shard, *, decode: bool
) -> Iterator[tuple[int, str | None]]:
    """The class index of every record, and what is wrong with it, if anything."""
    sink = load_sink(manifest["sink"]["name"])
    classes: Sequence[Sequence[str]] = manifest["classes"]
    recipe = Recipe(check="pixels", max_pixels=manifest["image"]["max_pixels"])
    for number, example in enumerate(sink.read([out / file["path"] for file in shard.files])):
        label = example.class_index
        what = None
        if not 0 <= label < len(classes) or example.synset != classes[label][0]:
            what = f"record {number}: label {label} and class {example.synset!r} do not agree"
        elif decode:
            try:
                prepare(example.encoded, recipe)
            except ImageError as error:
                what = f"record {number} ({printable(example.filename)}): {error}"
        yield label, what


def _check_class_counts(
    manifest: dict[str, Any], classes: dict[str, Counter[int]]
) -> Iterator[Problem]:
    for split, found in classes.items():
        expected = {
            int(label): count for label, count in manifest["splits"][split]["class_records"].items()
        }
        if dict(found) != expected:
            yield Problem(NAME, f"{split}: its records by class are not what the shards hold")


def _check_accounts(manifest: dict[str, Any]) -> Iterator[Problem]:
    """Every image of the input is a record or a rejection."""
    for name, split in manifest["splits"].items():
        known = split["records"] + len(split["rejected"])
        images = manifest["input"][name]["images"]
        if not known == split["images_found"] == images:
            what = f"{name}: {known} records and rejected images, but the input had {images}"
            yield Problem(NAME, what)


def _check_strangers(out: Path, manifest: dict[str, Any]) -> Iterator[Problem]:
    """Shards that are not the data set's, but that readers would take in."""
    for name, split in manifest["splits"].items():
        known = {out / file["path"] for shard in split["shards"] for file in shard["files"]}
        for directory in sorted({path.parent for path in known}):
            for path in sorted(set(directory.glob(f"{name}-*-of-*")) - known):
                what = "is not in the manifest, but readers would take it in; move it away"
                yield Problem(str(path.relative_to(out)), what)
