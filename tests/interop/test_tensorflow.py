"""TensorFlow reads the shards as the field's ResNet-50 programs do, and writes the same bytes.

Each parser below asks for the features that the program it is named after asks for, with the
same types, shapes and defaults.
"""

from __future__ import annotations

import io
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from PIL import Image

from dataprep.formats import DatasetInfo, tf_example
from dataprep.formats.example import Example
from dataprep.images import Recipe, prepare
from dataprep_schemas import imagenet_classes
from tests.interop.conftest import Built, RawImages

SPLITS = ("train", "validation")
SIDES = ("ymin", "xmin", "ymax", "xmax")  # TensorFlow's order of a box
TPU_KEYS = {
    "image/height": "int64_list",
    "image/width": "int64_list",
    "image/colorspace": "bytes_list",
    "image/channels": "int64_list",
    "image/class/label": "int64_list",
    "image/class/synset": "bytes_list",
    "image/format": "bytes_list",
    "image/filename": "bytes_list",
    "image/encoded": "bytes_list",
}
BOX_KEYS = {
    **{f"image/object/bbox/{side}": "float_list" for side in SIDES},
    "image/object/bbox/label": "int64_list",
}
OWN_KEYS = {"image/class/text": "bytes_list", "image/key": "bytes_list"}
KEYS = {**TPU_KEYS, **OWN_KEYS, **BOX_KEYS}


def tpu_resnet(tf: ModuleType, record: Any) -> tuple[Any, Any]:
    """tensorflow/tpu, models/official/resnet/imagenet_input.py: the image and a 0-based label."""
    features = {
        "image/encoded": tf.io.FixedLenFeature((), tf.string, ""),
        "image/class/label": tf.io.FixedLenFeature((), tf.int64, -1),
    }
    parsed = tf.io.parse_single_example(record, features)
    return parsed["image/encoded"], tf.cast(parsed["image/class/label"], tf.int32) - 1


def tpu_script(tf: ModuleType, record: Any) -> dict[str, Any]:
    """Everything that tensorflow/tpu, tools/datasets/imagenet_to_gcs.py writes, none optional."""
    types = {"int64_list": tf.int64, "bytes_list": tf.string}
    features = {key: tf.io.FixedLenFeature((), types[kind]) for key, kind in TPU_KEYS.items()}
    parsed: dict[str, Any] = tf.io.parse_single_example(record, features)
    return parsed


def slim(tf: ModuleType, record: Any, label_shape: tuple[int, ...]) -> dict[str, Any]:
    """The parser that grew in slim, and what its readers make of it.

    With label shape () it is tensorflow/models, official/legacy/image_classification/resnet; with
    [1] it is tensorflow/benchmarks, scripts/tf_cnn_benchmarks, and NVIDIA DeepLearningExamples,
    TensorFlow/Classification/ConvNets.
    """
    features = {
        "image/encoded": tf.io.FixedLenFeature((), tf.string, ""),
        "image/class/label": tf.io.FixedLenFeature(label_shape, tf.int64, -1),
        "image/class/text": tf.io.FixedLenFeature((), tf.string, ""),
        **{f"image/object/bbox/{side}": tf.io.VarLenFeature(tf.float32) for side in SIDES},
    }
    parsed = tf.io.parse_single_example(record, features)
    sides = [parsed[f"image/object/bbox/{side}"].values for side in SIDES]
    return {
        "encoded": parsed["image/encoded"],
        "label": parsed["image/class/label"],
        "text": parsed["image/class/text"],
        "boxes": tf.transpose(tf.stack(sides))[tf.newaxis],
    }


def records(tf: ModuleType, data_dir: Path, split: str) -> Any:
    """Every record, shard by shard; TensorFlow finds the shards and checks the checksums."""
    files = tf.data.Dataset.list_files(f"{data_dir}/{split}-*", shuffle=False)
    return files.flat_map(tf.data.TFRecordDataset)


@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param("{split}-*", id="tpu-and-nvidia"),
        pytest.param("{split}-*-of-*", id="tf_cnn_benchmarks"),
        pytest.param("{split:.5}*", id="models-official-vision"),  # train*, valid*
    ],
)
@pytest.mark.parametrize("split", SPLITS)
def test_the_patterns_of_the_readers_match_the_shards_and_nothing_else(
    tf: ModuleType, built: Built, split: str, pattern: str
) -> None:
    found = tf.io.gfile.glob(f"{built.data_dir(split)}/{pattern.format(split=split)}")
    count = {"train": 3, "validation": 2}[split]
    assert [Path(path).name for path in sorted(map(str, found)) if Path(path).is_file()] == [
        f"{split}-{number:05d}-of-{count:05d}" for number in range(count)
    ]
    if built.layout == "flat":
        assert all(Path(path).is_file() for path in found)


@pytest.mark.parametrize("split", SPLITS)
def test_the_tpu_resnet50_reader_gets_every_image_once_with_its_label(
    tf: ModuleType, built: Built, split: str
) -> None:
    def read(record: Any) -> tuple[Any, Any, Any]:
        encoded, label = tpu_resnet(tf, record)
        return encoded, label, tf.shape(tf.io.decode_jpeg(encoded, channels=3))[2]

    files = tf.data.Dataset.list_files(f"{built.data_dir(split)}/{split}-*", seed=1)
    dataset = files.interleave(tf.data.TFRecordDataset, cycle_length=64).map(read)
    found = list(dataset.as_numpy_iterator())

    assert {channels for _, _, channels in found} == {3}
    raw = built.raw[split].values()
    assert Counter(label for _, label, _ in found) == Counter(image.label - 1 for image in raw)
    stored = Counter((encoded, label) for encoded, label, _ in found)
    kept = Counter((image.data, image.label - 1) for image in raw if image.kind == "JPEG")
    assert kept <= stored
    repaired = Counter(image.label - 1 for image in raw if image.kind != "JPEG")
    assert Counter(label for _, label in (stored - kept).elements()) == repaired


@pytest.mark.parametrize("split", SPLITS)
def test_keys_and_types_are_exactly_those_documented(
    tf: ModuleType, boxed: Built, split: str
) -> None:
    texts = dict(imagenet_classes())
    for record in records(tf, boxed.out, split).as_numpy_iterator():
        feature = tf.train.Example.FromString(record).features.feature
        assert {key: value.WhichOneof("kind") for key, value in feature.items()} == KEYS
        values = {key: list(getattr(feature[key], KEYS[key]).value) for key in KEYS}
        assert {len(values[key]) for key in KEYS.keys() - BOX_KEYS.keys()} == {1}
        assert values["image/colorspace"] == [b"RGB"]
        assert values["image/channels"] == [3]
        assert values["image/format"] == [b"JPEG"]
        assert 1 <= values["image/class/label"][0] <= 1000
        synset = values["image/class/synset"][0].decode()
        assert values["image/class/text"] == [texts[synset].encode()]
        boxes = boxed.boxes.get(values["image/filename"][0].decode(), [])
        assert values["image/object/bbox/label"] == values["image/class/label"] * len(boxes)


@pytest.mark.parametrize(
    ("output", "split", "label_shape"),
    [
        pytest.param("flat", "train", (), id="models-legacy"),
        pytest.param("by_split", "validation", (1,), id="benchmarks-and-nvidia"),
        pytest.param("boxed", "train", (1,), id="boxes"),
    ],
)
def test_the_slim_readers_crop_every_image_around_its_boxes(
    tf: ModuleType,
    request: pytest.FixtureRequest,
    output: str,
    split: str,
    label_shape: tuple[int, ...],
) -> None:
    def crop(record: Any) -> dict[str, Any]:
        found = slim(tf, record, label_shape)
        shape = tf.io.extract_jpeg_shape(found["encoded"])  # refuses all but JPEG
        begin, size, _ = tf.image.sample_distorted_bounding_box(  # refuses impossible boxes
            shape, found["boxes"], seed=1, use_image_if_no_bounding_boxes=True
        )
        window = tf.stack([begin[0], begin[1], size[0], size[1]])
        cropped = tf.io.decode_and_crop_jpeg(found["encoded"], window, channels=3)
        return {**found, "size": size[:2], "cropped": tf.shape(cropped)}

    built = request.getfixturevalue(output)
    texts = dict(imagenet_classes())
    dataset = records(tf, built.data_dir(split), split)
    named = tf.data.Dataset.zip(dataset.map(crop), dataset.map(lambda it: tpu_script(tf, it)))
    seen = 0
    for found, full in named.as_numpy_iterator():
        image = built.raw[split][full["image/filename"].decode()]
        assert found["encoded"] == full["image/encoded"]
        assert found["label"].shape == label_shape
        assert found["label"].item() == image.label
        assert found["text"].decode() == texts[image.synset]
        assert found["cropped"].tolist() == [*found["size"], 3]
        boxes = built.boxes.get(image.name, [])
        expected = [[ymin, xmin, ymax, xmax] for xmin, ymin, xmax, ymax in boxes]
        assert found["boxes"].dtype == np.float32
        assert found["boxes"].tolist() == [np.array(expected, np.float32).tolist()]
        seen += 1
    assert seen == len(built.raw[split])


PLAIN = Example(
    key="n01440764/n01440764_10026.JPEG",
    encoded=b"\xff\xd8\xff\xd9",
    format="JPEG",
    height=375,
    width=500,
    colorspace="RGB",
    labels=(0,),
    synset="n01440764",
    class_name="tench",
)
INFO = DatasetInfo(classes=imagenet_classes())


@pytest.mark.parametrize(
    "example",
    [
        pytest.param(PLAIN, id="plain"),
        pytest.param(replace(PLAIN, encoded=bytes(range(256)) * 9000), id="long"),
        pytest.param(replace(PLAIN, key="a/\udce9t\udce9.JPEG"), id="name-not-utf-8"),
        pytest.param(
            replace(PLAIN, fields={"boxes": ((0.1, 0.2, 0.3, 0.4), (0, 0, 1, 1))}), id="boxes"
        ),
    ],
)
def test_tensorflow_serialises_an_example_to_the_same_bytes(
    tf: ModuleType, example: Example
) -> None:
    ours = b"".join(tf_example.encode(example, INFO))
    assert tf.train.Example.FromString(ours).SerializeToString(deterministic=True) == ours


def pixels(tf: ModuleType, encoded: bytes) -> Any:
    """What TensorFlow sees in a JPEG, CMYK or not, with its accurate DCT."""
    found = tf.io.decode_jpeg(encoded, channels=3, dct_method="INTEGER_ACCURATE")
    return found.numpy().astype(np.int16)


@pytest.mark.parametrize(
    ("options", "transform"),
    [
        pytest.param({"quality": 90}, 0, id="full-chroma-CMYK"),
        pytest.param({"quality": 75, "subsampling": "4:2:0"}, 2, id="subsampled-YCCK"),
        pytest.param({"progressive": True}, 2, id="progressive-YCCK"),
    ],
)
def test_a_cmyk_jpeg_has_the_pixels_that_tensorflow_sees(
    tf: ModuleType, raw_images: RawImages, options: dict[str, Any], transform: int
) -> None:
    (image,) = (image for image in raw_images["train"].values() if image.kind == "CMYK")
    stream = io.BytesIO()
    with Image.open(io.BytesIO(image.data)) as opened:
        opened.save(stream, "JPEG", **options)
    data = bytearray(stream.getvalue())
    adobe = data.index(b"\xff\xee\x00\x0eAdobe")
    data[adobe + 15] = transform  # the last byte of the Adobe segment says which of the two it is
    prepared = prepare(bytes(data), Recipe(encoding="png"))  # without loss
    ours = tf.io.decode_png(prepared.data).numpy().astype(np.int16)
    assert np.array_equal(ours, pixels(tf, bytes(data)))
    plain = bytes(data[:adobe] + data[adobe + 16 :])  # not Adobe's: stores ink, not light
    ours = tf.io.decode_png(prepare(plain, Recipe(encoding="png")).data).numpy()
    assert np.array_equal(ours, pixels(tf, plain))


def test_dataprep_itself_never_imports_tensorflow(raw_directory: Path, tmp_path: Path) -> None:
    program = """
import sys
from dataprep.cli import main
code = main(sys.argv[1:])
print(sorted(name for name in sys.modules if name.split(".")[0] in ("tensorflow", "nvidia")))
sys.exit(code)
"""
    command = ["imagenet", "--raw_data_dir", raw_directory, "--local_scratch_dir", tmp_path / "out"]
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, command), "--workers", "1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"
