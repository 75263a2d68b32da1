"""What the shards of a split hold, added up from their commit records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dataprep.assembly.commit import CommitRecord, CommittedFile
from dataprep.images import Statistics


@dataclass(frozen=True, slots=True)
class Inherited:
    """What is known of a split before its first shard is written, as it stands in the manifest.

    Attributes:
        ignored: what a scan left out.
        rejected: images that were rejected when the data set that is converted was made.
        noted: likewise, those that were repaired.
        statistics: likewise, of the images.
    """

    ignored: Sequence[Mapping[str, Any]] = ()
    rejected: Sequence[Mapping[str, Any]] = ()
    noted: Sequence[Mapping[str, Any]] = ()
    statistics: Mapping[str, Any] | None = None


def describe_split(
    records: Sequence[CommitRecord],
    files: Sequence[CommittedFile],
    inherited: Inherited,
) -> dict[str, Any]:
    """One split of the manifest.

    Args:
        records: the commit record of every shard of the split, by number.
        files: those made once for the whole split.
        inherited: what was known before the first shard was written.
    """
    counts = [record.records for record in records]
    statistics = merged_statistics(records)
    return {
        "images_found": sum(record.images for record in records) + len(inherited.rejected),
        "records": sum(counts),
        "bytes": sum(record.total_bytes for record in records),
        "records_per_shard": [min(counts), max(counts)],
        "class_spread": _spread([record.classes for record in records]),
        "label_set_spread": _spread([record.label_sets for record in records]),
        "class_records": _class_totals(records),
        "shards": [
            {"records": record.records, "files": [asdict(file) for file in record.files]}
            for record in records
        ],
        "files": [asdict(file) for file in files],
        "statistics": inherited.statistics if statistics is None else statistics.summary(),
        "rejected": [
            *inherited.rejected,
            *(
                {"shard": record.number, **asdict(image)}
                for record in records
                for image in record.rejected
            ),
        ],
        "noted": [
            *inherited.noted,
            *(
                {"shard": record.number, **asdict(image)}
                for record in records
                for image in record.noted
            ),
        ],
        "ignored": list(inherited.ignored),
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


def _class_totals(records: Sequence[CommitRecord]) -> dict[str, int]:
    totals: dict[int, int] = {}
    for record in records:
        for label, count in record.classes.items():
            totals[label] = totals.get(label, 0) + count
    return {str(label): totals[label] for label in sorted(totals)}


def _spread(shards: Sequence[Mapping[Any, int]]) -> int:
    """The largest difference of the count of anything between any two shards."""
    counted = {name for counts in shards for name in counts}
    spreads = (
        max(counts) - min(counts)
        for counts in ([shard.get(name, 0) for shard in shards] for name in counted)
    )
    return max(spreads, default=0)
