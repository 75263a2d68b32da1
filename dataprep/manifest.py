"""What a finished data set says about itself: ``manifest.json``, written last.

It holds no time, host name or path of the machine that made it, so the same input and options
give the same manifest, byte for byte. Its schema is ``dataprep_schemas/manifest.schema.json``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dataprep.assembly.commit import CommitRecord
from dataprep.errors import DatasetError

FORMAT = "dataprep-manifest-1"
NAME = "manifest.json"


def make_manifest(
    identity: Mapping[str, object],
    classes: Sequence[tuple[str, str]],
    records: Iterable[CommitRecord],
    ignored: Mapping[str, Sequence[Mapping[str, str]]],
) -> dict[str, Any]:
    """Assemble the manifest.

    Args:
        identity: everything that shaped the bytes; see `dataprep.assembly.job`.
        classes: (identifier, name), position = 0-based class index.
        records: the commit record of every shard, by split and number.
        ignored: what the scan left out, by split.
    """
    by_split: dict[str, list[CommitRecord]] = {}
    for record in records:
        by_split.setdefault(record.split, []).append(record)
    body: dict[str, Any] = {
        "format": FORMAT,
        **identity,
        "classes": [list(entry) for entry in classes],
        "splits": {
            split: _split(found, ignored.get(split, ())) for split, found in by_split.items()
        },
    }
    return {**body, "sha256": _digest(body)}


def read_manifest(out: Path) -> dict[str, Any]:
    """Read and check a manifest: JSON, schema, and its own hash.

    Raises:
        DatasetError: it is absent (nothing is sealed here) or not intact.
    """
    path = out / NAME
    try:
        manifest: dict[str, Any] = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise DatasetError(
            f"{out}: no {NAME} here, so no sealed data set; "
            "`dataprep status` tells how far a run has come"
        ) from None
    except (ValueError, OSError) as error:
        raise DatasetError(f"{path} cannot be read: {error}; make the data set again") from error
    _check_schema(manifest, path)
    body = {key: value for key, value in manifest.items() if key != "sha256"}
    if _digest(body) != manifest["sha256"]:
        raise DatasetError(f"{path} was changed after it was sealed: its hash does not match")
    return manifest


def _split(records: Sequence[CommitRecord], ignored: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    counts = [record.records for record in records]
    return {
        "images_found": sum(len(record.rejected) for record in records) + sum(counts),
        "records": sum(counts),
        "bytes": sum(record.total_bytes for record in records),
        "records_per_shard": [min(counts), max(counts)],
        "class_spread": _class_spread(records),
        "class_records": _class_totals(records),
        "shards": [
            {"records": record.records, "files": [asdict(file) for file in record.files]}
            for record in records
        ],
        "rejected": [
            {"shard": record.number, **asdict(image)}
            for record in records
            for image in record.rejected
        ],
        "noted": [
            {"shard": record.number, **asdict(image)}
            for record in records
            for image in record.noted
        ],
        "ignored": list(ignored),
    }


def _class_totals(records: Sequence[CommitRecord]) -> dict[str, int]:
    totals: dict[int, int] = {}
    for record in records:
        for label, count in record.classes.items():
            totals[label] = totals.get(label, 0) + count
    return {str(label): totals[label] for label in sorted(totals)}


def _class_spread(records: Sequence[CommitRecord]) -> int:
    """The largest difference of any class's count between any two shards."""
    labels = {label for record in records for label in record.classes}
    spreads = (
        max(counts) - min(counts)
        for counts in ([record.classes.get(label, 0) for record in records] for label in labels)
    )
    return max(spreads, default=0)


def _digest(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _check_schema(manifest: object, path: Path) -> None:
    # Imported here because only those who read a manifest need it.
    import jsonschema

    from dataprep_schemas import manifest_schema

    try:
        jsonschema.validate(manifest, manifest_schema())
    except jsonschema.ValidationError as error:
        raise DatasetError(f"{path}: {error.json_path}: {error.message}") from error
