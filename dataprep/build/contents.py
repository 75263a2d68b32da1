"""What the shards of a split hold, added up from their commit records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dataprep.build.commit import CommitRecord, CommittedFile
from dataprep.images import Statistics


@dataclass(frozen=True, slots=True)
class Counted:
    """What the table of records says of a split.

    Attributes:
        totals: how many rows have each status, but for the records.
        classes: records by 0-based class index; a record with several labels counts for each.
        class_spread: the largest difference of any class's count between two shards.
        label_set_spread: the same of any set of labels that records have together; 0 where they
            have one each.
    """

    totals: Mapping[str, int]
    classes: Mapping[int, int]
    class_spread: int
    label_set_spread: int


def describe_split(
    records: Sequence[CommitRecord],
    files: Sequence[CommittedFile],
    counted: Counted,
    known: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """One split of the manifest.

    Args:
        records: the commit record of every shard of the split, by number.
        files: those made once for the whole split.
        counted: what the table of records says of it.
        known: statistics of the images from before, if none were collected now.
    """
    counts = [record.records for record in records]
    statistics = merged_statistics(records)
    return {
        "images_found": sum(counts) + counted.totals["rejected"],
        "records": sum(counts),
        **counted.totals,
        "bytes": sum(record.total_bytes for record in records),
        "records_per_shard": [min(counts), max(counts)],
        "class_spread": counted.class_spread,
        "label_set_spread": counted.label_set_spread,
        "class_records": {str(label): count for label, count in counted.classes.items()},
        "shards": [
            {"records": record.records, "files": [asdict(file) for file in record.files]}
            for record in records
        ],
        "files": [asdict(file) for file in files],
        "statistics": known if statistics is None else statistics.summary(),
    }


def merged_statistics(records: Sequence[CommitRecord]) -> Statistics | None:
    """The statistics of all shards together; None if none were collected."""
    collected = [record.statistics for record in records if record.statistics is not None]
    if not collected:
        return None
    merged = Statistics()
    for statistics in collected:
        merged.merge(Statistics.from_json(statistics))
    return merged
