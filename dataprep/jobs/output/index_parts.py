"""The index on disk: a table a scan unit.

A part is reused while what it describes has not changed. ``UNIT.parquet`` is its table;
``UNIT.json``, written after it, is a state file with the table's hash and what identifies the raw
data that it was made from. The restart points of a gzip archive are in a file beside them.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

from dataprep.datasets import Dataset, Found, ScanUnit
from dataprep.errors import SourceError
from dataprep.rows import Scanned
from dataprep.system.durable_files import storage_error, whole
from dataprep.system.messages import printable
from dataprep.system.ownership import require_own
from dataprep.system.state_files import digest_of, file_sha256, is_intact, read_state, write_state
from dataprep_schemas.fields import Fields
from dataprep_schemas.state import IndexPart

_VERSION = 8  # raise it whenever the same scan would be kept in another way
# Of few rows, most of a table's time would go into setting up what saves room.
_FEW = 1 << 14
_PLAIN = {"compression": "lz4", "use_dictionary": False, "write_statistics": False}
_PACKED = {"compression": "zstd"}
_OWN = "choose an --index_dir of your own"
_GROUP = 1 << 17  # rows; what DuckDB gives to one of its threads


@dataclass(frozen=True)
class Scan:
    """What is scanned: a data set as it was found, and where its index goes; pickled for workers.

    Attributes:
        directory: of the index.
    """

    dataset: Dataset
    raw: Path
    found: Found
    directory: Path

    @cached_property
    def _made_of(self) -> str:
        """What all parts are made of: the options, and what is known of all units together."""
        dataset = self.dataset
        return digest_of([_VERSION, dataset.name, dict(dataset.config()), ascii(self.found)])

    def fingerprint(self, unit: ScanUnit) -> str:
        """What a part of the index is made of.

        Raises:
            SourceError: something the unit needs is gone or unreadable.
        """
        made_of = digest_of([self._made_of, ascii(unit)])
        return f"{made_of} {self.dataset.fingerprint(self.raw, unit)!a}"


@dataclass(frozen=True, slots=True)
class IndexParts:
    """The index: where it is, and what is kept of every unit."""

    directory: Path
    units: Mapping[ScanUnit, IndexPart]

    def tables(self) -> list[Path]:
        """Where the rows are."""
        return [self.directory / f"{unit.name}.parquet" for unit in self.units]

    def class_names(self) -> set[str]:
        """Those that scanning found, with images or without."""
        return {name for part in self.units.values() for name in part.classes}

    def without_copies(self) -> list[ScanUnit]:
        """Units whose copied images were deleted when a data set was sealed."""
        return [
            unit
            for unit, part in self.units.items()
            if part.copied and not (self.directory / unit.copy_name).exists()
        ]

    def delete_copies(self) -> None:
        """Delete the images that were copied, which nobody needs any more."""
        for unit, part in self.units.items():
            if part.copied:
                (self.directory / unit.copy_name).unlink(missing_ok=True)

    def statuses(self) -> Counter[str]:
        """Rows by status."""
        total: Counter[str] = Counter()
        for part in self.units.values():
            total.update(part.statuses)
        return total

    def digests(self) -> dict[str, str]:
        """What identifies every piece of the input, by the unit's name.

        The tables have the times of archives and files: one whose images were exchanged for others
        of the same sizes is another one. A folder that was only touched is not.
        """
        return {unit.name: part.table for unit, part in self.units.items()}


def shared_index_directory(place: Path, dataset: Dataset, raw: Path) -> Path:
    """Where in a shared place the index of a data set with its options is kept.

    Two runs with other options would otherwise take each other's parts away.

    Raises:
        DatasetError: somebody else may write there.
    """
    made_of = [dataset.name, dict(dataset.config()), ascii(raw)]  # which need not be UTF-8
    name = f"{dataset.name}-{digest_of(made_of)[:12]}"
    directory = place.absolute() / name
    # What is there is believed, and says which files are read. The place may be root's /tmp.
    require_own(place, _OWN, linked=True, root=True)
    directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    require_own(directory, _OWN, writers=0o022)
    return directory


def scan_into(scan: Scan, unit: ScanUnit) -> None:
    """Scan one unit and keep the result, which counts only when all of it is there.

    Raises:
        SourceError: see `Dataset.scan`; or a name is not UTF-8.
        SinkError: the index cannot be written.
    """
    import pyarrow as pa

    # Taken before the scan: a change during it must make the part stale, not valid.
    fingerprint, directory, known = scan.fingerprint(unit), scan.directory, scan.found.classes
    scanned, copied = scan.dataset.scan(scan.raw, scan.found, unit), 0
    if scanned.copy is not None:
        scanned, copied = _copied(directory / unit.copy_name, scanned.copy)
    classes = scanned.classes or () if known is None else [name for name, _ in known]
    try:
        with whole(directory / f"{unit.name}.parquet") as temporary:
            statuses = _write_tables(temporary, scanned, classes, scan.found.fields)
            sha256 = file_sha256(temporary)
            if scanned.restarts:
                (directory / unit.restarts_name).write_bytes(scanned.restarts)
        part = IndexPart(
            fingerprint=fingerprint,
            table=sha256,
            restarts=hashlib.sha256(scanned.restarts).hexdigest() if scanned.restarts else "",
            copied=copied,
            classes=tuple(classes) if known is None else (),
            statuses=dict(statuses),
            counts=dict(scanned.counts),
        )
        write_state(_state_path(directory, unit), part)
    except (OSError, pa.ArrowException) as error:
        raise storage_error(error, directory, f"indexing {unit.name}") from error


def _write_tables(
    path: Path, scanned: Scanned, classes: Sequence[str], fields: Fields
) -> Counter[str]:
    """Write what a unit holds as one table; returns how many rows have each status."""
    import pyarrow as pa
    from pyarrow import parquet

    from dataprep.tables.arrow import index_tables
    from dataprep_schemas.tables import schema_of

    few = sum(map(len, scanned.rows.values())) < _FEW and not scanned.tables
    memory, schema = pa.BufferOutputStream(), schema_of("index", fields)
    statuses: Counter[str] = Counter()
    packed = _PLAIN if few else _PACKED
    with parquet.ParquetWriter(memory if few else path, schema, **packed) as file:
        for table in index_tables(scanned, classes, fields):
            for entry in table.column("status").value_counts().to_pylist():
                statuses[entry["values"]] += entry["counts"]
            file.write_table(table, row_group_size=_GROUP)
    if few:
        path.write_bytes(memory.getvalue())
    return statuses


def _copied(final: Path, copy: Callable[[BinaryIO], Scanned]) -> tuple[Scanned, int]:
    """Copy images into a file of the index: what the unit holds, and how many bytes these are."""
    try:
        with whole(final) as temporary, temporary.open("w+b") as file:
            scanned = copy(file)
            # It is not hashed again by every run, so it must be what it is now.
            file.flush()
            os.fsync(file.fileno())
            return scanned, file.tell()
    except OSError as error:
        raise storage_error(error, final.parent, f"copying images to {final.name}") from error


def read_part(directory: Path, unit: ScanUnit) -> IndexPart | None:
    """What is kept of a unit; None unless all of it is there, to the last bit."""
    part = read_state(_state_path(directory, unit), IndexPart)
    if part is None:
        return None
    restarts = directory / unit.restarts_name
    # Parts are not flushed to the disk one by one, so a power cut may have torn one.
    whole = is_intact(directory / f"{unit.name}.parquet", part.table) and (
        not part.restarts or is_intact(restarts, part.restarts)
    )
    with suppress(FileNotFoundError):  # a seal deletes them
        whole = whole and (directory / unit.copy_name).stat().st_size == part.copied
    return part if whole else None


def has_part(directory: Path, unit: ScanUnit) -> bool:
    """Whether a scan has finished with the unit since `forget_part`; its part may be damaged."""
    return _state_path(directory, unit).exists()


def forget_part(directory: Path, unit: ScanUnit) -> None:
    """Believe nothing that was found of a unit."""
    _state_path(directory, unit).unlink(missing_ok=True)


def is_current(part: IndexPart | None, scan: Scan, unit: ScanUnit) -> bool:
    """Whether there is no need to scan a unit: it is unchanged, and no file was missing.

    A file that was missing may be there by now.
    """
    return (
        part is not None
        and part.fingerprint == scan.fingerprint(unit)
        and not part.statuses.get("missing")
    )


def check_unchanged(parts: IndexParts, scan: Scan) -> None:
    """What was read must be what was indexed: images cannot tell that they were exchanged.

    Raises:
        SourceError: a unit is not as it was when it was scanned.
    """
    for unit, part in parts.units.items():
        if part.fingerprint != scan.fingerprint(unit):
            raise SourceError(
                f"{printable(unit.container)}, or what is scanned with it, changed while it was "
                "read; nothing was sealed: leave the raw data alone and run again with "
                "--overwrite"
            )


def _state_path(directory: Path, unit: ScanUnit) -> Path:
    return directory / f"{unit.name}.json"
