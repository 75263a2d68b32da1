"""The tf.train.Example of one image, as the ResNet-50 readers of the field expect it.

The nine keys of Google's ``imagenet_to_gcs.py`` with its types, plus ``image/class/text`` and
the bounding box keys that the tf_cnn_benchmarks, slim and NVIDIA readers ask for, plus
``image/key``, our own, with the whole key of which ``image/filename`` is the end. Readers pass
over features that they do not ask for.

Labels are 1-based (0 is background); of a multi-label set ``image/class/label`` is a vector of
zeros and ones, one a class, and ``image/object/bbox/label`` has each box's place in that vector,
0-based, with its name in ``image/object/class/text``. What else is known of the example is in
``attribute/<name>``, an int64 or text, which is not there where it is missing. Map keys are
serialised in sorted order, so equal examples have equal bytes.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache

from dataprep.errors import SinkError
from dataprep.sinks.example import DatasetInfo, Example, to_bytes, to_text
from dataprep.system.messages import printable
from dataprep.tables import Box, Value
from dataprep_schemas import example_pb2

LABEL_BASE = 1
_BOX_KEYS = ("xmin", "ymin", "xmax", "ymax")
_BOX_LABELS = "image/object/bbox/label"
_ATTRIBUTE = "attribute/"

# Protocol buffers' wire format: in front of a field its number << 3 | its type, which is always 2,
# "so many bytes", here. The numbers are those of schemas/dataprep_schemas/example.proto.
_ENTRY = b"\x0a"  # field 1: of Example, of Features, and of a map entry, its key
_FEATURE = b"\x12"  # field 2 of a map entry
_BYTES, _FLOATS, _INTS = b"\x0a", b"\x12", b"\x1a"  # the lists a Feature may be
_VALUE = b"\x0a"  # field 1 of a list: one of the texts, or all of the numbers
_NUMBER = rb"([\x80-\xff]{0,4}[\0-\x7f])"
_HEAD = re.compile(_ENTRY + _NUMBER)
_IMAGE = re.compile(rb"\x0a\x0dimage/encoded(?:[\x12\x0a]" + _NUMBER + rb"){3}")
_SHORT = tuple(bytes((number,)) for number in range(0x80))
_LARGEST = 2**31 - 1  # bytes of a message
_REMEMBERED = 1 << 12  # features that come again and again, such as a class or a height


def encode(example: Example, info: DatasetInfo) -> tuple[bytes, bytes, bytes]:
    """The serialised tf.train.Example in three pieces: before the image, the image, behind it.

    The image is not copied, as the protobuf library would do three times; what the library gives
    is the same.

    Raises:
        SinkError: more bytes than a protocol buffer holds.
    """
    labels = example.labels
    stored = tuple(info.multi_hot(labels)) if info.multilabel else (labels[0] + LABEL_BASE,)
    before = [
        _ints(_ATTRIBUTE + name, (value,))
        if isinstance(value, int)
        else _texts(_ATTRIBUTE + name, value)
        for name, value in sorted(example.attributes.items())
    ]
    kind = example.channels, stored, example.synset, example.class_name, example.colorspace
    before.append(_class_features(*kind))
    shown = tuple(info.names((label,)) for label in example.box_labels)
    behind = b"".join(
        (
            _texts("image/filename", example.filename),
            _texts("image/format", example.format),
            _ints("image/height", (example.height,)),
            _texts("image/key", example.key),
            _box_features(example.boxes, example.box_labels if info.multilabel else stored, shown)
            if example.boxes
            else _NO_BOXES,
            _ints("image/width", (example.width,)),
        )
    )
    size = len(example.encoded)
    before.append(_image_opening(size))
    features = _opening(_ENTRY, b"".join(before), size + len(behind))
    if len(features) + size + len(behind) > _LARGEST:
        raise SinkError(f"{size} bytes; a protocol buffer holds 2 GB")
    return features, example.encoded, behind


def decode(data: bytes, info: DatasetInfo) -> Example:
    """The inverse of `encode`; also reads what Google's and slim's scripts wrote.

    Of a feature other than the image and its label that is missing, the value comes from ``info``
    or from the image's own header; the key is then the file name.

    Raises:
        SinkError: ``data`` lacks the image or the label, or its label is not of this data set or
            another than its synset.
        ImageError: an image without height, width or format has no header either.
        DecodeError: it is not a tf.train.Example.
    """
    feature = example_pb2.Example.FromString(data).features.feature

    # Asking for a feature that is missing would add it.
    def texts(key: str) -> Sequence[bytes]:
        return feature[key].bytes_list.value if key in feature else ()

    def text(key: str) -> str:
        return to_text(texts(key)[0]) if texts(key) else ""

    def numbers(key: str) -> Sequence[int]:
        return feature[key].int64_list.value if key in feature else ()

    def floats(key: str) -> Sequence[float]:
        return feature[key].float_list.value if key in feature else ()

    images, label = texts("image/encoded"), numbers("image/class/label")
    if not images or not (label or info.multilabel):
        keys = ", ".join(sorted(feature)) or "none"
        raise SinkError(f"a tf.train.Example without the image keys; it has: {keys}")
    # Several numbers are zeros and ones even where nothing is known.
    multilabel = info.multilabel or (not info.classes and len(label) > 1)
    if not multilabel and len(label) != 1:
        raise SinkError(f"there are {len(label)} labels, expected one")
    labels = info.labels_of(label) if multilabel else (label[0] - LABEL_BASE,)
    synset = text("image/class/synset")
    sizes = numbers("image/height"), numbers("image/width")
    found = info.example(
        text("image/key") or text("image/filename"),
        images[0],
        labels,
        kind=text("image/format"),
        size=(sizes[0][0], sizes[1][0]) if all(sizes) else None,
        boxes=tuple(zip(*(floats(f"image/object/bbox/{it}") for it in _BOX_KEYS), strict=True)),
        box_labels=tuple(numbers(_BOX_LABELS)) if multilabel else (),
        attributes=_attributes(feature),
        colorspace=text("image/colorspace") or None,
        synset=synset or None,
        class_name=text("image/class/text") or None,
    )
    if synset and info.classes and synset != (known := info.identifiers(labels)):
        raise SinkError(f"its label is that of {known!r}, but its synset is {synset!r}")
    return found


def image_of(data: bytes) -> bytes | None:
    """The image alone, of what `encode` made; None where only `decode` can tell.

    Entry by entry up to the image's: searched for, its opening may be part of a hostile name.
    """
    head = _HEAD.match(data)
    if not head or _value(head[1]) != len(data) - head.end():
        return None
    at = head.end()
    while entry := _HEAD.match(data, at):
        if image := _IMAGE.match(data, entry.end()):
            start, size = image.end(), _value(image[1])
            is_ours = data.endswith(_image_opening(size), 0, start)
            return data[start : start + size] if is_ours else None
        at = entry.end() + _value(entry[1])
    return None


def _image_opening(size: int) -> bytes:
    return _feature("image/encoded", _BYTES, _opening(_VALUE, b"", size), size)


def _value(varint: bytes) -> int:
    """The inverse of `_varint`, of numbers that are not negative."""
    value = 0
    for byte in reversed(varint):
        value = value << 7 | byte & 0x7F
    return value


@lru_cache(_REMEMBERED)
def _class_features(
    channels: int, labels: tuple[int, ...], synset: str, class_name: str, colorspace: str
) -> bytes:
    return b"".join(
        (
            _ints("image/channels", (channels,)),
            _ints("image/class/label", labels),
            _texts("image/class/synset", synset),
            _texts("image/class/text", class_name),
            _texts("image/colorspace", colorspace),
        )
    )


def _box_features(boxes: tuple[Box, ...], labels: tuple[int, ...], shown: tuple[str, ...]) -> bytes:
    """The boxes, with a label each; one for all is repeated."""
    labels = labels if len(labels) == len(boxes) else labels * len(boxes)
    found = [_ints(_BOX_LABELS, labels)]
    for side in sorted(_BOX_KEYS):
        numbers = [box[_BOX_KEYS.index(side)] for box in boxes]
        packed = struct.pack(f"<{len(boxes)}f", *numbers)
        found.append(_feature(f"image/object/bbox/{side}", _FLOATS, _packed(packed)))
    if shown:
        found.append(_texts("image/object/class/text", *shown))
    return b"".join(found)


@lru_cache(_REMEMBERED)
def _ints(name: str, numbers: tuple[int, ...]) -> bytes:
    return _feature(name, _INTS, _packed(b"".join(map(_varint, numbers))))


def _texts(name: str, *texts: str) -> bytes:
    return _feature(name, _BYTES, b"".join(_opening(_VALUE, to_bytes(text)) for text in texts))


def _packed(numbers: bytes) -> bytes:
    return _opening(_VALUE, numbers) if numbers else b""


def _feature(name: str, kind: bytes, values: bytes, more: int = 0) -> bytes:
    """A map entry, name and Feature; or its beginning, if so many bytes of values are to come."""
    feature = _opening(_FEATURE, _opening(kind, values, more), more)
    return _opening(_ENTRY, _opening(_ENTRY, name.encode()) + feature, more)


def _opening(tag: bytes, data: bytes, more: int = 0) -> bytes:
    """A field; or its beginning, if so many bytes are to come behind ``data``."""
    return tag + _varint(len(data) + more) + data


def _varint(number: int) -> bytes:
    """Seven bits a byte, the lowest first; what is negative as 64 bits of two's complement."""
    if 0 <= number < 0x80:
        return _SHORT[number]
    number &= 2**64 - 1
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


_NO_BOXES = _box_features((), (), ())


def _attributes(feature: Mapping[str, example_pb2.Feature]) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for key in sorted(key for key in feature if key.startswith(_ATTRIBUTE)):
        numbers, texts = feature[key].int64_list.value, feature[key].bytes_list.value
        if len(numbers) + len(texts) != 1:
            raise SinkError(f"{printable(key)} has {len(numbers) + len(texts)} values, expected 1")
        value = numbers[0] if numbers else to_text(texts[0])
        found[key.removeprefix(_ATTRIBUTE)] = value
    return found
