"""The tf.train.Example of one image, as the ResNet-50 readers of the field expect it.

The nine keys of Google's ``imagenet_to_gcs.py`` with its types, plus ``image/class/text`` and
the bounding box keys that the tf_cnn_benchmarks, slim and NVIDIA readers ask for, plus
``image/key``, our own, with the whole key of which ``image/filename`` is the end. Readers pass
over features that they do not ask for.

docs/formats.md has a table of them. Labels are 1-based, 0 is background. ``image/caption`` is what
TensorFlow's ``create_coco_tf_record.py`` writes, ``image/segmentation/class/encoded`` DeepLab's
``build_data.py``. Map keys are serialised in sorted order, so equal
examples have equal bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from dataprep.errors import SinkError
from dataprep.formats.example import DatasetInfo, Example, as_stored, to_bytes, to_text
from dataprep.system.messages import printable
from dataprep_schemas import example_pb2
from dataprep_schemas.fields import BOX_LABELS, BOXES, CAPTIONS, MASK, Box, Fields, Value

LABEL_BASE = 1
_BOX_KEYS = ("xmin", "ymin", "xmax", "ymax")
_BOX = "image/object/bbox/"
_BOX_LABELS = f"{_BOX}label"
_ATTRIBUTE = "attribute/"
_PUBLISHED = {"image/caption": CAPTIONS}
_MASK = "image/segmentation/class/"
# Boxes and masks have several features, which stand behind the image.
_KEYS = {field.name: key for key, field in _PUBLISHED.items()} | {
    BOXES.name: "",
    BOX_LABELS.name: "",
    MASK.name: "",
}
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
    kind = example.channels, stored, example.synset, example.class_name, example.colorspace
    before = [
        _feature_of(key, kind, example.fields[name])
        for key, kind, name in _features_of(info.fields)
        if name in example.fields
    ]
    boxes, shown = (example.fields.get(it.name, ()) for it in (BOXES, BOX_LABELS))
    names = tuple(info.names((label,)) for label in shown)
    box_labels = shown if info.multilabel else stored * len(boxes)
    behind = b"".join(
        (
            _text("image/filename", example.filename),
            _text("image/format", example.format),
            _ints("image/height", example.height),
            _text("image/key", example.key),
            _box_features(boxes, box_labels, names),
            *_mask_features(example.fields.get(MASK.name)),
            _ints("image/width", example.width),
        )
    )
    size = len(example.encoded)
    image = _bytes_opening("image/encoded", size)
    opening = b"".join((*before, _class_features(*kind), image))
    features = _field(1, opening, size + len(behind))
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

    encoded, label = _image(feature), numbers("image/class/label")
    if not (label or info.multilabel):
        raise _foreign(feature)
    # Several numbers are zeros and ones even where nothing is known.
    multilabel = info.multilabel or (not info.classes and len(label) > 1)
    if not multilabel and len(label) != 1:
        raise SinkError(f"there are {len(label)} labels, expected one")
    labels = info.labels_of(label) if multilabel else (label[0] - LABEL_BASE,)
    synset = text("image/class/synset")
    sizes = numbers("image/height"), numbers("image/width")
    found = info.example(
        text("image/key") or text("image/filename"),
        encoded,
        labels,
        kind=text("image/format"),
        size=(sizes[0][0], sizes[1][0]) if all(sizes) else None,
        fields={
            **dict(_fields(feature)),
            BOXES.name: tuple(zip(*(floats(_BOX + it) for it in _BOX_KEYS), strict=True)),
            BOX_LABELS.name: tuple(numbers(_BOX_LABELS)) if multilabel else (),
            MASK.name: (*texts(f"{_MASK}encoded"), b"")[0],
        },
    )
    if synset and info.classes and synset != found.synset:
        raise SinkError(f"its label is that of {found.synset!r}, but its synset is {synset!r}")
    colorspace, class_name = text("image/colorspace"), text("image/class/text")
    return as_stored(found, colorspace=colorspace, synset=synset, class_name=class_name)


def image_of(data: bytes) -> bytes:
    """The image alone; raises as `decode`."""
    return _image(example_pb2.Example.FromString(data).features.feature)


def _image(feature: Mapping[str, example_pb2.Feature]) -> bytes:
    if "image/encoded" not in feature or not (found := feature["image/encoded"].bytes_list.value):
        raise _foreign(feature)
    return found[0]


def _foreign(feature: Mapping[str, example_pb2.Feature]) -> SinkError:
    keys = ", ".join(sorted(feature)) or "none"
    return SinkError(f"a tf.train.Example without the image keys; it has: {keys}")


def _fields(feature: Mapping[str, example_pb2.Feature]) -> Iterator[tuple[str, Value]]:
    for key in sorted(feature):
        field = _PUBLISHED.get(key)
        if field is None and not key.startswith(_ATTRIBUTE):
            continue
        kind = feature[key].WhichOneof("kind") or ""
        values = getattr(feature[key], kind).value if kind else ()
        values = tuple(map(to_text, values)) if kind == "bytes_list" else tuple(values)
        if field is not None:
            yield field.name, values
        elif len(values) == 1:
            yield key.removeprefix(_ATTRIBUTE), values[0]
        else:
            raise SinkError(f"{printable(key)} has {len(values)} values, expected 1")


@lru_cache(_REMEMBERED)
def _class_features(
    channels: int, labels: tuple[int, ...], synset: str, class_name: str, colorspace: str
) -> bytes:
    return b"".join(
        (
            _ints("image/channels", channels),
            _ints("image/class/label", *labels),
            _texts("image/class/synset", synset),
            _texts("image/class/text", class_name),
            _texts("image/colorspace", colorspace),
        )
    )


@lru_cache(_REMEMBERED)
def _box_features(boxes: tuple[Box, ...], labels: tuple[int, ...], shown: tuple[str, ...]) -> bytes:
    found = [_ints(_BOX_LABELS, *labels)]
    for side in sorted(_BOX_KEYS):
        numbers = [box[_BOX_KEYS.index(side)] for box in boxes]
        found.append(_feature(_BOX + side, "float_list", numbers))
    if shown:
        found.append(_texts("image/object/class/text", *shown))
    return b"".join(found)


def _mask_features(mask: bytes | None) -> Iterator[bytes]:
    if mask is not None:
        yield _bytes_opening(f"{_MASK}encoded", len(mask)) + mask
        yield _texts(f"{_MASK}format", "png")


@lru_cache
def _features_of(fields: Fields) -> list[tuple[str, str, str]]:
    """Key, kind and field of every feature that may stand before the image."""
    found = ((_KEYS.get(it.name, _ATTRIBUTE + it.name), it.rules.feature, it.name) for it in fields)
    return sorted(it for it in found if it[0])


def _feature_of(name: str, kind: str, value: Value) -> bytes:
    values = value if isinstance(value, tuple) else (value,)
    if kind == "int64_list":
        return _ints(name, *values)
    return _feature(name, kind, map(to_bytes, values) if kind == "bytes_list" else values)


@lru_cache(_REMEMBERED)
def _ints(name: str, *numbers: int) -> bytes:
    return _feature(name, "int64_list", numbers)


def _texts(name: str, *texts: str) -> bytes:
    return _feature(name, "bytes_list", map(to_bytes, texts))


def _feature(name: str, kind: str, values: Iterable[object]) -> bytes:
    """One entry of the map: maps of one entry each, behind one another, are the whole map."""
    features = example_pb2.Features()
    stored = getattr(features.feature[name], kind)
    stored.SetInParent()  # of this kind even without values
    stored.value.extend(values)
    return features.SerializeToString()


# Protocol buffers' wire format by hand, for what stands before the image, and for what differs from
# image to image. The numbers of the fields are those of schemas/dataprep_schemas/example.proto; an
# entry of a map has its key in field 1 and its value in field 2.


def _text(name: str, text: str) -> bytes:
    data = to_bytes(text)
    return _text_opening(name, len(data)) + data


def _bytes_opening(name: str, size: int) -> bytes:
    """The entry of a feature of bytes up to its ``size`` bytes."""
    values = _field(1, b"", size)  # of a BytesList
    feature = _field(2, _field(1, values, size), size)  # a Feature that is a BytesList
    return _field(1, _field(1, name.encode()) + feature, size)


_text_opening = lru_cache(_REMEMBERED)(_bytes_opening)


def _field(number: int, data: bytes, more: int = 0) -> bytes:
    """A field of bytes; or its beginning, if so many bytes are to come behind ``data``."""
    opening = bytearray((number << 3 | 2,))  # 2: its length comes next, 7 bits a byte
    left = len(data) + more
    while left > 0x7F:
        opening.append(left & 0x7F | 0x80)
        left >>= 7
    opening.append(left)
    return bytes(opening) + data
