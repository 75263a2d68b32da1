"""The index on disk: a table a scan unit, reused while what it describes has not changed.

``UNIT.parquet`` is the table; ``UNIT.json``, written after it, is a state file with the table's
hash and what identifies the raw data that it was made from. The restart points of a gzip archive
are in a file beside them.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from dataprep.build.request import Request
from dataprep.build.workspace import Workspace
from dataprep.datasets.base import Dataset, ScanUnit
from dataprep.errors import SourceError
from dataprep.system.durable_files import partial_path, storage_error
from dataprep.system.messages import printable
from dataprep.system.state_files import (
    file_sha256,
    is_intact,
    read_state,
    remove_unless_file,
    to_json,
    write_state,
)
from dataprep_schemas.tables import Kind

_VERSION = 3  # raise it whenever the same scan would be kept in another way
_GROUP = 1 << 17  # rows; what DuckDB gives to one of its threads


@dataclass(frozen=True, slots=True)
class IndexPart:
    """What is kept of a scan unit besides its rows.

    Attributes:
        fingerprint: the cheap identity of the raw input at the time of the scan.
        sha256: of the table.
        restarts: SHA-256 of the restart points; empty if there are none.
        classes: those that the unit knows of, with images or without; empty if the data set knows.
        statuses: rows by status.
        counts: what the scan counted.
    """

    fingerprint: str
    sha256: str
    restarts: str
    classes: tuple[str, ...]
    statuses: Mapping[str, int]
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class IndexParts:
    """The index: where it is, and what is kept of every unit."""

    directory: Path
    units: Mapping[ScanUnit, IndexPart]

    def tables(self) -> list[Path]:
        """Where the rows are."""
        return [_table_path(self.directory, unit) for unit in self.units]

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
        return {unit.name: part.sha256 for unit, part in self.units.items()}


def index_directory(request: Request, dataset: Dataset, workspace: Workspace) -> Path:
    """Where the index is kept; a shared place has a directory for each data set and its options.

    Two runs with other options would otherwise take each other's parts away.
    """
    if request.index_dir is None:
        return workspace.index
    made_of = [dataset.name, dict(dataset.config()), str(request.raw.absolute())]
    name = f"{dataset.name}-{hashlib.sha256(to_json(made_of)).hexdigest()[:12]}"
    directory = request.index_dir.absolute() / name
    directory.mkdir(exist_ok=True)
    return directory


def scan_into(directory: Path, dataset: Dataset, raw: Path, unit: ScanUnit) -> None:
    """Scan one unit and keep the result, which counts only when all of it is there.

    Raises:
        SourceError: see `Dataset.scan`; or a name is not UTF-8.
        SinkError: the index cannot be written.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import parquet

    from dataprep.index.tables import index_tables
    from dataprep_schemas.tables import schema_of

    # Taken before the scan: a change during it must make the part stale, not valid.
    fingerprint = _fingerprint(dataset, raw, unit)
    scanned = dataset.scan(raw, unit)
    known = dataset.classes()
    classes = scanned.classes or () if known is None else [name for name, _ in known]
    attributes = attribute_columns(dataset)
    statuses: Counter[str] = Counter()
    final = _table_path(directory, unit)
    temporary = partial_path(final)
    try:
        with parquet.ParquetWriter(
            temporary, schema_of("index", attributes), compression="zstd"
        ) as file:
            for table in index_tables(scanned, classes, attributes):
                for entry in pc.value_counts(table.column("status")).to_pylist():
                    statuses[entry["values"]] += entry["counts"]
                file.write_table(table, row_group_size=_GROUP)
        part = IndexPart(
            fingerprint=fingerprint,
            sha256=file_sha256(temporary),
            restarts=hashlib.sha256(scanned.restarts).hexdigest() if scanned.restarts else "",
            classes=tuple(classes) if known is None else (),
            statuses=dict(statuses),
            counts=dict(scanned.counts),
        )
        if scanned.restarts:
            _restarts_path(directory, unit).write_bytes(scanned.restarts)
        remove_unless_file(final)
        temporary.replace(final)
        write_state(_state_path(directory, unit), asdict(part))
    except (OSError, pa.ArrowException) as error:
        raise storage_error(error, directory, f"indexing {unit.name}") from error
    finally:
        temporary.unlink(missing_ok=True)


def read_part(directory: Path, unit: ScanUnit) -> IndexPart | None:
    """What is kept of a unit; None unless all of it is there, to the last bit."""
    state = read_state(_state_path(directory, unit))
    if state is None:
        return None
    try:
        part = IndexPart(**{**state, "classes": tuple(state["classes"])})
    except (TypeError, KeyError):
        return None  # of another version
    restarts = _restarts_path(directory, unit)
    # Parts are not flushed to the disk one by one, so a power cut may have torn one.
    whole = is_intact(_table_path(directory, unit), part.sha256) and (
        not part.restarts or is_intact(restarts, part.restarts)
    )
    return part if whole else None


def has_part(directory: Path, unit: ScanUnit) -> bool:
    """Whether a scan has finished with the unit since `forget_part`; its part may be damaged."""
    return _state_path(directory, unit).exists()


def forget_part(directory: Path, unit: ScanUnit) -> None:
    """Believe nothing that was found of a unit."""
    path = _state_path(directory, unit)
    remove_unless_file(path)
    path.unlink(missing_ok=True)


def is_current(part: IndexPart | None, dataset: Dataset, raw: Path, unit: ScanUnit) -> bool:
    """Whether there is no need to scan a unit: it is unchanged, and no file was missing.

    A file that was missing may be there by now.
    """
    return (
        part is not None
        and part.fingerprint == _fingerprint(dataset, raw, unit)
        and not part.statuses.get("missing")
    )


def check_unchanged(parts: IndexParts, dataset: Dataset, raw: Path) -> None:
    """What was read must be what was indexed: images cannot tell that they were exchanged.

    Raises:
        SourceError: a unit is not as it was when it was scanned.
    """
    for unit, part in parts.units.items():
        if part.fingerprint != _fingerprint(dataset, raw, unit):
            raise SourceError(
                f"{printable(unit.container)}, or a list of what is in it, changed while it "
                "was read; nothing was sealed: leave the raw data alone and run again with "
                "--overwrite"
            )


def attribute_columns(dataset: Dataset) -> tuple[tuple[str, Kind], ...]:
    """Name and kind of a data set's own columns."""
    return tuple((attribute.name, attribute.kind) for attribute in dataset.attributes)


def _table_path(directory: Path, unit: ScanUnit) -> Path:
    return directory / f"{unit.name}.parquet"


def _state_path(directory: Path, unit: ScanUnit) -> Path:
    return directory / f"{unit.name}.json"


def _restarts_path(directory: Path, unit: ScanUnit) -> Path:
    return directory / unit.restarts_name


def _fingerprint(dataset: Dataset, raw: Path, unit: ScanUnit) -> str:
    config = to_json(dict(dataset.config())).decode()
    return f"{_VERSION} {dataset.name} {config} {unit!r} {dataset.fingerprint(raw, unit)}"
