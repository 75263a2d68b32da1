"""The HDF5 formats: what a user of h5py and Caffe find, and files that are damaged or forged."""

from __future__ import annotations

import fcntl
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import h5py
import numpy as np
import pytest

from dataprep.errors import SinkError
from dataprep.formats.base import FinishedShard, Sink
from dataprep.formats.example import DatasetInfo, Example
from dataprep.formats.hdf5 import file as hdf5_file
from dataprep.formats.hdf5.sinks import Hdf5ArraysSink, Hdf5CaffeSink, Hdf5Sink
from dataprep_schemas import fields
from dataprep_schemas.fields import Field, present
from tests.formats import examples as examples_

SINK = Hdf5Sink()
CLASSES = (("n01440764", "tench"), ("n01443537", "goldfish"), ("n01484850", "great white shark"))
ONE = DatasetInfo(CLASSES, fields=(fields.BOXES,))
COLOR = DatasetInfo(CLASSES, size=(3, 4))
HDF5_2 = h5py.version.hdf5_version_tuple >= (2,)
GREY = DatasetInfo(CLASSES, multilabel=True, colorspace="Grayscale", size=(2, 5))


def example(
    key: str,
    encoded: bytes,
    labels: tuple[int, ...],
    info: DatasetInfo,
    *,
    format_: str = "JPEG",
    size: tuple[int, int] = (3, 4),
    boxes: tuple[tuple[float, float, float, float], ...] = (),
) -> Example:
    height, width = size
    shape: dict[str, Any] = {"format": format_, "height": height, "width": width}
    shape["fields"] = present({"boxes": boxes})
    return examples_.example(0, info, key=key, encoded=encoded, labels=labels, **shape)


def photographs(count: int, info: DatasetInfo = ONE) -> list[Example]:
    """Images of different sizes, with different keys, labels and numbers of boxes."""
    return [
        example(
            f"n01440764/n01440764_{number}.JPEG",
            bytes([number % 251]) * (100 + 37 * number),
            (number % 3,),
            info,
            format_="PNG" if number % 4 == 3 else "JPEG",
            size=(100 + number, 200 + number),
            boxes=((0.125, 0.25, 0.5, 0.75),) * (number % 3),
        )
        for number in range(count)
    ]


def arrays(count: int, info: DatasetInfo) -> list[Example]:
    """Pixels of the size that ``info`` says."""
    height, width = info.size or (0, 0)
    values = height * width * info.channels
    return [
        example(
            f"{number}.png",
            bytes((7 * number + value) % 256 for value in range(values)),
            (number % 3,),
            info,
            format_="RAW",
            size=(height, width),
        )
        for number in range(count)
    ]


def write(sink: Sink, path: Path, examples: Sequence[Example], info: DatasetInfo) -> Path:
    examples_.write(sink, [path], info, examples)
    return path


def read(sink: Sink, path: Path, info: DatasetInfo) -> list[Example]:
    return examples_.read(sink, [path], info)


@pytest.mark.parametrize(
    ("sink", "count", "digests"),
    [
        (
            SINK,
            12,
            (
                "5a1206c01ba2a942fb49b714f7eda692c05d4e50969f8f01df29ededf4755098",
                "e0e1ef7fd0dd222b85642353db02c9cc9b9228e857f9f4a756a0fa55adb6533c",
            ),
        ),
        # More than is held back for one write.
        (
            SINK,
            300,
            (
                "03edd06ac4c91659a29d98207122b6e293a7143b62a153d3a11e2bdc63d0b730",
                "3bc8bbc8532db3b8a8a53590d22b02b96824083d3f2886e20925d66325e7217d",
            ),
        ),
        (
            Hdf5ArraysSink(),
            4,
            (
                "73c0272577abb411b75041e695eeb0b44c3bce2d7b9b370c6f94b0074c02b14f",
                "3bcb761cabaaa74504fdec18420121b3457b7ae49920238d985126e8ec3c0585",
            ),
        ),
        (
            Hdf5CaffeSink(),
            4,
            ("c0d876e57af9a5baae86ad65c7082fafa7818abd3125cf7aa9fb59a159aec050",) * 2,
        ),
    ],
)
def test_golden_bytes(sink: Sink, count: int, digests: tuple[str, str], tmp_path: Path) -> None:
    """Noted with h5py 3.14 on HDF5 1.14.6, and 3.16 on 2.0.0: versions of layouts are lower."""
    info = COLOR if sink.pixels else ONE
    examples = arrays(count, info) if sink.pixels else photographs(count)
    path = write(sink, tmp_path / "train.h5", examples, info)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == digests[HDF5_2]


# --- What others find ---


def test_encoded_images_are_as_docs_hdf5_md_says(tmp_path: Path) -> None:
    examples = photographs(5)
    path = write(SINK, tmp_path / "train.h5", examples, ONE)
    with h5py.File(path) as file:
        offsets = file["offsets"][:]
        assert offsets.dtype == np.int64
        images = file["images"]
        for number, each in enumerate(examples):
            assert bytes(images[offsets[number] : offsets[number + 1]]) == each.encoded
        assert file["labels"].dtype == np.int64
        assert file["labels"][:].tolist() == [each.class_index for each in examples]
        assert file["keys"].asstr()[:].tolist() == [each.key for each in examples]
        assert file["heights"][:].tolist() == [each.height for each in examples]
        assert file["widths"][:].tolist() == [each.width for each in examples]
        codes = h5py.check_enum_dtype(file["formats"].dtype)
        assert [codes[each.format] for each in examples] == file["formats"][:].tolist()
        bounds = file["box_offsets"][:]
        assert [tuple(box) for box in file["boxes"][bounds[2] : bounds[3]].tolist()] == list(
            examples[2].fields["boxes"]
        )
        assert dict(zip(file.attrs["classes"], file.attrs["class_names"], strict=True)) == dict(
            CLASSES
        )
        assert file.attrs["dataprep_format"] == "hdf5"
        assert file.attrs["dataprep_version"] == 1
        assert file.attrs["colorspace"] == "RGB"
        assert file.attrs["multilabel"] == 0


def test_caffe_finds_what_its_layer_demands(tmp_path: Path) -> None:
    """caffe/src/caffe/layers/hdf5_data_layer.cpp, caffe/src/caffe/util/hdf5.cpp."""
    pixels = bytes(range(3 * 4 * 3))
    examples = [example("a", pixels, (2,), COLOR, format_="RAW", size=(3, 4))]
    path = write(Hdf5CaffeSink(), tmp_path / "train.h5", examples, COLOR)
    with h5py.File(path) as file:
        assert file["data"].dtype == np.float32
        assert file["data"].shape == (1, 3, 3, 4)
        assert file["data"][0, :, 0, 0].tolist() == [2, 1, 0]  # B, G, R of the first pixel
        assert file["data"][0, 0, 1].tolist() == [14, 17, 20, 23]  # B of the second row
        assert file["label"].dtype == np.float32
        assert file["label"][:].tolist() == [2]
        assert file.attrs["channel_order"] == "BGR"
    grey = [example("a", bytes(range(10)), (0, 2), GREY, format_="RAW", size=(2, 5))]
    path = write(Hdf5CaffeSink(), tmp_path / "grey.h5", grey, GREY)
    with h5py.File(path) as file:
        assert file["label"][:].tolist() == [[1, 0, 1]]
        assert file["data"].shape == (1, 1, 2, 5)


def test_the_list_of_files_is_relative_to_the_output_directory(tmp_path: Path) -> None:
    sink, paths = Hdf5CaffeSink(), [tmp_path / "train.txt"]
    names = [PurePosixPath("train/train-00000-of-00002.h5"), PurePosixPath("train/train-1.h5")]
    sink.finish_split(paths, COLOR, [FinishedShard((), (name,), 1) for name in names])
    assert paths[0].read_text() == "train/train-00000-of-00002.h5\ntrain/train-1.h5\n"
    assert sink.split_paths("val", 1, "flat") == (PurePosixPath("val.txt"),)


def test_caffe_counts_values_in_an_int(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = Hdf5CaffeSink()
    assert sink.most_images(DatasetInfo(size=(224, 224))) == 14_266
    assert sink.most_images(DatasetInfo(size=(256, 256))) == 10_922
    assert Hdf5ArraysSink().most_images(COLOR) is None
    monkeypatch.setattr("dataprep.formats.hdf5.sinks._INT_MAX", 2 * 36 + 1)
    write(sink, tmp_path / "fits", arrays(2, COLOR), COLOR)
    writer = sink.open([tmp_path / "not"], COLOR)
    first, second, third = arrays(3, COLOR)
    writer.write(first)
    writer.write(second)
    with pytest.raises(SinkError, match=r"2\.png.* more than 2 such images .* more shards"):
        writer.write(third)
    writer.abandon()


# --- Attributes ---


INFO = DatasetInfo(
    CLASSES,
    multilabel=True,
    fields=(fields.BOXES, fields.BOX_LABELS, Field("patient_id", "int"), Field("view", "text")),
)
LOWEST = -(2**63)
ATTRIBUTES: list[dict[str, int | str]] = [
    {"patient_id": 7, "view": "PA"},
    {},
    {"view": "Röntgen \udcff"},
    {"patient_id": LOWEST + 1},
    {"patient_id": 2**63 - 1, "view": "AP"},
]
BOX_LABELS = ((), (2,), (0, 1), (), ())  # as many as boxes, or nothing is said
EXAMPLES = [
    replace(it, fields=present({**it.fields, **attributes, "box_labels": labels}))
    for it, attributes, labels in zip(photographs(5, INFO), ATTRIBUTES, BOX_LABELS, strict=True)
]


def test_attributes_are_as_docs_hdf5_md_says(tmp_path: Path) -> None:
    path = write(Hdf5Sink(), tmp_path / "train.h5", EXAMPLES, INFO)
    with h5py.File(path) as file:
        patients, views = file["attributes/patient_id"], file["attributes/view"]
        assert patients.dtype == np.int64
        assert patients[:].tolist() == [7, LOWEST, LOWEST, LOWEST + 1, 2**63 - 1]
        assert patients.attrs["missing"] == LOWEST
        assert [bytes(it) for it in views[:]] == [b"PA", b"", b"R\xc3\xb6ntgen \xff", b"", b"AP"]
        assert h5py.check_string_dtype(views.dtype) == ("utf-8", 10)
        assert views.attrs["missing"] == ""
        assert file["box_labels"].dtype == np.int64
        assert file["box_labels"][:].tolist() == [2, 0, 1, -1]
    assert read(Hdf5Sink(), path, INFO) == EXAMPLES
    assert read(Hdf5Sink(), path, DatasetInfo()) == EXAMPLES


@pytest.mark.parametrize(
    ("view", "message"),
    [
        ("x" * 4097, "more than 4096 bytes, and it has one of 4097"),
        ("zero\0", "ends in a zero byte"),
    ],
)
def test_a_value_without_a_place_is_refused(tmp_path: Path, view: str, message: str) -> None:
    good: Example = EXAMPLES[0]
    writer = Hdf5Sink().open([tmp_path / "train.h5"], INFO)
    writer.write(good)
    with pytest.raises(SinkError, match=rf"^'n01440764/.*{message}"):
        writer.write(replace(good, fields={"view": view}))
    writer.write(good)
    writer.close()
    writer.abandon()
    assert read(Hdf5Sink(), tmp_path / "train.h5", INFO) == [good, good], "nothing of it is left"


# --- Files ---


@pytest.fixture
def shard(tmp_path: Path) -> Path:
    return write(SINK, tmp_path / "train.h5", photographs(3), ONE)


def test_every_truncated_file_is_refused(shard: Path) -> None:
    whole = shard.read_bytes()
    for size in range(0, len(whole), 97):
        shard.write_bytes(whole[:size])
        with pytest.raises(SinkError, match=r"train\.h5"):
            SINK.reader([shard], ONE)


def test_a_file_that_is_not_there_is_not_called_damaged(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        SINK.reader([tmp_path / "train.h5"], ONE)


def test_another_sinks_file_is_named(tmp_path: Path) -> None:
    info = DatasetInfo(CLASSES, size=(2, 2))
    path = write(Hdf5ArraysSink(), tmp_path / "train.h5", arrays(1, info), info)
    with pytest.raises(SinkError, match=r"hdf5-arrays.*, expected .*'hdf5'"):
        SINK.reader([path], info)


def test_locks_of_others_do_not_matter(tmp_path: Path) -> None:
    """Lustre and NFS refuse locks altogether; here another open file holds them."""
    path = write(SINK, tmp_path / "train.h5", photographs(4), ONE)
    with path.open("r+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert read(SINK, path, ONE) == photographs(4)


def external(file: h5py.File, place: Path) -> None:
    """The labels are in another file."""
    del file["labels"]
    file["labels"] = h5py.ExternalLink(place, "/labels")


def storage(file: h5py.File, place: Path) -> None:
    """The labels are bytes of another file."""
    del file["labels"]
    file.create_dataset("labels", (2,), "i8", external=[(str(place), 0, 16)])


def virtual(file: h5py.File, place: Path) -> None:
    """The labels are put together from another file."""
    del file["labels"]
    layout = h5py.VirtualLayout((2,), "i8")
    layout[:] = h5py.VirtualSource(place, "labels", (2,))
    file.create_virtual_dataset("labels", layout)


def soft(file: h5py.File, place: Path) -> None:
    """The labels are something else."""
    del file["labels"]
    file["labels"] = h5py.SoftLink("/keys")


def endless(file: h5py.File, place: Path) -> None:
    """Ten thousand million labels, none of which was ever written."""
    del file["labels"]
    file.create_dataset("labels", (10**10,), "i8", chunks=(1 << 10,))


@pytest.mark.parametrize("forge", [external, storage, virtual, soft, endless])
def test_what_leads_out_of_a_file_is_refused(
    forge: Callable[[h5py.File, Path], None], tmp_path: Path
) -> None:
    path = tmp_path / "shard.h5"
    with h5py.File(path, "w") as file:
        file["labels"] = [0, 1]
        file["keys"] = [b"a", b"b"]
    hdf5_file.open_file(path).close()
    with h5py.File(path, "r+") as file:
        forge(file, Path("/etc/passwd"))
    with pytest.raises(SinkError, match=r"labels .*expected plain datasets"):
        hdf5_file.open_file(path)
