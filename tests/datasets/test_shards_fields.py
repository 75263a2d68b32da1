"""What people really pack: labels and fields that are lost or wrong elsewhere in silence."""

from __future__ import annotations

import gzip
import json
import struct
import unicodedata
import zlib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import dataprep
from dataprep.datasets.lists import ClassList, one_form
from dataprep.datasets.shards.dataset import Shards
from dataprep.datasets.shards.fields import label_text, name_classes
from dataprep.datasets.shards.layout import find_files
from dataprep.errors import RejectedError, SourceError, UsageError
from dataprep.formats import recordio
from dataprep.formats.samples import LONGEST
from dataprep.rows import Scanned
from dataprep_schemas import example_pb2
from tests.conftest import everyday
from tests.datasets.packing import records_of, tar_of
from tests.fuzz.raw_readers import picture

NFC, NFD = (unicodedata.normalize(form, "café") for form in ("NFC", "NFD"))


def prepared(raw: Path, out: Path, **options: Any) -> Any:
    return dataprep.prepare("shards", raw=raw, out=out, **options)


def scanned(raw: Path, **options: Any) -> tuple[Scanned, str]:
    """What the last unit holds, and the line that tells what was found."""
    dataset = Shards(**options)
    found = dataset.find(raw, None)
    unit = found.units[-1]
    scan = dataset.scan(raw, found, unit)
    if scan.copy is not None:
        with (raw.parent / f"{raw.name}.copy").open("wb") as file:
            scan = scan.copy(file)
    return scan, found.description[0]


def labels_of(scan: Scanned) -> list[list[str]]:
    """What the labels of each image are called."""
    names = scan.classes or ()
    return [[names[label].rstrip("\t") for label in row.labels] for row in scan.rows["train"]]


def tar(raw: Path, members: Mapping[str, bytes], name: str = "a.tar") -> Path:
    raw.mkdir(exist_ok=True)
    mode = "w:gz" if name.endswith(".gz") else "w"
    (raw / name).write_bytes(tar_of(members, mode))
    return raw


def table(raw: Path, **columns: Any) -> Path:
    raw.mkdir(exist_ok=True)
    first = next(iter(columns.values()))
    columns = {"image": [picture(number) for number in range(len(first))], **columns}
    parquet.write_table(pa.table(columns), raw / "train.parquet")
    return raw


def example(number: int, **features: Sequence[int] | Sequence[float] | bytes) -> bytes:
    found = example_pb2.Example()
    found.features.feature["image/encoded"].bytes_list.value.append(picture(number))
    for name, value in features.items():
        feature = found.features.feature[name.replace("__", "/")]
        if isinstance(value, bytes):
            feature.bytes_list.value.append(value)
        elif any(isinstance(each, float) for each in value):
            feature.float_list.value.extend(value)
        else:
            feature.int64_list.SetInParent()
            feature.int64_list.value.extend(int(each) for each in value)
    return found.SerializeToString()


def tfrecord(raw: Path, examples: Sequence[bytes]) -> Path:
    raw.mkdir(exist_ok=True)
    (raw / "train.tfrecord").write_bytes(records_of(examples))
    return raw


def record(number: int, labels: Sequence[float], payload: bytes) -> bytes:
    """A record of RecordIO; of one label, that is in its header."""
    several = labels if len(labels) > 1 else ()
    header = recordio.HEADER.pack(len(several), 0 if several else labels[0], number, 0)
    return b"".join(recordio.frame(header + struct.pack(f"<{len(several)}f", *several), payload))


def test_records_of_no_image_leave_no_trace(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    images = [record(number, [float(number // 6)], picture(number)) for number in range(1, 13)]
    headers = [record(0, (5822654, 5908397), b""), record(13, (1, 7), b"")]
    (raw / "train.rec").write_bytes(b"".join([headers[0] * 20, *images, headers[1]]))
    made = prepared(raw, tmp_path / "out")
    assert [name for name, _ in made.manifest.classes] == ["0", "1", "2"]
    assert made.manifest.counts == {"records without an image, passed over": 21}


def test_what_is_refused_makes_no_class(tmp_path: Path) -> None:
    image = picture()
    members = {"a.jpg": image, "a.cls": b"0", "b.cls": b"7", "c.jpg": image, "c.png": picture(1)}
    members |= {"c.cls": b"8", "README.md": b"words", "d.jpg": image, "d.cls": b"-1"}
    scan, _ = scanned(tar(tmp_path / "raw", members), image_field="jpg")
    assert labels_of(scan) == [["0"], ["8"]]
    assert dict(scan.counts) == {
        "records without an image, passed over": 1,
        "samples without an image": 1,
        "samples whose label is -1 or nan, which is no class": 1,
    }


def test_the_first_image_may_come_late(tmp_path: Path) -> None:
    raw = tar(tmp_path / "tars", {f"{at}.json": b'{"label": 99}' for at in range(20)}, "a.tar")
    tar(raw, {"x.jpg": picture(), "x.cls": b"0"}, "b.tar")
    scan, said = scanned(raw)
    assert labels_of(scan) == [["0"]]
    assert said.endswith("label from cls")
    rows = [None] * 20 + [picture()] * 2
    parts, _ = scanned(table(tmp_path / "rows", image=pa.array(rows, pa.binary()), label=[1] * 22))
    assert labels_of(parts) == [["1"], ["1"]]
    empty = pa.table({"image": pa.array([], pa.binary()), "label": pa.array([], pa.int64())})
    parquet.write_table(empty, tmp_path / "rows" / "train-0.parquet")
    found = Shards().find(tmp_path / "rows", None)
    assert len(found.units) == 2
    with pytest.raises(SourceError, match="no images among the first samples; or choose"):
        scanned(tar(tmp_path / "none", {"a.cls": b"1"}))


def test_only_wanted_splits_are_looked_at(tmp_path: Path) -> None:
    raw = tar(tmp_path, {"x.jpg": picture()}, "test.tar")
    tar(raw, {"x.jpg": picture(), "x.cls": b"0"}, "train.tar")
    dataset = Shards()
    found = dataset.find(raw, ["train"])
    assert [unit.container for unit in found.units] == ["train.tar"]
    with pytest.raises(SourceError, match="with --label_field, or take the images without classes"):
        dataset.find(raw, None)


@pytest.mark.parametrize("name", everyday(["a.tar"], ["a.tar.gz"]))
def test_long_fields_are_read_up_to_a_limit_that_is_told(name: str, tmp_path: Path) -> None:
    texts = [b"short", b"x" * 13_000, b"y" * LONGEST, b"z" * (LONGEST + 1), "é".encode("latin1")]
    members: dict[str, bytes] = {}
    for number, text in enumerate(texts):
        members |= {f"{number}.cls": b"0", f"{number}.txt": text, f"{number}.jpg": picture(number)}
    raw = tar(tmp_path / "raw", members, name)
    with pytest.raises(RejectedError, match="2 images there but not listed, --max_bad allows 0"):
        prepared(raw, tmp_path / "out", caption_field="txt")
    made = prepared(raw, tmp_path / "out", caption_field="txt", max_bad=2)
    found = sorted(len(each.fields["captions"][0]) for each in dataprep.open(tmp_path / "out"))
    assert found == [5, 13_000, LONGEST]
    assert [*made.manifest.counts.items()] == [
        ("samples whose txt is damaged, or longer than 1.0 MB", 2)
    ]
    assert prepared(raw, tmp_path / "all").manifest.totals.records == len(texts)


def test_a_json_that_is_damaged_or_long_is_told_of_where_it_is_wanted(tmp_path: Path) -> None:
    members: dict[str, bytes] = {}
    said = [json.dumps({"age": 7, "exif": "x" * size}).encode() for size in (1, 90_000, LONGEST)]
    for number, text in enumerate([*said, b"{broken"]):
        members |= {f"{number}.json": text, f"{number}.cls": b"0", f"{number}.jpg": picture(number)}
    scan, _ = scanned(tar(tmp_path / "raw", members), attribute_fields="json.age")
    assert [row.fields for row in scan.rows["train"]] == [{"age": 7}] * 2
    assert [each.name for each in scan.unmatched] == ["2.jpg", "3.jpg"]
    assert len(scanned(tmp_path / "raw")[0].rows["train"]) == len(said) + 1


def test_long_features_are_read(tmp_path: Path) -> None:
    texts = [b"x" * 5000, b"y" * (LONGEST - 100), b"z" * (LONGEST + 1)]
    more = [0.5] * 2000
    examples = [
        example(number, text=text, label=[1], embedding=more) for number, text in enumerate(texts)
    ]
    scan, _ = scanned(tfrecord(tmp_path / "raw", examples), caption_field="text")
    assert [len(row.fields["captions"][0]) for row in scan.rows["train"]] == [5000, LONGEST - 100]
    assert [*scan.counts] == ["samples whose text is damaged, or longer than 1.0 MB"]


@pytest.mark.parametrize("name", ["label", "labels", "image__class__label"])
@pytest.mark.parametrize("first", [0, 20])
def test_labels_of_varying_length_are_lists(name: str, first: int, tmp_path: Path) -> None:
    lists = [[0]] * first + [[0], [0, 1], [2], []]
    examples = [example(number, **{name: labels}) for number, labels in enumerate(lists)]
    scan, _ = scanned(tfrecord(tmp_path / "raw", examples))
    assert labels_of(scan)[first:] == [["0"], ["0", "1"], ["2"], []]


def test_an_empty_list_is_no_label_where_others_are_one(tmp_path: Path) -> None:
    examples = [example(number, label=labels) for number, labels in enumerate([[0], [], [1]])]
    raw = tfrecord(tmp_path / "raw", examples)
    scan, _ = scanned(raw)
    assert (labels_of(scan), scan.counts) == ([["0"], ["1"]], {"samples without a label": 1})


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ([True, False, True], [["true"], ["false"], ["true"]]),
        ([[True, False], [False, True], [True, True]], [["0"], ["1"], ["0", "1"]]),
        (pa.array(["b", "a", None]).dictionary_encode(), [["b"], ["a"]]),
        (pa.array([[0, 1], [1, 2], [2, 0]], pa.list_(pa.int8(), 2)), [["0", "1"], ["1", "2"]]),
        ([2.0, 0.0, float("nan")], [["2"], ["0"]]),
        ([-1, 0, 1], [["0"], ["1"]]),
        (["a\r\n", "a", ""], [["a"], ["a"]]),
    ],
    ids=str,
)
def test_columns_of_labels(column: Any, expected: list[list[str]], tmp_path: Path) -> None:
    scan, _ = scanned(table(tmp_path / "raw", labels=column))
    assert labels_of(scan)[: len(expected)] == expected
    assert len(scan.rows["train"]) + len(scan.unmatched) == len(column)


def test_a_file_of_another_kind_than_the_first_is_told_of(tmp_path: Path) -> None:
    raw = table(tmp_path / "raw", label=[0, 1])
    (raw / "train.parquet").rename(raw / "a.parquet")
    table(raw, key=["c", "d"])
    (raw / "train.parquet").rename(raw / "b.parquet")
    dataset = Shards()
    found = dataset.find(raw, None)
    with (tmp_path / "copy").open("wb") as file:
        copy = dataset.scan(raw, found, found.units[1]).copy
        assert copy is not None
        assert copy(file).counts == {"samples without a label": 2}
    table(raw, label=[[0], [1, 2]])
    (raw / "train.parquet").rename(raw / "b.parquet")
    with pytest.raises(SourceError, match="a list of 1 label, expected one"):
        scanned(raw)


def test_no_classes_in_lists_are_counted(tmp_path: Path) -> None:
    scan, _ = scanned(table(tmp_path / "raw", labels=[[0, -1], [3, -1, -1], [-1], [2, 0]]))
    assert labels_of(scan) == [["0"], ["3"], [], ["0", "2"]]
    assert scan.counts == {"labels of -1 or nan in lists, which are no class": 4}


def test_classes_may_be_names_in_a_cls(tmp_path: Path) -> None:
    for texts, expected in (
        ((b"cat\n", b"dog", b" cat"), [["cat"], ["dog"], ["cat"]]),
        ((b"+1", b" 2.0\n", b"007"), [["1"], ["2"], ["7"]]),
    ):
        members: dict[str, bytes] = {}
        for number, text in enumerate(texts):
            members |= {f"{number}.jpg": picture(number), f"{number}.cls": text}
        scan, _ = scanned(tar(tmp_path / "raw", members))
        assert labels_of(scan) == expected


BOXES = [[1.0, 2.0, 3.0, 4.0]]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("objects", {"bbox": BOXES, "category": [1]}),
        ("objects", [{"bbox": BOXES[0], "category": 1}]),
        ("faces", {"bbox": BOXES}),
        ("bboxes", BOXES),
        ("bbox", BOXES[0]),
        ("polygons", BOXES),
    ],
)
def test_boxes_are_not_left_out_in_silence(name: str, value: Any, tmp_path: Path) -> None:
    raw = table(tmp_path / "parquet", label=[0, 1], **{name: [value] * 2})
    _, said = scanned(raw)
    assert f"left out: {name} (boxes come from COCO's JSON" in said
    text = json.dumps({"label": 0, name: value}).encode()
    _, said = scanned(tar(tmp_path / "tar", {"a.jpg": picture(), "a.json": text}))
    assert f"left out: json.{name} (" in said
    scan, said = scanned(raw, attribute_fields=name)
    assert "left out" not in said
    assert json.loads(str(scan.rows["train"][0].fields[name])) == value
    with pytest.raises(SourceError, match=r"looks like the label.*--unlabelled.*COCO"):
        scanned(table(tmp_path / "alone", **{name: [value] * 2}))


def test_boxes_of_examples_and_of_records_are_told_of(tmp_path: Path) -> None:
    boxes = {"image__object__bbox__xmin": [0.1, 0.2], "image__object__bbox__xmax": [0.5]}
    _, said = scanned(tfrecord(tmp_path / "tf", [example(1, image__class__label=[0], **boxes)]))
    assert "left out: image/object/bbox/xmax, image/object/bbox/xmin (" in said
    raw = tmp_path / "rec"
    raw.mkdir()
    (raw / "a.rec").write_bytes(record(0, (1, 5, 1, 0.1, 0.2, 0.5, 0.6), picture()))
    with pytest.raises(SourceError, match=r"a label 0\.1.*--unlabelled; boxes come from") as error:
        scanned(raw)
    assert "--label_field" not in str(error.value)
    assert labels_of(scanned(raw, unlabelled=True)[0]) == [[]]


def test_a_list_beside_records_that_disagrees_is_told_of(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    images = [record(number, [float(number % 2)], picture(number)) for number in range(4)]
    (raw / "a.rec").write_bytes(b"".join(images))
    lines = ["0\t0.000000\tc/0.jpg", "1\t1\tc/1.jpg", "3\t0.0\tc/3.jpg", "7\t0\tc/7.jpg", ""]
    (raw / "a.lst").write_text("\n".join(lines))
    scan, _ = scanned(raw)
    assert [row.key for row in scan.rows["train"]] == [
        *("c/0.jpg", "c/1.jpg", "a.rec/00000002", "c/3.jpg")
    ]
    assert scan.counts == {
        "labels that differ from those of the .lst (--label_field lst)": 1,
        "records that the .lst beside them does not list": 1,
        "lines of the .lst without an image, passed over": 1,
    }
    scan, _ = scanned(raw, label_field="lst", attribute_fields="all")
    assert labels_of(scan) == [["0"], ["1"], ["0"]]
    (raw / "a.lst").write_text("".join(f"{n}\t{n % 2:f}\tc/{n}.jpg\n" for n in range(4)))
    assert scanned(raw)[0].counts == {}
    (raw / "a.lst").write_text("".join(f"{n}\tcat\tc/{n}.jpg\n" for n in range(4)))
    assert scanned(raw)[0].counts == {}


@pytest.mark.parametrize("compress", [gzip.compress, zlib.compress])
def test_what_a_compressed_file_is_is_told_by_its_content(compress: Any, tmp_path: Path) -> None:
    (tmp_path / "a.tfrecord.gz").write_bytes(compress(records_of([example(1, label=[0])])))
    assert find_files(tmp_path, "") == ("TFRecord", {"a.tfrecord.gz": "gzip"})
    (tmp_path / "a.tfrecord.gz").write_bytes(compress(tar_of({"x.jpg": picture()})))
    with pytest.raises(SourceError, match=r"call it \.tar\.gz"):
        scanned(tmp_path)
    (tmp_path / "a.tfrecord.gz").write_bytes(compress(b"words, words, words"))
    with pytest.raises(SourceError, match="no shards in"):
        scanned(tmp_path)


@pytest.mark.parametrize(
    "rows", [[{"bytes": None, "path": "/x/a.jpg"}] * 2, ["/x/a.jpg", "/x/b.jpg"]], ids=type
)
def test_paths_in_the_place_of_images_are_named(rows: list[Any], tmp_path: Path) -> None:
    kind = (
        None if isinstance(rows[0], str) else pa.struct([("bytes", "binary"), ("path", "string")])
    )
    with pytest.raises(SourceError, match=r"but paths in image.*embed the images.*--listing"):
        scanned(table(tmp_path / "raw", image=pa.array(rows, kind), label=[0, 1]))


def test_images_without_labels(tmp_path: Path) -> None:
    members: dict[str, bytes] = {}
    for number in range(3):
        members |= {f"{number}.jpg": picture(number), f"{number}.txt": b"words"}
    raw = tar(tmp_path / "raw", members)
    made = prepared(raw, tmp_path / "out", unlabelled=True, caption_field="txt")
    assert made.manifest.classes == ()
    found = dataprep.open(tmp_path / "out")
    assert {(record.labels, record.fields["captions"]) for record in found} == {((), ("words",))}
    with pytest.raises(UsageError, match="--unlabelled with --label_field"):
        prepared(raw, tmp_path / "out", unlabelled=True, label_field="txt", overwrite=True)


def listed(*names: str) -> ClassList:
    forms = {unicodedata.normalize("NFC", name): name for name in names}
    return ClassList("classes.txt", tuple((name, name) for name in names), forms)


def test_one_class_has_one_name_whatever_its_form() -> None:
    assert one_form([NFD, "tea"]) == {NFD: NFD, "tea": "tea"}
    assert one_form([NFD, NFC]) == {NFD: NFC, NFC: NFC}
    found = name_classes({NFC, NFD, "tea"}, None, "auto")
    assert [*found.classes] == [(NFC, NFC), ("tea", "tea")]
    assert found.identifiers == {NFC: NFC, NFD: NFC, "tea": "tea"}
    assert "two forms of Unicode" in found.reason
    assert name_classes({NFC}, listed(NFD, "tea"), "auto").identifiers == {NFC: NFD}
    assert name_classes({NFC, NFD}, listed(NFD), "auto").identifiers == {NFC: NFD, NFD: NFD}
    with pytest.raises(SourceError, match="unknown labels cat"):
        name_classes({"cat", NFC}, listed(NFD), "auto")


def test_labels_in_two_forms_are_one_class_and_not_two_of_an_image(tmp_path: Path) -> None:
    made = prepared(table(tmp_path / "raw", label=[NFC, NFD, "tea"]), tmp_path / "out")
    assert len(made.manifest.classes) == 2
    with pytest.raises(SourceError, match="expected each class once"):
        scanned(table(tmp_path / "lists", labels=[["tea"], [NFC, NFD]]))


@pytest.mark.parametrize(
    "names",
    [
        ["crane", "owl", "crane", "crane 0"],
        [NFC, NFD],
        ["a\tb", "a b"],
        ["1", "0"],
        ["a 1", "a", "a"],
    ],
)
def test_numbers_of_one_name_are_classes_of_their_own(names: list[str]) -> None:
    texts = [label_text(number, name, name) for number, name in enumerate(names)]
    found = name_classes(texts, None, "auto")
    assert len({identifier for identifier, _ in found.classes}) == len(names)
    assert [found.identifiers[text] for text in texts] == [it for it, _ in found.classes]
    assert ("told apart" in found.reason) == (names != ["1", "0"])


def test_numbers_beyond_the_names_are_told_of() -> None:
    texts = [label_text(0, "a", "a"), label_text(1, "b", "b"), label_text(5)]
    found = name_classes(texts, None, "auto")
    assert "; numbers without a name: 5; 3 of 6 never occur" in found.reason


def test_numbers_that_never_occur_are_told_of() -> None:
    found = name_classes({label_text(number) for number in (0, 1, 3, 7)}, None, "auto")
    assert found.reason.endswith("; 4 of 8 never occur, and keep their numbers")
    texts = name_classes({"0", "1", "3", "7"}, None, "auto")
    assert [name for name, _ in texts.classes] == ["0", "1", "3", "7"]
    assert "numbered anew from 0; --classes" in texts.reason
    assert not any(
        "numbered anew" in name_classes(set(some), None, "auto").reason
        for some in pairwise(["0", "1", "0"])
    )
