"""The index on disk: one file a scan unit, reused while what it describes has not changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from dataprep.assembly.workspace import partial_path, storage_error
from dataprep.index import Ignored, Scanned
from dataprep.sources.base import Dataset, ScanUnit

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Part:
    """What a part's first line says about the lines after it.

    Attributes:
        fingerprint: the cheap identity of the raw input at the time of the scan.
        digest: SHA-256 of the rows' lines.
        rows: how many there are.
        ignored: what the scan left out.
    """

    fingerprint: str
    digest: str
    rows: int
    ignored: tuple[Ignored, ...]


@dataclass(frozen=True, slots=True)
class IndexPart:
    """A scan unit and where its part is kept."""

    unit: ScanUnit
    path: Path


def scan_into(directory: Path, dataset: Dataset, raw: Path, unit: ScanUnit) -> None:
    """Scan one unit and keep the result, under its final name only when it is whole.

    Raises:
        SourceError: see `Dataset.scan`.
        SinkError: the index cannot be written.
    """
    # Taken before the scan: a change during it must make the part stale, not valid.
    fingerprint = _fingerprint(dataset, raw, unit)
    scanned: Scanned = dataset.scan(raw, unit)
    lines = [row.to_json().encode() + b"\n" for row in scanned.rows]
    header = {
        "fingerprint": fingerprint,
        "digest": hashlib.sha256(b"".join(lines)).hexdigest(),
        "rows": len(lines),
        "ignored": [asdict(entry) for entry in scanned.ignored],
    }
    final = part_path(directory, unit)
    temporary = partial_path(final)
    try:
        with temporary.open("xb") as file:
            file.write(json.dumps(header).encode() + b"\n")
            file.writelines(lines)
        temporary.replace(final)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise storage_error(error, directory, f"indexing {unit.name}") from error
        raise


def part_path(directory: Path, unit: ScanUnit) -> Path:
    """Where the part of a unit is kept."""
    return directory / f"{unit.name}.jsonl"


def is_current(kept: IndexPart, dataset: Dataset, raw: Path) -> bool:
    """Whether the unit's part is there, whole, and describes the raw input as it is now."""
    try:
        part = read_header(kept.path)
    except (OSError, ValueError, TypeError, KeyError):
        return False
    if part.fingerprint != _fingerprint(dataset, raw, kept.unit):
        return False
    # Parts are not flushed to the disk one by one, so a power cut may have torn one.
    return hashlib.sha256(b"".join(read_lines(kept.path))).hexdigest() == part.digest


def read_header(path: Path) -> Part:
    """The first line of a part."""
    with path.open("rb") as file:
        value = json.loads(file.readline())
    value["ignored"] = tuple(Ignored(**entry) for entry in value["ignored"])
    return Part(**value)


def read_lines(path: Path) -> Iterator[bytes]:
    """The rows of a part, as lines, in key order."""
    with path.open("rb") as file:
        file.readline()
        yield from file


def _fingerprint(dataset: Dataset, raw: Path, unit: ScanUnit) -> str:
    return f"{_VERSION} {dataset.name} {dataset.fingerprint(raw, unit)}"
