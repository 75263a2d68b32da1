"""What others have packed: every form gives the same set, and what is wrong is named."""

from __future__ import annotations

import base64
import io
import json
import shutil
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from pyarrow import parquet

import dataprep
from dataprep.datasets.base import Found
from dataprep.datasets.reading import read_image
from dataprep.datasets.shards import layout
from dataprep.datasets.shards.dataset import Shards
from dataprep.datasets.shards.fields import label_text, name_classes
from dataprep.datasets.shards.layout import splits_of
from dataprep.errors import RejectedError, SourceError, UsageError
from dataprep.formats import recordio
from dataprep.formats.mds import mds_samples
from dataprep.formats.parquet.listing import NotInPlaceError, places_of
from dataprep.formats.samples import varint
from dataprep.rows import Scanned
from tests.conftest import everyday, hashes
from tests.datasets.packing import (
    CLASSES,
    WRITERS,
    example_of,
    ones,
    records_of,
    samples_of,
    table_of,
    tar_of,
    write_folders,
    write_parquet,
)
from tests.fuzz.raw_readers import picture

IMAGES = ones()
# By MDSWriter of mosaicml-streaming 0.13.0: columns image (bytes), label (int), more (json), name
# (str) and size (uint16); Pillow's PNGs of 2 x 2 grey pixels, 0 and 100.
MDS_INDEX = """{"shards": [{"column_encodings": ["bytes", "int", "json", "str", "uint16"],
"column_names": ["image", "label", "more", "name", "size"], "column_sizes": [null, 8, null, null, 2],
"compression": null, "format": "mds", "hashes": [], "raw_data": {"basename": "shard.00000.mds",
"bytes": 479, "hashes": {}}, "samples": 2, "size_limit": 16777216, "version": 2, "zip_data": null}],
"version": 2}"""  # noqa: E501  # as it is written
MDS = base64.b64decode(
    "AgAAAA8BAAB3AQAA3wEAAHsiY29sdW1uX2VuY29kaW5ncyI6IFsiYnl0ZXMiLCAiaW50IiwgImpzb24iLCAic3RyIiwg"
    "InVpbnQxNiJdLCAiY29sdW1uX25hbWVzIjogWyJpbWFnZSIsICJsYWJlbCIsICJtb3JlIiwgIm5hbWUiLCAic2l6ZSJd"
    "LCAiY29sdW1uX3NpemVzIjogW251bGwsIDgsIG51bGwsIG51bGwsIDJdLCAiY29tcHJlc3Npb24iOiBudWxsLCAiZm9y"
    "bWF0IjogIm1kcyIsICJoYXNoZXMiOiBbXSwgInNpemVfbGltaXQiOiAxNjc3NzIxNiwgInZlcnNpb24iOiAyfUcAAAAI"
    "AAAAAwAAAIlQTkcNChoKAAAADUlIRFIAAAACAAAAAggAAAAAV91S+AAAAA5JREFUeJxjYGBgYGAAAAAGAAFygpnqAAAA"
    "AElFTkSuQmCCAAAAAAAAAAB7ImEiOiAxfcOpMAAARwAAAAgAAAADAAAAiVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAAA"
    "AABX3VL4AAAADklEQVR4nGNMYWBiYAAAAgYAaM2E+c4AAAAASUVORK5CYIIBAAAAAAAAAHsiYSI6IDF9w6kxBwA="
)


def prepared(raw: Path, out: Path, **options: Any) -> Any:
    return dataprep.prepare("shards", raw=raw, out=out, **options)


def shards_in(out: Path) -> Mapping[str, str]:
    return {name: one for name, one in hashes(out).items() if name.startswith("train/")}


def scanned(raw: Path, **options: str) -> tuple[list[Scanned], Found]:
    dataset = Shards(**options)
    found = dataset.find(raw, None)
    return [dataset.scan(raw, found, unit) for unit in found.units], found


@pytest.fixture(scope="module")
def from_folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("folders")
    write_folders(place / "raw", IMAGES)
    out = place / "out"
    dataprep.prepare("folder", raw=place / "raw", out=out, num_shards=3)
    return out


@pytest.mark.parametrize(
    "form", everyday(["webdataset.tar.gz", "parquet", "tfrecord zlib", "mds snappy"], [*WRITERS])
)
def test_every_form_of_the_same_images_gives_the_same_bytes(
    form: str, from_folders: Path, tmp_path: Path
) -> None:
    raw, out = tmp_path / "raw", tmp_path / "out"
    raw.mkdir()
    WRITERS[form](raw, IMAGES)
    (tmp_path / "classes.txt").write_text("\n".join(CLASSES))
    prepared(raw, out, num_shards=3, classes=tmp_path / "classes.txt")
    assert shards_in(out) == shards_in(from_folders)
    assert not list((out / ".dataprep" / "index").glob("*.images"))  # they went with the seal


@pytest.mark.parametrize(
    "form", everyday(["compressed parquet", "webdataset.tar.zst"], ["tfrecord gzip", "mds bz2"])
)
def test_copied_images_are_copied_anew_where_a_sealed_shard_is_gone(
    form: str, tmp_path: Path
) -> None:
    raw, out = tmp_path / "raw", tmp_path / "out"
    raw.mkdir()
    WRITERS[form](raw, IMAGES)
    prepared(raw, out, num_shards=2)
    before = hashes(out)
    with pytest.MonkeyPatch.context() as full:  # there is nothing to do, and so nothing to copy
        full.setattr("shutil.disk_usage", lambda _: shutil._ntuple_diskusage(100, 100, 0))
        prepared(raw, out, num_shards=2)
    (out / "train" / "train-00001-of-00002").unlink()
    prepared(raw, out, num_shards=2)
    assert hashes(out) == before


def test_copies_that_the_disk_has_no_room_for_are_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    WRITERS["compressed parquet"](tmp_path, IMAGES)
    monkeypatch.setattr("shutil.disk_usage", lambda _: shutil._ntuple_diskusage(100, 99, 1))
    with pytest.raises(dataprep.errors.SinkError, match="have to be copied from compressed"):
        prepared(tmp_path, tmp_path.with_name("out"))


def test_a_look_copies_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    WRITERS["compressed parquet"](tmp_path, IMAGES)
    plan = dataprep.plan("shards", tmp_path, tmp_path.with_name("out"))
    assert sum(split.images for split in plan.splits.values()) == len(IMAGES)
    monkeypatch.setattr("dataprep.jobs.preparing.dry_run._MOST_COPIED", 1)
    with pytest.raises(UsageError, match="would have to be copied to look at them"):
        dataprep.plan("shards", tmp_path, tmp_path.with_name("out"))


def test_a_record_in_several_parts_is_put_together(tmp_path: Path) -> None:
    magic = recordio.MAGIC
    data = picture(1) + magic[: -len(picture(1)) % 4] + magic * 2 + b"end"
    head = recordio.HEADER.pack(2, 0.0, 7, 0) + struct.pack("<2f", 0, 1)
    whole = recordio.frame(recordio.HEADER.pack(2, 0.0, 8, 0) + struct.pack("<2f", 1, 1), picture())
    (tmp_path / "a.rec").write_bytes(b"".join([*recordio.frame(head, data), *whole]))
    ((scan,), _) = scanned(tmp_path)
    first, second = scan.rows["train"]
    assert first.packing[0] == "recordio"
    assert read_image(tmp_path, first) == data
    assert read_image(tmp_path, second) == picture()
    assert [row.labels for row in (first, second)] == [(1,), (0, 1)]
    assert [row.key for row in (first, second)] == ["a.rec/00000000", "a.rec/00000001"]


def test_mosaicml_s_own_bytes(tmp_path: Path) -> None:
    (tmp_path / "index.json").write_text(MDS_INDEX)
    (tmp_path / "shard.00000.mds").write_bytes(MDS)
    first, second = mds_samples(tmp_path, "shard.00000.mds")
    assert first.fields == {"label": 0, "more": {"a": 1}, "name": "é0", "size": 0}
    assert second.fields == {"label": 1, "more": {"a": 1}, "name": "é1", "size": 7}
    ((scan,), found) = scanned(tmp_path, attribute_fields="name")
    assert found.description == (
        "MDS: train (1 file), read in place; label from label, attributes name; left out: more "
        "(boxes come from COCO's JSON and image files: `dataprep folder --listing`)",
    )
    for number, row in enumerate(scan.rows["train"]):
        with Image.open(io.BytesIO(read_image(tmp_path, row))) as image:
            assert image.getextrema() == (100 * number,) * 2
    with pytest.raises(SourceError, match="size cannot be an attribute"):
        scanned(tmp_path, attribute_fields="size")


@pytest.mark.parametrize(
    "options",
    [
        {"data_page_version": "2.0"},
        {"data_page_version": "2.0", "nullable": False},
        {"nullable": False},
        {"data_page_size": 700, "write_batch_size": 1},
        {"write_page_checksum": True},
    ],
    ids=str,
)
def test_plain_pages_are_read_in_place(options: Mapping[str, Any], tmp_path: Path) -> None:
    write_parquet(tmp_path, IMAGES, **options)
    name = "train-00000-of-00001.parquet"
    data = (tmp_path / name).read_bytes()
    places = list(places_of(tmp_path, name, "image.bytes"))
    assert [data[at : at + size] for at, size in places] == [one.data for one in IMAGES]


@pytest.mark.parametrize(
    "options", [{"compression": "gzip"}, {"use_dictionary": ["image.bytes"]}], ids=str
)
def test_other_pages_are_not(options: Mapping[str, Any], tmp_path: Path) -> None:
    write_parquet(tmp_path, IMAGES, **options)
    with pytest.raises(NotInPlaceError):
        list(places_of(tmp_path, "train-00000-of-00001.parquet", "image.bytes"))


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=30), st.integers(1, 9))
def test_places_are_those_of_pyarrow(
    tmp_path_factory: pytest.TempPathFactory, values: list[bytes], group: int
) -> None:
    path = tmp_path_factory.mktemp("parquet") / "a.parquet"
    plain = {"compression": "none", "use_dictionary": False}
    parquet.write_table(pa.table({"image": values}), path, row_group_size=group, **plain)
    data = path.read_bytes()
    found = [data[at : at + size] for at, size in places_of(path.parent, path.name, "image")]
    assert found == values


def test_a_missing_image_is_counted_and_the_others_are_copied(tmp_path: Path) -> None:
    table = table_of(IMAGES)
    rows = table["image"].to_pylist()
    rows[3] = None
    rows[4] = {"bytes": None, "path": "somewhere/else.jpg"}
    table = table.set_column(0, table.schema.field(0), pa.array(rows, table.schema.field(0).type))
    raw = tmp_path / "raw"
    raw.mkdir()
    plain = {"compression": "none", "use_dictionary": False}
    parquet.write_table(table, raw / "train.parquet", **plain)
    with pytest.raises(RejectedError, match="2 images listed but not there"):
        prepared(raw, tmp_path / "out")
    made = prepared(raw, tmp_path / "out", max_bad=2)
    assert made.manifest.totals.records == len(IMAGES) - 2


def webdataset(raw: Path, members: Mapping[str, bytes]) -> Path:
    raw.mkdir(exist_ok=True)
    (raw / "a.tar").write_bytes(tar_of(members))
    return raw


def test_what_is_no_whole_sample_is_counted_and_named(tmp_path: Path) -> None:
    image = picture()
    members = {
        "a.jpg": image,
        "a.cls": b"0",
        "b.jpg": image,
        "c.cls": b"1",
        "d.jpg": image,
        "d.png": picture(1, "PNG"),
        "d.cls": b"1",
        "e.jpg": image,
        "e.cls": b"1",
        "a.JPG": image,
        "a.CLS": b"1",
        "f.jpg": image,
        "f.pyd": b"cos\nsystem\n(S'touch pwned'\ntR.",
        "f.cls": b"1",
    }
    more = dict(samples_of(ones(9)))
    ((scan,), _) = scanned(webdataset(tmp_path, {**more, **members}))
    assert [row.key for row in scan.rows["train"]][9:] == ["a.jpg", "e.jpg", "a.JPG", "f.jpg"]
    assert {one.name for one in scan.unmatched} == {"b.jpg", "c", "d.jpg"}
    assert dict(scan.counts) == {
        "samples without a label": 1,
        "samples without an image": 1,
        "samples of several images": 1,
    }


def test_a_key_that_comes_again_is_counted(tmp_path: Path) -> None:
    again = [*IMAGES[:3], IMAGES[0]]
    half = [tar_of(samples_of(some)) for some in (again[:3], again[3:])]
    (tmp_path / "a.tar").write_bytes(half[0][: half[0].rindex(b"ustar") // 512 * 512 + 1024])
    members = samples_of(IMAGES[:3])
    stream = tar_of({**members, "x.txt": b"between"})
    end = len(stream.rstrip(b"\0")) // 512 * 512 + 512
    (tmp_path / "a.tar").write_bytes(stream[:end] + half[1])
    ((scan,), _) = scanned(tmp_path)
    assert scan.counts["samples of a key that another one has"] == 1
    assert len(scan.rows["train"]) == 3


ONE = picture()


@pytest.mark.parametrize(
    ("members", "options", "said"),
    [
        ({"a.jpg": ONE}, {}, "none of .* looks like the label; name it with --label_field"),
        (
            {"a.jpg": ONE, "a.cls": b"0", "a.json": b'{"label": 1}'},
            {},
            r"cls, json\.label could be the label; name it with --label_field",
        ),
        (
            {"a.jpg": ONE, "a.cls": b"0"},
            {"label_field": "json.label"},
            r"no field json\.label; it has cls; name one of them with --label_field",
        ),
        (
            {"a.jpg": ONE, "a.seg.png": picture(1, "PNG"), "a.cls": b"0"},
            {},
            r"several images, jpg, seg\.png; name the one that is to be stored with --image_field",
        ),
        (
            {"a.jpg": ONE, "a.json": b'{"label": 0, "x.": 1, "x!": 2}'},
            {"attribute_fields": "json.x.,json.x!"},
            "letters and digits alone do not tell them apart",
        ),
    ],
)
def test_what_nothing_tells_is_asked_for(
    members: Mapping[str, bytes], options: dict[str, str], said: str, tmp_path: Path
) -> None:
    with pytest.raises(SourceError, match=said):
        scanned(webdataset(tmp_path, members), **options)


def test_one_image_of_several_is_chosen(tmp_path: Path) -> None:
    members = {"a.jpg": ONE, "a.seg.png": picture(1, "PNG"), "a.cls": b"0"}
    ((scan,), _) = scanned(webdataset(tmp_path, members), image_field="jpg")
    assert [row.key for row in scan.rows["train"]] == ["a.jpg"]


def test_of_a_shard_compressed_and_not_one_is_taken(tmp_path: Path) -> None:
    WRITERS["mds zstd"](tmp_path, IMAGES)
    ((packed,), found) = scanned(tmp_path)
    assert packed.copy is not None
    assert found.description[0].startswith("MDS: train (1 file), compressed")
    with (tmp_path / "copy").open("w+b") as file:
        before = packed.copy(file)
    (tmp_path / "train" / "shard.00000.mds").write_bytes((tmp_path / "copy").read_bytes())
    ((plain,), found) = scanned(tmp_path, key_field="number")
    assert found.description[0].startswith("MDS: train (1 file), read in place")
    assert len(plain.rows["train"]) == len(before.rows["train"]) == len(IMAGES)
    ((again,), _) = scanned(tmp_path, key_field="number", files="*.zstd")
    assert again.copy is not None
    with (tmp_path / "copy").open("w+b") as file:
        keys = [row.key for row in again.copy(file).rows["train"]]
    assert keys == [row.key for row in plain.rows["train"]]


def test_a_compression_that_nothing_reads_is_named(tmp_path: Path) -> None:
    WRITERS["mds zstd"](tmp_path, IMAGES)
    index = tmp_path / "train" / "index.json"
    index.write_text(index.read_text().replace('"compression": "zstd"', '"compression": "lz4:9"'))
    with pytest.raises(SourceError, match=r"mds\.zstd is compressed by lz4:9, as index\.json says"):
        scanned(tmp_path)


@pytest.mark.parametrize("form", ["tfrecord gzip", "mds zstd", "mds snappy", "webdataset.tar.zst"])
def test_compressed_shards_that_are_cut_off_are_refused(form: str, tmp_path: Path) -> None:
    WRITERS[form](tmp_path, IMAGES)
    files = [it for it in sorted(tmp_path.rglob("*")) if it.is_file() and it.suffix != ".json"]
    path = files[0]
    ((first, *_), _) = scanned(tmp_path)
    whole = path.read_bytes()
    for size in (len(whole) - 1, len(whole) // 2):
        path.write_bytes(whole[:size])
        assert first.copy is not None
        with (tmp_path / "copy").open("w+b") as file, pytest.raises(SourceError, match=r"again$"):
            first.copy(file)


def test_files_of_several_kinds_are_chosen_from(tmp_path: Path) -> None:
    WRITERS["webdataset"](tmp_path, IMAGES)
    WRITERS["parquet"](tmp_path, IMAGES)
    with pytest.raises(SourceError, match="found 2 WebDataset files, 1 Parquet file together"):
        scanned(tmp_path)
    _, found = scanned(tmp_path, files="*.tar")
    assert found.description[0].startswith("WebDataset: train (2 files), read in place")


def test_no_image_file_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_folders(tmp_path, IMAGES)
    monkeypatch.setattr(layout, "_kind_of", lambda _, path: pytest.fail(path))
    with pytest.raises(SourceError, match="no shards"):
        scanned(tmp_path)


@pytest.mark.parametrize("data", [b"\x80" * 1000, b"\xff" * 11], ids=["zeros", "ones"])
def test_a_number_without_an_end_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="a number without an end"):
        varint(data, 0)


def test_a_finished_set_is_refused(from_folders: Path) -> None:
    with pytest.raises(SourceError, match="is a finished data set; make another format of it"):
        scanned(from_folders)


@pytest.mark.parametrize("name", ["notes.txt", "a.mds.zstd", ".hidden.tar"])
def test_where_there_are_none_that_is_said(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(tar_of(samples_of(IMAGES)) if name[0] == "." else b"text")
    with pytest.raises(SourceError, match=r"no shards in .*; expected WebDataset, Parquet"):
        scanned(tmp_path)


def test_splits_are_told_by_names() -> None:
    files = ["imagenet1k-train-0000.tar", "data/validation-00000-of-00014.parquet", "test/x.rec"]
    assert splits_of(files, "train") == {
        "train": files[:1],
        "validation": files[1:2],
        "test": files[2:],
    }
    assert splits_of(["latest.tar"], "all") == {"all": ["latest.tar"]}
    with pytest.raises(SourceError, match="no split in the name, beside files of train"):
        splits_of(["a.tar", "train.tar"], "train")


def test_vectors_of_zeros_and_ones_are_several_labels(tmp_path: Path) -> None:
    flags = [(1, 0, 1), (0, 0, 0), (0, 1, 0)]
    examples = [
        example_of({"image/encoded": picture(number), "image/class/label": some})
        for number, some in enumerate(flags)
    ]
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / "train.tfrecord").write_bytes(records_of(examples))
    made = prepared(raw, tmp_path / "out", sink="webdataset")
    found = {record.key: record.labels for record in dataprep.open(tmp_path / "out")}
    assert len(made.manifest.classes) == 3
    assert sorted(found.values()) == [(), (0, 2), (1,)]


@pytest.mark.parametrize(
    ("label", "kind"),
    everyday(
        [("label", pa.int64()), ("labels", pa.float32())],
        [("label", pa.float32()), ("labels", pa.int64())],
    ),
)
def test_so_are_they_in_parquet_whatever_the_field_is_called(
    label: str, kind: pa.DataType, tmp_path: Path
) -> None:
    flags = [[int(at % 4 == number) for number in range(4)] for at in range(10)]
    images = [picture(number) for number in range(10)]
    raw = tmp_path / "raw"
    raw.mkdir()

    def write() -> None:
        column = pa.array(flags, pa.list_(kind))
        parquet.write_table(pa.table({"image": images, label: column}), raw / "train.parquet")

    write()
    prepared(raw, tmp_path / "out")
    found = {record.key: record.labels for record in dataprep.open(tmp_path / "out")}
    assert [found[key] for key in sorted(found)] == [(at % 4,) for at in range(10)]
    for wrong in ([0, -1, 1, 0], [0, 1, 2, 0], [0, 1]):
        flags[9] = wrong
        write()
        with pytest.raises(SourceError, match="expected 4 zeros and ones, one a class"):
            prepared(raw, tmp_path / "wrong")


def test_a_list_of_classes_has_each_once(tmp_path: Path) -> None:
    table = pa.table({"image": [picture(0), picture(1)], "labels": [["a", "b"], ["c", "c"]]})
    (tmp_path / "raw").mkdir()
    parquet.write_table(table, tmp_path / "raw" / "train.parquet")
    with pytest.raises(SourceError, match="expected each class once"):
        prepared(tmp_path / "raw", tmp_path / "out")


def test_numbers_in_words_are_ordered_as_numbers(tmp_path: Path) -> None:
    names = [str(number) for number in range(12)]
    table = pa.table({"image": [picture(number) for number in range(12)], "label": names})
    (tmp_path / "raw").mkdir()
    parquet.write_table(table, tmp_path / "raw" / "train.parquet")
    made = prepared(tmp_path / "raw", tmp_path / "out")
    assert [name for name, _ in made.manifest.classes] == names


def test_lists_of_classes_are_several_labels(tmp_path: Path) -> None:
    table = pa.table({"image": [one.data for one in IMAGES[:2]], "label": [["b", "a"], ["c"]]})
    parquet.write_table(table, tmp_path / "train.parquet")
    raw = tmp_path.rename(tmp_path.with_name("lists"))
    prepared(raw, tmp_path / "out")
    found = dataprep.open(tmp_path / "out")
    assert sorted(record.labels for record in found) == [(0, 1), (2,)]


def numbers(some: Sequence[int]) -> set[str]:
    return {label_text(number) for number in some}


@pytest.mark.parametrize(
    ("some", "base", "count", "first"),
    [([0, 5], "auto", 6, "0"), ([1, 2, 3], "auto", 3, "1"), ([3, 7], "0", 8, "0")],
)
def test_numbers_keep_their_places(some: list[int], base: str, count: int, first: str) -> None:
    found = name_classes(numbers(some), None, base)
    assert len(found.classes) == count
    assert found.classes[0] == (first, first)
    assert found.identifiers == {f"{number}\t": str(number) for number in some}


def test_nothing_is_guessed_where_not_all_numbers_occur() -> None:
    with pytest.raises(SourceError, match=r"numbers from 3 to 7, and not all occur.*--label_base"):
        name_classes(numbers([3, 7]), None, "auto")


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({"cat", "1\t"}, "some labels are numbers, others text: cat"),
        ({"0\ta\ta", "0\tb\tb"}, "label 0 is both . and ."),
        ({"0\t", "9\t"}, ""),
    ],
)
def test_labels_that_contradict_each_other(found: set[str], said: str) -> None:
    if said:
        with pytest.raises(SourceError, match=said):
            name_classes(found, None, "auto")
    with pytest.raises(SourceError, match=r"do not fit|numbers, others|both"):
        name_classes(found, None, "1")


def test_classes_of_one_name_are_told_apart() -> None:
    found = name_classes({"0\tcrane\tcrane", "1\tcrane\tcrane", "2\towl\towl"}, None, "auto")
    assert [identifier for identifier, _ in found.classes] == ["crane 0", "crane 1", "owl"]


@pytest.mark.parametrize("label", [-1, -1.0, float("nan"), None, "", "\n"])
def test_no_label(label: Any) -> None:
    assert label_text(label) == ""


@pytest.mark.parametrize("label", [1.5, "a\tb", -2, 10**7, "[0, 1]", "['a']", float("inf")])
def test_no_class(label: Any) -> None:
    with pytest.raises(SourceError, match="expected the name or number of a class"):
        label_text(label)


def test_a_list_of_classes_fixes_numbers_and_names(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    WRITERS["recordio"](raw, [one._replace(label=one.label + 1) for one in IMAGES])
    (tmp_path / "classes.txt").write_text("a\tanna\nb\tbert\nc\n")
    made = prepared(raw, tmp_path / "out", classes=tmp_path / "classes.txt")
    assert made.manifest.classes == (("a", "anna"), ("b", "bert"), ("c", "c"))
    (tmp_path / "classes.txt").write_text("x\nb\nc\n")
    again = prepared(raw, tmp_path / "out", classes=tmp_path / "classes.txt", overwrite=True)
    assert again.manifest.classes[0] == ("x", "x")
    (tmp_path / "classes.txt").write_text("a\nb\n")
    with pytest.raises(SourceError, match="not all occur"):
        prepared(raw, tmp_path / "other", classes=tmp_path / "classes.txt")


def test_a_set_of_shards_grows(tmp_path: Path) -> None:
    raw, out = tmp_path / "raw", tmp_path / "out"
    raw.mkdir()
    (raw / "train-0.tar").write_bytes(tar_of(samples_of(IMAGES[:6])))
    prepared(raw, out, num_shards=1)
    (raw / "train-1.tar").write_bytes(tar_of(samples_of(IMAGES[6:])))
    made = prepared(raw, out, append=True)
    assert made.manifest.totals.records == len(IMAGES)


def test_a_json_of_many_fields(tmp_path: Path) -> None:
    said = {"label": "cat", "age": 7, "note": None, "tags": ["a"], "deep": {"x": 1}}
    members = {"a.jpg": ONE, "a.json": json.dumps(said).encode()}
    ((scan,), _) = scanned(webdataset(tmp_path, members), attribute_fields="all")
    (row,) = scan.rows["train"]
    assert row.fields == {"age": 7}
    assert scan.classes == ["cat"]


def test_captions_are_kept(tmp_path: Path) -> None:
    raw = webdataset(tmp_path / "raw", {"a.jpg": ONE, "a.cls": b"0", "a.txt": b"a cat\n"})
    prepared(raw, tmp_path / "out", caption_field="txt")
    (record,) = dataprep.open(tmp_path / "out")
    assert record.fields["captions"] == ("a cat\n",)
