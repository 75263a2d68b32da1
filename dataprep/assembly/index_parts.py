"""The index on disk: one file a scan unit, reused while what it describes has not changed.

A part's first line is its header; then come the rows of each split, one line each, in key order,
and then what is listed but not there, or there but not listed. The restart points of a gzip
archive are in a file beside it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path

from dataprep.assembly.workspace import storage_error
from dataprep.canonical import to_json
from dataprep.durable_files import partial_path
from dataprep.index import Ignored, Row, Unmatched
from dataprep.sources.base import Dataset, ScanUnit

_VERSION = 2


@dataclass(frozen=True, slots=True)
class Section:
    """The rows of one split in a part, or the like: how many, and where behind the header."""

    rows: int
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Part:
    """What a part's first line says about the lines after it.

    Attributes:
        fingerprint: the cheap identity of the raw input at the time of the scan.
        digest: SHA-256 of all lines.
        restarts: SHA-256 of the restart points; empty if there are none.
        sections: where each split's rows are.
        classes: what the rows' labels are indices into; None: the data set's own classes.
        ignored: what the scan left out.
        unmatched: where is what is listed but not there, or there but not listed.
        missing: how many of these are listed but not there.
        counts: what the scan counted.
    """

    fingerprint: str
    digest: str
    restarts: str
    sections: Mapping[str, Section]
    classes: tuple[str, ...] | None
    ignored: tuple[Ignored, ...]
    unmatched: Section
    missing: int
    counts: Mapping[str, int]


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
    scanned = dataset.scan(raw, unit)
    lines, sections = _lines(scanned.rows)
    unmatched = b"".join(_unmatched_line(entry) for entry in scanned.unmatched)
    listed = Section(len(scanned.unmatched), len(lines), len(unmatched))
    lines += unmatched
    header = {
        "fingerprint": fingerprint,
        "digest": hashlib.sha256(lines).hexdigest(),
        "restarts": hashlib.sha256(scanned.restarts).hexdigest() if scanned.restarts else "",
        "sections": {split: asdict(section) for split, section in sections.items()},
        "classes": None if scanned.classes is None else list(scanned.classes),
        "ignored": [asdict(entry) for entry in scanned.ignored],
        "unmatched": asdict(listed),
        "missing": sum(entry.kind == "missing" for entry in scanned.unmatched),
        "counts": dict(scanned.counts),
    }
    try:
        if scanned.restarts:  # first: a part says that they are there
            _write(restarts_path(directory, unit), [scanned.restarts])
        _write(part_path(directory, unit), [json.dumps(header).encode() + b"\n", lines])
    except OSError as error:
        raise storage_error(error, directory, f"indexing {unit.name}") from error


def part_path(directory: Path, unit: ScanUnit) -> Path:
    """Where the part of a unit is kept."""
    return directory / f"{unit.name}.jsonl"


def restarts_path(directory: Path, unit: ScanUnit) -> Path:
    """Where the restart points of a unit that is a gzip archive are kept."""
    return directory / unit.restarts_name


def is_current(kept: IndexPart, dataset: Dataset, raw: Path) -> bool:
    """Whether there is no need to scan the unit.

    Its part is there, whole, and describes the raw input as it is now; and no file was missing,
    which may be there by now.
    """
    return is_unchanged(kept, dataset, raw) and not read_header(kept.path).missing


def is_unchanged(kept: IndexPart, dataset: Dataset, raw: Path) -> bool:
    """Whether the unit's part is there, whole, and describes the raw input as it is now."""
    try:
        part = read_header(kept.path)
    except (OSError, ValueError, TypeError, KeyError):
        return False
    if part.fingerprint != _fingerprint(dataset, raw, kept.unit):
        return False
    # Parts are not flushed to the disk one by one, so a power cut may have torn one.
    return _digest(kept.path, skip_header=True) == part.digest and (
        not part.restarts
        or _digest(restarts_path(kept.path.parent, kept.unit), skip_header=False) == part.restarts
    )


def read_header(path: Path) -> Part:
    """The first line of a part."""
    with path.open("rb") as file:
        value = json.loads(file.readline())
    classes = value["classes"]
    return Part(
        fingerprint=value["fingerprint"],
        digest=value["digest"],
        restarts=value["restarts"],
        sections={split: Section(**section) for split, section in value["sections"].items()},
        classes=None if classes is None else tuple(classes),
        ignored=tuple(Ignored(**entry) for entry in value["ignored"]),
        unmatched=Section(**value["unmatched"]),
        missing=value["missing"],
        counts=value["counts"],
    )


def read_lines(path: Path, split: str) -> Iterator[bytes]:
    """The rows of one split in a part, as lines, in key order; none if it has none of them."""
    section = read_header(path).sections.get(split)
    if section is not None:
        yield from _section_lines(path, section)


def read_unmatched(path: Path) -> Iterator[Unmatched]:
    """What a part's unit has listed but not there, or there but not listed."""
    for line in _section_lines(path, read_header(path).unmatched):
        yield Unmatched(*json.loads(line))


def _section_lines(path: Path, section: Section) -> Iterator[bytes]:
    with path.open("rb") as file:
        file.readline()
        file.seek(section.offset, 1)
        for _ in range(section.rows):
            yield file.readline()


def _unmatched_line(entry: Unmatched) -> bytes:
    return json.dumps(astuple(entry), separators=(",", ":")).encode() + b"\n"


def _lines(rows: Mapping[str, Sequence[Row]]) -> tuple[bytearray, dict[str, Section]]:
    """All rows as text, in one piece: an object a line would take as much memory again."""
    lines = bytearray()
    sections: dict[str, Section] = {}
    for split in sorted(rows):
        offset = len(lines)
        for row in rows[split]:
            lines += row.to_json().encode() + b"\n"
        if rows[split]:
            sections[split] = Section(len(rows[split]), offset, len(lines) - offset)
    return lines, sections


def _write(final: Path, chunks: Sequence[bytes | bytearray]) -> None:
    temporary = partial_path(final)
    try:
        with temporary.open("xb") as file:
            file.writelines(chunks)
        temporary.replace(final)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _digest(path: Path, *, skip_header: bool) -> str:
    total = hashlib.sha256()
    try:
        with path.open("rb") as file:
            if skip_header:
                file.readline()
            while chunk := file.read(1 << 20):
                total.update(chunk)
    except FileNotFoundError:
        return ""
    return total.hexdigest()


def _fingerprint(dataset: Dataset, raw: Path, unit: ScanUnit) -> str:
    config = to_json(dict(dataset.config())).decode()
    return f"{_VERSION} {dataset.name} {config} {unit!r} {dataset.fingerprint(raw, unit)}"
