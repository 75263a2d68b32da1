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

import duckdb
from msgspec import structs

from dataprep import report
from dataprep.sealed.set import NAME, SealedSet
from dataprep.system.state_files import file_sha256, write_state
from dataprep.tables.records import NAME as RECORDS
from dataprep_schemas.manifest import File, Input, RecordsFile, Shard

_CLASSES = 21_841
_SPLITS = {"train": (14_150_000, 11_320), "validation": (50_000, 40)}  # images, shards


def make(small: Path, out: Path) -> None:
    """Write a manifest and a table of records; both are the same each time.

    Args:
        small: a finished data set of the same kind.
        out: a new directory.
    """
    out.mkdir(parents=True)
    names = tuple(
        (f"n{number:08d}", f"made-up class {number}, which has a long name, and synonyms, as such")
        for number in range(_CLASSES)
    )
    before = SealedSet.read(small).manifest
    splits = {}
    for name, (images, shards) in _SPLITS.items():
        each = images // shards
        made = tuple(
            Shard(
                each,
                (File(f"{name}/{name}-{at:05d}-of-{shards:05d}", each * 110_000, f"{at:064x}"),),
            )
            for at in range(shards)
        )
        splits[name] = structs.replace(
            next(iter(before.splits.values())),
            shards=made,
            records=images,
            records_per_shard=(each, each),
            rejected=0,
            images_found=images,
            bytes=sum(shard.bytes for shard in made),
        )
    rows = sum(images for images, _ in _SPLITS.values())
    _write_records(out / RECORDS)
    manifest = structs.replace(
        before,
        classes=names,
        splits=splits,
        num_shards={name: shards for name, (_, shards) in _SPLITS.items()},
        shuffle=dict.fromkeys(_SPLITS, "stratified"),
        input={name: Input(images, images, "0" * 32) for name, (images, _) in _SPLITS.items()},
        totals=structs.replace(before.totals, records=rows),
        records_table=RecordsFile(
            RECORDS, (out / RECORDS).stat().st_size, file_sha256(out / RECORDS), rows
        ),
    )
    write_state(out / NAME, manifest)


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
