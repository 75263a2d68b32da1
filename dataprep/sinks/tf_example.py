"""The tf.train.Example of one image, as the ResNet-50 readers of the field expect it.

The nine keys of Google's ``imagenet_to_gcs.py`` with its types, plus ``image/class/text`` and
the bounding box keys that the tf_cnn_benchmarks, slim and NVIDIA readers ask for. Labels are
1-based (0 is background). Map keys are serialised in sorted order, so equal examples have
equal bytes.
"""

from __future__ import annotations

from google.protobuf.message import DecodeError

from dataprep.errors import SinkError
from dataprep.example import Example
from dataprep_schemas import example_pb2

LABEL_BASE = 1
_BOX_KEYS = ("xmin", "ymin", "xmax", "ymax")


def encode(example: Example) -> bytes:
    """The serialised tf.train.Example."""
    message = example_pb2.Example()
    feature = message.features.feature
    label = example.class_index + LABEL_BASE
    for key, number in (
        ("image/height", example.height),
        ("image/width", example.width),
        ("image/channels", example.channels),
        ("image/class/label", label),
    ):
        feature[key].int64_list.value.append(number)
    for key, data in (
        ("image/colorspace", example.colorspace.encode()),
        ("image/class/synset", example.synset.encode()),
        ("image/class/text", example.class_name.encode()),
        ("image/format", example.format.encode()),
        ("image/filename", example.filename.encode("utf-8", "surrogateescape")),
        ("image/encoded", example.encoded),
    ):
        feature[key].bytes_list.value.append(data)
    for position, side in enumerate(_BOX_KEYS):
        values = feature[f"image/object/bbox/{side}"].float_list.value
        values.extend(box[position] for box in example.boxes)
    feature["image/object/bbox/label"].int64_list.value.extend([label] * len(example.boxes))
    return message.SerializeToString(deterministic=True)


def decode(data: bytes) -> Example:
    """The inverse of `encode`, but for ``key``: the format stores only the file name.

    Raises:
        SinkError: ``data`` is not a tf.train.Example, or lacks a key that `encode` writes.
    """
    message = example_pb2.Example()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise SinkError(f"not a tf.train.Example: {error}") from error
    feature = message.features.feature

    def number(key: str) -> int:
        return int(feature[key].int64_list.value[0])

    def text(key: str) -> str:
        return feature[key].bytes_list.value[0].decode("utf-8", "surrogateescape")

    try:
        sides = [feature[f"image/object/bbox/{side}"].float_list.value for side in _BOX_KEYS]
        return Example(
            key=text("image/filename"),
            encoded=feature["image/encoded"].bytes_list.value[0],
            format=text("image/format"),
            height=number("image/height"),
            width=number("image/width"),
            colorspace=text("image/colorspace"),
            class_index=number("image/class/label") - LABEL_BASE,
            synset=text("image/class/synset"),
            class_name=text("image/class/text"),
            boxes=tuple(zip(*sides, strict=True)),
        )
    except (IndexError, ValueError) as error:
        keys = ", ".join(sorted(message.features.feature)) or "none"
        raise SinkError(f"a tf.train.Example without the image keys; it has: {keys}") from error
