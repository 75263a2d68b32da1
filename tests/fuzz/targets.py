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
    "arrayrecord": 300,
    "hdf5": 200,
    "hdf5-arrays": 200,
    "hdf5-caffe": 200,
    "lmdb": 200,
    "lmdb-torch": 250,
    "parquet": 250,
    "recordio": 300,
    "tfrecord": 400,
    "webdataset": 200,
}
_LISTINGS = {"csv": 100, "jsonl": 100, "txt": 300, "parquet": 30}
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
        Target("tar", raw.tars, raw.read_tar, 1000, raw.sealed_tar),
        Target("nested tar", raw.nested_tars, raw.read_nested, 1500, raw.sealed_tar),
        Target("gzip", raw.gzips, partial(raw.read_archive, "a.tar.gz"), 4000),
        Target("zip", raw.zips, partial(raw.read_archive, "a.zip"), 10_000),
        Target("restart points", raw.restarts, raw.read_restarts, 1500),
        Target("jpeg", raw.jpegs, raw.read_picture, 6000, memory=64),
        Target("png", raw.pngs, raw.read_picture, 25_000, raw.sealed_png, memory=64),
        Target("other images", raw.others, raw.read_picture, 7000, memory=64),
        Target("images of extras", raw.extras, raw.read_picture, 1000, memory=64),
        Target("dicom", raw.dicoms, raw.read_dicom, 300, memory=64),
        Target(
            "boxes", lambda: [b"n00007846_64193.JPEG,0.1,0.2,0.5,1\n" * 3], raw.read_boxes, 4000
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
                200 if "parquet" in form else 700,
                {"webdataset": raw.sealed_tar, "tfrecord": others.sealed_lengths}.get(form),
            )
            for form in others.FORMS
        ),
        Target("coco", raw.coco, raw.read_coco, 300),
        Target("voc", raw.voc, raw.read_voc, 300),
        Target("classes", raw.class_lists, raw.read_class_list, 1000),
        Target("meeting", meeting.messages, meeting.meet, 3000, memory=64),
        Target(
            "documents",
            lambda: documents.documents(sets.sets()[0].split(raw.NEXT)[0]),
            documents.read_document,
            20_000,
            mutate=documents.mutated_document,
        ),
        Target("set", sets.sets, sets.read_set, 300, sets.sealed_set, sets.mutated_set),
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
