"""TFRecord: golden bytes, round trips, and every flipped byte noticed."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataprep.errors import SinkError
from dataprep.example import Example
from dataprep.sinks import ShardName, tf_example
from dataprep.sinks.tfrecord import TFRecordSink
from dataprep.sinks.tfrecord_framing import frame, masked_crc, read_records

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
    class_index=0,
    synset="n01440764",
    class_name="tench",
)


def test_frame_is_what_tensorflow_writes() -> None:
    assert b"".join(frame(b"hello")) == HELLO
    assert b"".join(frame(b"")) == EMPTY


def test_crc_is_castagnoli() -> None:
    unmasked = 0xE3069283  # CRC-32C of "123456789", RFC 3720 appendix B.4's polynomial
    expected = ((unmasked >> 15 | unmasked << 17) + 0xA282EAD8) & 0xFFFFFFFF
    assert masked_crc(b"123456789") == expected


@given(st.lists(st.binary(max_size=40), max_size=6))
def test_records_come_back_with_their_offsets(records: list[bytes]) -> None:
    data = b"".join(piece for record in records for piece in frame(record))
    found = list(read_records(io.BytesIO(data), name="x"))
    assert [record for _, record in found] == records
    assert [offset for offset, _ in found] == [
        sum(len(record) + 16 for record in records[:number]) for number in range(len(records))
    ]


@pytest.mark.parametrize("position", range(len(HELLO)))
def test_every_flipped_byte_of_a_record_is_found(position: int) -> None:
    damaged = bytearray(HELLO)
    damaged[position] ^= 0x10
    with pytest.raises(SinkError, match="damaged record at byte 0"):
        list(read_records(io.BytesIO(bytes(damaged)), name="x"))


@pytest.mark.parametrize("length", range(1, len(HELLO)))
def test_every_truncation_is_found(length: int) -> None:
    with pytest.raises(SinkError, match="the file ends within"):
        list(read_records(io.BytesIO(HELLO[:length]), name="x"))


def test_example_golden_bytes() -> None:
    # tf.train.Example with these features, SerializeToString(deterministic=True), by
    # TensorFlow 2.21; tests/interop checks the same with TensorFlow itself where it is installed.
    data = tf_example.encode(EXAMPLE)
    assert data == bytes.fromhex(GOLDEN_EXAMPLE)


GOLDEN_EXAMPLE = (
    "0ad0030a170a0e696d6167652f6368616e6e656c7312051a030a01030a1a0a11696d6167652f636c"
    "6173732f6c6162656c12051a030a01010a230a12696d6167652f636c6173732f73796e736574120d"
    "0a0b0a096e30313434303736340a1d0a10696d6167652f636c6173732f7465787412090a070a0574"
    "656e63680a1b0a10696d6167652f636f6c6f72737061636512070a050a035247420a2c0a0d696d61"
    "67652f656e636f646564121b0a190a17ffd8206e6f74207265616c6c792061204a50454720ffd90a"
    "2a0a0e696d6167652f66696c656e616d6512180a160a146e30313434303736345f31303032362e4a"
    "5045470a180a0c696d6167652f666f726d617412080a060a044a5045470a160a0c696d6167652f68"
    "656967687412061a040a02f7020a1d0a17696d6167652f6f626a6563742f62626f782f6c6162656c"
    "12021a000a1c0a16696d6167652f6f626a6563742f62626f782f786d6178120212000a1c0a16696d"
    "6167652f6f626a6563742f62626f782f786d696e120212000a1c0a16696d6167652f6f626a656374"
    "2f62626f782f796d6178120212000a1c0a16696d6167652f6f626a6563742f62626f782f796d696e"
    "120212000a150a0b696d6167652f776964746812061a040a02f403"
)


def boxes() -> st.SearchStrategy[tuple[tuple[float, float, float, float], ...]]:
    fraction = st.floats(0, 1, width=32)
    return st.lists(st.tuples(fraction, fraction, fraction, fraction), max_size=3).map(tuple)


@given(
    st.builds(
        Example,
        key=st.text(st.characters(exclude_characters="/", exclude_categories=["Cs"]), min_size=1),
        encoded=st.binary(),
        format=st.sampled_from(["JPEG", "PNG"]),
        height=st.integers(1, 2**31),
        width=st.integers(1, 2**31),
        colorspace=st.sampled_from(["RGB", "Grayscale"]),
        class_index=st.integers(0, 2**31),
        synset=st.text(),
        class_name=st.text(),
        boxes=boxes(),
    )
)
def test_examples_come_back(example: Example) -> None:
    assert tf_example.decode(tf_example.encode(example)) == example


def test_a_foreign_example_is_named() -> None:
    with pytest.raises(SinkError, match="without the image keys"):
        tf_example.decode(b"")
    with pytest.raises(SinkError, match=r"not a tf\.train\.Example"):
        tf_example.decode(b"\xff\xff\xff")


def write_shard(directory: Path, count: int) -> list[Path]:
    paths = [directory / "shard", directory / "index"]
    writer = TFRecordSink().open(paths)
    for _ in range(count):
        writer.write(EXAMPLE)
    writer.close()
    return paths


def test_index_is_what_dali_expects(tmp_path: Path) -> None:
    data, index = write_shard(tmp_path, 3)
    size = data.stat().st_size // 3
    assert index.read_text() == f"0 {size}\n{size} {size}\n{2 * size} {size}\n"


def test_close_describes_the_files(tmp_path: Path) -> None:
    import hashlib

    paths = [tmp_path / "shard", tmp_path / "index"]
    writer = TFRecordSink().open(paths)
    writer.write(EXAMPLE)
    for path, written in zip(paths, writer.close(), strict=True):
        assert written.bytes == path.stat().st_size
        assert written.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("0 ", "1 ", 1),
        lambda text: text + "9 9\n",
        lambda text: text[: text.rindex("\n", 0, -1) + 1],
        lambda text: "garbage\n" + text,
    ],
)
def test_a_wrong_index_is_found(tmp_path: Path, change) -> None:  # type: ignore[no-untyped-def]
    paths = write_shard(tmp_path, 3)
    paths[1].write_text(change(paths[1].read_text()))
    with pytest.raises(SinkError):
        list(TFRecordSink().read(paths))


@settings(max_examples=40)
@given(st.data())
def test_any_flipped_byte_of_a_shard_is_found(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    paths = write_shard(tmp_path_factory.mktemp("shard"), 2)
    content = bytearray(paths[0].read_bytes())
    position = data.draw(st.integers(0, len(content) - 1))
    content[position] ^= 1 << data.draw(st.integers(0, 7))
    paths[0].write_bytes(content)
    with pytest.raises(SinkError, match="damaged record"):
        list(TFRecordSink().read(paths))


def test_names_and_places() -> None:
    sink = TFRecordSink()
    shard = ShardName("train", 3, 1024)
    assert [str(path) for path in sink.paths(shard, "split")] == [
        "train/train-00003-of-01024",
        "index/train/train-00003-of-01024",
    ]
    assert [str(path) for path in sink.paths(shard, "flat")] == [
        "train-00003-of-01024",
        "index/train/train-00003-of-01024",
    ]
