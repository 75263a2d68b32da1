"""What the shards of a split hold, added up from their commit records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from dataprep.assembly.commit import CommitRecord


def describe_split(
    records: Sequence[CommitRecord], ignored: Sequence[Mapping[str, str]]
) -> dict[str, Any]:
    """One split of the manifest.

    Args:
        records: the commit record of every shard of the split, by number.
        ignored: what the scan left out.
    """
    counts = [record.records for record in records]
    return {
        "images_found": sum(record.images for record in records),
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
