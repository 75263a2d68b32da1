"""How long does a report of ImageNet-21K take, in how much memory, and how large is the page?

``python -m benchmarks.large_report SMALL WORK`` makes a table of 14.2 million records in 21,841
classes below ``WORK`` (2 GB), with the manifest of ``SMALL``, any finished data set, grown to it.
There are no shards, so the page has captions where it would have thumbnails; what these take is
measured by reports of data sets that are there.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path
from typing import Any

import duckdb

from dataprep import report
from dataprep.sealed.manifest import NAME, read_manifest, seal_manifest
from dataprep.system.state_files import to_json
from dataprep.tables.records import NAME as RECORDS

_CLASSES = 21_841
_SPLITS = {"train": (14_150_000, 11_320), "validation": (50_000, 40)}  # images, shards


def make(small: Path, out: Path) -> None:
    """Write a manifest and a table of records; both are the same each time.

    Args:
        small: a finished data set of the same kind.
        out: a new directory.
    """
    out.mkdir(parents=True)
    names = [
        [f"n{number:08d}", f"made-up class {number}, which has a long name, and synonyms, as such"]
        for number in range(_CLASSES)
    ]
    splits: dict[str, Any] = {}
    for name, (images, shards) in _SPLITS.items():
        each = images // shards
        files = [
            {
                "records": each,
                "files": [
                    {
                        "path": f"{name}/{name}-{shard:05d}-of-{shards:05d}",
                        "bytes": each * 110_000,
                        "sha256": f"{shard:064x}",
                    }
                ],
            }
            for shard in range(shards)
        ]
        splits[name] = {
            **next(iter(read_manifest(small)["splits"].values())),
            "records": images,
            "shards": files,
            "records_per_shard": [each, each],
        }
    body = {key: value for key, value in read_manifest(small).items() if key != "sha256"}
    rows = sum(images for images, _ in _SPLITS.values())
    body |= {"classes": names, "splits": splits, "totals": {**body["totals"], "records": rows}}
    body["records_table"] = {**body["records_table"], "rows": rows}
    (out / NAME).write_bytes(to_json(seal_manifest(body)))
    _write_records(out / RECORDS)


def _write_records(path: Path) -> None:
    parts = " union all by name ".join(
        f"select '{name}' as split, {images // shards} as each, place from range({images}) t(place)"
        for name, (images, shards) in _SPLITS.items()
    )
    duckdb.execute(
        f"""
        copy (
            with numbered as (select *,
                                     md5(split || (place - (place % 20000 = 1)::int)) as hash,
                                     hash(place, split) / 18446744073709551616.0 as chance
                              from ({parts})),
            labelled as (select *, floor(pow(chance, 1.5) * {_CLASSES})::integer as label,
                                300 + (hash(place + 1) % 400)::integer as side from numbered)
            select format('n{{:08d}}/n{{:08d}}_{{}}.JPEG', label, label, place) as key, split,
                   if(place % 5000 = 1, 'repaired', 'stored') as status,
                   if(place % 5000 = 1, 'CMYK JPEG converted to RGB', null) as reason,
                   (place // each)::integer as shard, place % each as position, [label] as labels,
                   [format('n{{:08d}}', label)] as classes, 'JPEG' as format, side as height,
                   (side * 4 // 3)::integer as width, 3::tinyint as channels,
                   80000 + hash(place + 2) % 60000 as bytes, hash as xxh3, hash || hash as phash,
                   (40 + hash(place + 3) % 1600 / 10)::float as brightness,
                   (2.9 + hash(place + 4) % 90000 / 1000)::float as contrast,
                   (hash(place + 5) % 7501 / 10000)::float as flat,
                   null::float[][] as boxes, null::varchar as container
            from labelled order by split, shard, position
        ) to '{path}' (format parquet, compression zstd, row_group_size 65536)
        """
    )


def main() -> None:
    """Make the data set where it is not there, and report on it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("small", type=Path)
    parser.add_argument("work", type=Path)
    options = parser.parse_args()
    out = options.work / "large"
    if not out.exists():
        make(options.small, out)
    start = time.perf_counter()
    page = report(out)
    took = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    measured = {"seconds": round(took, 1), "memory": peak, "page": page.stat().st_size}
    print(json.dumps(measured))


if __name__ == "__main__":
    main()
