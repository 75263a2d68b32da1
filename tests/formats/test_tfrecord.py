"""TFRecord: golden bytes, round trips, and every flipped byte noticed."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from dataprep.errors import SinkError
from dataprep.formats import DatasetInfo, tf_example
from dataprep.formats.example import Example
from dataprep.formats.tfrecord import TFRecordSink, TFRecordWriter, frame, unframe
from dataprep_schemas import example_pb2
from dataprep_schemas.fields import BOX_LABELS, BOXES, CAPTIONS, Field
from tests.formats import examples as examples_

# Written by TensorFlow 2.21:
#   with tf.io.TFRecordWriter(path) as w: w.write(b"hello")   and   w.write(b"")
HELLO = bytes.fromhex("0500000000000000eab2043e68656c6c6fbb1f1c19")
EMPTY = bytes.fromhex("000000000000000029039807d8ea82a2")

EXAMPLE = Example(
    key="n01440764/n01440764_10026.JPEG",
    encoded=b"\xff\xd8 not really a JPEG \xff\xd9",
    format="JPEG",
    height=375,
    width=500,
    colorspace="RGB",
    labels=(0,),
    synset="n01440764",
    class_name="tench",
)


UNKNOWN = DatasetInfo()
KNOWN = DatasetInfo(classes=(("n01440764", "tench"), ("n01443537", "goldfish")))
MULTI = DatasetInfo(
    classes=(("A", "Atelectasis"), ("B", "Effusion"), ("C", "Mass")),
    multilabel=True,
    colorspace="Grayscale",
)
FINDINGS = replace(
    EXAMPLE,
    key="00000001_000.png",
    format="PNG",
    colorspace="Grayscale",
    labels=(1, 2),
    synset="B|C",
    class_name="Effusion|Mass",
    fields={"boxes": ((0.25, 0.5, 0.75, 1.0),)},
)


def encoded(example: Example, info: DatasetInfo) -> bytes:
    """The whole, which must be what the protobuf library itself makes of the same features."""
    data = b"".join(tf_example.encode(example, info))
    assert example_pb2.Example.FromString(data).SerializeToString(deterministic=True) == data
    return data


def test_frame_is_what_tensorflow_writes() -> None:
    assert b"".join(frame(b"", b"hello", b"")) == HELLO
    assert b"".join(frame(b"", b"", b"")) == EMPTY
    assert b"".join(frame(b"he", b"", b"llo")) == HELLO


@given(st.binary(max_size=40))
def test_records_come_back(record: bytes) -> None:
    assert unframe(b"".join(frame(b"", record, b""))) == record


def test_example_golden_bytes() -> None:
    # tf.train.Example with these features, SerializeToString(deterministic=True), by
    # TensorFlow 2.21; tests/interop checks the same with TensorFlow itself where it is installed.
    assert encoded(EXAMPLE, UNKNOWN) == bytes.fromhex(GOLDEN_EXAMPLE)
    assert encoded(EXAMPLE, KNOWN) == bytes.fromhex(GOLDEN_EXAMPLE)
    assert encoded(FINDINGS, MULTI) == bytes.fromhex(GOLDEN_MULTI_LABEL)


GOLDEN_EXAMPLE = (
    "0a81040a170a0e696d6167652f6368616e6e656c7312051a030a01030a1a0a11696d6167652f636c"
    "6173732f6c6162656c12051a030a01010a230a12696d6167652f636c6173732f73796e736574120d"
    "0a0b0a096e30313434303736340a1d0a10696d6167652f636c6173732f7465787412090a070a0574"
    "656e63680a1b0a10696d6167652f636f6c6f72737061636512070a050a035247420a2c0a0d696d61"
    "67652f656e636f646564121b0a190a17ffd8206e6f74207265616c6c792061204a50454720ffd90a"
    "2a0a0e696d6167652f66696c656e616d6512180a160a146e30313434303736345f31303032362e4a"
    "5045470a180a0c696d6167652f666f726d617412080a060a044a5045470a160a0c696d6167652f68"
    "656967687412061a040a02f7020a2f0a09696d6167652f6b657912220a200a1e6e30313434303736"
    "342f6e30313434303736345f31303032362e4a5045470a1d0a17696d6167652f6f626a6563742f62"
    "626f782f6c6162656c12021a000a1c0a16696d6167652f6f626a6563742f62626f782f786d617812"
    "0212000a1c0a16696d6167652f6f626a6563742f62626f782f786d696e120212000a1c0a16696d61"
    "67652f6f626a6563742f62626f782f796d6178120212000a1c0a16696d6167652f6f626a6563742f"
    "62626f782f796d696e120212000a150a0b696d6167652f776964746812061a040a02f403"
)

GOLDEN_MULTI_LABEL = (
    "0a90040a170a0e696d6167652f6368616e6e656c7312051a030a01010a1c0a11696d6167652f636c"
    "6173732f6c6162656c12071a050a030001010a1d0a12696d6167652f636c6173732f73796e736574"
    "12070a050a03427c430a250a10696d6167652f636c6173732f7465787412110a0f0a0d4566667573"
    "696f6e7c4d6173730a210a10696d6167652f636f6c6f727370616365120d0a0b0a09477261797363"
    "616c650a2c0a0d696d6167652f656e636f646564121b0a190a17ffd8206e6f74207265616c6c7920"
    "61204a50454720ffd90a260a0e696d6167652f66696c656e616d6512140a120a1030303030303030"
    "315f3030302e706e670a170a0c696d6167652f666f726d617412070a050a03504e470a160a0c696d"
    "6167652f68656967687412061a040a02f7020a210a09696d6167652f6b657912140a120a10303030"
    "30303030315f3030302e706e670a1d0a17696d6167652f6f626a6563742f62626f782f6c6162656c"
    "12021a000a220a16696d6167652f6f626a6563742f62626f782f786d6178120812060a040000403f"
    "0a220a16696d6167652f6f626a6563742f62626f782f786d696e120812060a040000803e0a220a16"
    "696d6167652f6f626a6563742f62626f782f796d6178120812060a040000803f0a220a16696d6167"
    "652f6f626a6563742f62626f782f796d696e120812060a040000003f0a150a0b696d6167652f7769"
    "64746812061a040a02f403"
)


RADIOGRAPHS = replace(
    MULTI,
    fields=(
        *(BOXES, BOX_LABELS, CAPTIONS),
        *(Field("patient_id", "int"), Field("view", "text"), Field("age", "int")),
    ),
)
RADIOGRAPH = replace(
    FINDINGS,
    fields={
        "boxes": ((0.25, 0.5, 0.75, 1.0), (0.0, 0.0, 0.5, 0.5)),
        "box_labels": (2, 0),
        "captions": ("two lungs", "ein Thorax, 左"),
        "view": "PA",
        "patient_id": -(2**40),
    },
)


def test_attributes_and_box_labels_are_features_of_their_own() -> None:
    data = encoded(RADIOGRAPH, RADIOGRAPHS)
    feature = example_pb2.Example.FromString(data).features.feature
    assert feature["image/class/label"].int64_list.value == [0, 1, 1]
    assert feature["image/object/bbox/label"].int64_list.value == [2, 0], "places in that vector"
    assert feature["image/object/class/text"].bytes_list.value == [b"Mass", b"Atelectasis"]
    assert feature["attribute/patient_id"].int64_list.value == [-(2**40)]
    assert feature["attribute/view"].bytes_list.value == [b"PA"]
    assert "attribute/age" not in feature, "readers take their default"
    captions = [text.encode() for text in RADIOGRAPH.fields["captions"]]
    assert feature["image/caption"].bytes_list.value == captions
    for info in (RADIOGRAPHS, UNKNOWN):
        assert tf_example.decode(data, info) == RADIOGRAPH


@pytest.mark.parametrize(
    ("key", "stored", "message"),
    [
        ("image/object/bbox/label", [2], "1 box_labels for 2 boxes"),
        ("image/object/bbox/label", [2, 3], "not all of the 3 classes"),
        ("attribute/age", [1, 2], "attribute/age has 2 values, expected 1"),
        ("image/class/label", [1, 0], r"its labels are \[1, 0\], expected 3"),
        ("image/class/label", [0, 1, 2], r"its labels are \[0, 1, 2\], expected 3"),
    ],
)
def test_contradictions_are_found(key: str, stored: list[int], message: str) -> None:
    data = example_pb2.Example.FromString(encoded(RADIOGRAPH, RADIOGRAPHS))
    data.features.feature[key].int64_list.value[:] = stored
    with pytest.raises(SinkError, match=message):
        tf_example.decode(data.SerializeToString(), RADIOGRAPHS)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"age": "58"}, "its age is '58', expected a number from -92"),
        ({"age": True}, "its age is True, expected a number"),
        ({"age": -(2**63)}, "its age is -9223372036854775808, expected"),
        ({"view": 1}, "its view is 1, expected a text; leave out what is"),
        ({"view": ""}, "its view is '', expected a text; leave out what is"),
        ({"view": "\ud800"}, r"its view is '\\ud800', expected a text"),
        ({"captions": ("a", "")}, r"its captions is \('a', ''\), expected texts"),
        ({"captions": ("\ud800",)}, "expected texts in Unicode, none of them empty; leave"),
        ({"box_labels": (1,)}, "1 box_labels for 2 boxes"),
        ({"box_labels": (1, -1)}, r"box_labels \[1, -1\] are not all of the 3 classes"),
        ({"labels": (3,)}, "not all of the 3 classes"),
        ({"format": "RAW"}, "its format is RAW, expected JPEG or PNG"),
    ],
)
def test_what_is_not_of_the_data_set_is_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    """Whatever the format, by the class that all writers are derived from."""
    writer = TFRecordWriter([tmp_path / "data", tmp_path / "index"], RADIOGRAPHS)
    own = {name: value for name, value in changes.items() if hasattr(RADIOGRAPH, name)}
    changed = replace(RADIOGRAPH, fields={**RADIOGRAPH.fields, **changes}, **own)
    with pytest.raises(SinkError, match=f"^'00000001_000.png': .*{message}"):
        writer.write(changed)
    writer.abandon()


@pytest.mark.parametrize("labels", [(), (0, 1), (2,), (-1,)])
def test_one_label_of_the_data_set_s_is_needed(tmp_path: Path, labels: tuple[int, ...]) -> None:
    writer = TFRecordWriter([tmp_path / "data", tmp_path / "index"], KNOWN)
    with pytest.raises(SinkError, match=r"has \d labels in a data set with one|of the 2 classes"):
        writer.write(replace(EXAMPLE, labels=labels))
    writer.abandon()


def test_boxes_of_a_single_label_set_all_show_the_label() -> None:
    boxed = replace(EXAMPLE, fields={"boxes": RADIOGRAPH.fields["boxes"]})
    data = encoded(boxed, KNOWN)
    feature = example_pb2.Example.FromString(data).features.feature
    assert feature["image/object/bbox/label"].int64_list.value == [1, 1]
    assert "image/object/class/text" not in feature
    assert tf_example.decode(data, KNOWN) == boxed


def boxes() -> st.SearchStrategy[tuple[tuple[float, float, float, float], ...]]:
    fraction = st.floats(0, 1, width=32)
    return st.lists(st.tuples(fraction, fraction, fraction, fraction), max_size=3).map(tuple)


@given(
    st.builds(
        Example,
        key=st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
        encoded=st.binary(),
        format=st.sampled_from(["JPEG", "PNG"]),
        height=st.integers(1, 2**31),
        width=st.integers(1, 2**31),
        colorspace=st.sampled_from(["RGB", "Grayscale"]),
        labels=st.tuples(st.integers(0, 2**31)),
        synset=st.text(),
        class_name=st.text(),
        fields=boxes().map(lambda found: {"boxes": found} if found else {}),
    )
)
def test_examples_come_back(example: Example) -> None:
    data = encoded(example, UNKNOWN)
    assert tf_example.decode(data, UNKNOWN) == example
    assert tf_example.image_of(data) == example.encoded


def test_an_example_too_large_for_a_protocol_buffer_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    size = len(encoded(EXAMPLE, KNOWN))
    monkeypatch.setattr(tf_example, "_LARGEST", size)
    encoded(EXAMPLE, KNOWN)
    monkeypatch.setattr(tf_example, "_LARGEST", size - 1)
    with pytest.raises(SinkError, match="a protocol buffer holds 2 GB"):
        encoded(EXAMPLE, KNOWN)


def test_classes_that_are_no_utf8_keep_their_bytes() -> None:
    info = replace(MULTI, classes=(("c\udcff", "n\udcfe"), ("d", "d")))
    example = replace(FINDINGS, labels=(0, 1), synset="c\udcff|d", class_name="n\udcfe|d")
    example = replace(example, fields={**example.fields, "box_labels": (0,)})
    data = encoded(example, info)
    feature = example_pb2.Example.FromString(data).features.feature
    assert feature["image/class/synset"].bytes_list.value == [b"c\xff|d"]
    assert feature["image/class/text"].bytes_list.value == [b"n\xfe|d"]
    assert feature["image/object/class/text"].bytes_list.value == [b"n\xfe"]
    assert tf_example.decode(data, info) == example
    assert tf_example.decode(data, UNKNOWN) == example


def test_a_foreign_example_is_named() -> None:
    with pytest.raises(SinkError, match="without the image keys"):
        tf_example.decode(b"", UNKNOWN)


def reduced(keep: set[str], encoded: bytes) -> bytes:
    """The golden example as another program wrote it: fewer features, a real image."""
    message = example_pb2.Example.FromString(bytes.fromhex(GOLDEN_EXAMPLE))
    feature = message.features.feature
    for key in set(feature) - keep:
        del feature[key]
    feature["image/encoded"].bytes_list.value[0] = encoded
    return message.SerializeToString(deterministic=True)


@pytest.fixture(scope="module")
def photograph() -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (7, 5)).save(file, "JPEG")
    return file.getvalue()


# tensorflow/tpu, tools/datasets/imagenet_to_gcs.py
GOOGLES_KEYS = {
    "image/height",
    "image/width",
    "image/colorspace",
    "image/channels",
    "image/class/label",
    "image/class/synset",
    "image/format",
    "image/filename",
    "image/encoded",
}


def test_googles_nine_features_are_enough(photograph: bytes) -> None:
    expected = replace(EXAMPLE, key="n01440764_10026.JPEG", encoded=photograph)
    data = reduced(GOOGLES_KEYS, photograph)
    assert tf_example.decode(data, KNOWN) == expected
    assert tf_example.decode(data, UNKNOWN) == replace(expected, class_name="")


def test_an_image_and_its_label_are_enough(photograph: bytes) -> None:
    data = reduced({"image/encoded", "image/class/label"}, photograph)
    assert tf_example.decode(data, KNOWN) == replace(
        EXAMPLE, key="", encoded=photograph, height=5, width=7
    )


def test_a_label_of_another_class_list_is_found(tmp_path: Path) -> None:
    paths = write_shard(tmp_path, [EXAMPLE, replace(EXAMPLE, labels=(1,))])
    said = "its label is that of 'n01443537', but its synset is 'n01440764'"
    expected = f"^{re.escape(str(paths[0]))}: record 1: {said}; make the shard again$"
    with TFRecordSink().reader(paths, KNOWN) as reader, pytest.raises(SinkError, match=expected):
        list(reader)


def write_shard(directory: Path, examples: list[Example]) -> list[Path]:
    paths = [directory / "shard", directory / "index"]
    examples_.write(TFRecordSink(), paths, UNKNOWN, examples)
    return paths


def read(paths: list[Path]) -> list[Example]:
    return examples_.read(TFRecordSink(), paths, UNKNOWN)


CHANGES = {
    "moved": lambda text: text.replace("0 ", "1 ", 1),
    "longer": lambda text: text + "9 9\n",
    "shorter": lambda text: text[: text.rindex("\n", 0, -1) + 1],
    "empty": lambda text: "",
    "garbage": lambda text: "garbage\n" + text,
    "huge": lambda text: text.replace("0 ", f"{2**70} ", 1),
    "merged": lambda text: f"0 {sum(map(int, text.split()[1::2]))}\n",
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_wrong_index_is_found(tmp_path: Path, change) -> None:  # type: ignore[no-untyped-def]
    paths = write_shard(tmp_path, [EXAMPLE] * 3)
    paths[1].write_text(change(paths[1].read_text()))
    with pytest.raises(SinkError, match=r"index|record 0"):
        read(paths)


@settings(max_examples=40)
@given(st.data())
def test_any_flipped_byte_of_a_shard_is_found(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    paths = write_shard(tmp_path_factory.mktemp("shard"), [EXAMPLE] * 2)
    content = bytearray(paths[0].read_bytes())
    position = data.draw(st.integers(0, len(content) - 1))
    content[position] ^= 1 << data.draw(st.integers(0, 7))
    paths[0].write_bytes(content)
    for known in (paths, paths[:1]):
        with pytest.raises(SinkError, match=r"checksum|record 0"):
            read(known)
