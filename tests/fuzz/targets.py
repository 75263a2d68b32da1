"""The table of what is fuzzed; another target is another row."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from dataprep.plugins import load_sink
from tests.fuzz import documents, meeting
from tests.fuzz import packed_readers as others
from tests.fuzz import raw_readers as raw
from tests.fuzz import set_readers as sets
from tests.fuzz.past import PAST
from tests.fuzz.runner import Target

CORPUS = Path(__file__).parent / "corpus"

_SINKS = {
    "arrayrecord": 150,
    "hdf5": 100,
    "hdf5-arrays": 100,
    "hdf5-caffe": 100,
    "lmdb": 100,
    "parquet": 125,
    "recordio": 150,
    "tfrecord": 200,
    "webdataset": 100,
}
_LISTINGS = {"csv": 50, "jsonl": 50, "txt": 150, "parquet": 15}
_SEALED = {
    "tfrecord": sets.sealed_records,
    "webdataset": raw.sealed_tar,
}


def kept(name: str) -> list[tuple[str, bytes]]:
    """What was found before, by name: files, and what is made by code."""
    files = sorted((CORPUS / name.replace(" ", "-")).glob("*"))
    made = PAST[name]() if name in PAST else {}
    return [*((file.name, file.read_bytes()) for file in files), *made.items()]


TARGETS = {
    target.name: target
    for target in (
        Target("tar", raw.tars, raw.read_tar, 500, raw.sealed_tar),
        Target("nested tar", raw.nested_tars, raw.read_nested, 750, raw.sealed_tar),
        Target("gzip", raw.gzips, partial(raw.read_archive, "a.tar.gz"), 2000),
        Target("zstd", raw.zstds, partial(raw.read_unpacked, "a.tar.zst"), 1000),
        Target("xz", raw.xzs, partial(raw.read_unpacked, "a.tar.xz"), 1000),
        Target("zip", raw.zips, partial(raw.read_archive, "a.zip"), 5000),
        Target("restart points", raw.restarts, raw.read_restarts, 750),
        Target("jpeg", raw.jpegs, raw.read_picture, 3000, memory=64),
        Target("png", raw.pngs, raw.read_picture, 12_500, raw.sealed_png, memory=64),
        Target("other images", raw.others, raw.read_picture, 3500, memory=64),
        Target("images of extras", raw.extras, raw.read_picture, 500, memory=64),
        Target("dicom", raw.dicoms, raw.read_dicom, 150, memory=64),
        Target(
            "boxes", lambda: [b"n00007846_64193.JPEG,0.1,0.2,0.5,1\n" * 3], raw.read_boxes, 2000
        ),
        *(
            Target(
                f"listing.{form}",
                partial(raw.listings, form),
                partial(raw.read_listing, form),
                count,
            )
            for form, count in _LISTINGS.items()
        ),
        *(
            Target(
                f"packed {form}",
                partial(others.packed, form),
                partial(others.read_packed, form),
                100 if "parquet" in form else 350,
                {"webdataset": raw.sealed_tar, "tfrecord": others.sealed_lengths}.get(form),
            )
            for form in others.FORMS
        ),
        Target("coco", raw.coco, raw.read_coco, 150),
        Target("voc", raw.voc, raw.read_voc, 150),
        Target("classes", raw.class_lists, raw.read_class_list, 500),
        Target("meeting", meeting.messages, meeting.meet, 1500, memory=64),
        Target(
            "documents",
            lambda: documents.documents(sets.sets()[0].split(raw.NEXT)[0]),
            documents.read_document,
            10_000,
            mutate=documents.mutated_document,
        ),
        Target("set", sets.sets, sets.read_set, 150, sets.sealed_set, sets.mutated_set),
        *(
            Target(
                name,
                partial(sets.shards, name),
                partial(sets.read_shard, name),
                count,
                _SEALED.get(name),
                isolated=load_sink(name).trusts_files,
            )
            for name, count in _SINKS.items()
        ),
    )
}
