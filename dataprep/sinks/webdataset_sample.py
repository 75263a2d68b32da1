"""One sample of a WebDataset archive: what it is called, its parts out, and an example in.

The parts are the image (``jpg`` or ``png``), ``cls`` (the 0-based class index in ASCII digits;
only where an image has one label, since webdataset decodes it as one integer) and ``json``: every
field of the example but the image, in ASCII, keys sorted, no blanks. ``attributes`` is there if
the data set has any, ``box_labels`` if something is said of what the boxes show.

Readers take members for one sample if their names are equal up to the first dot behind the last
slash, and are adjacent (webdataset, DALI) or anywhere in the shard (tools that unpack, or that make
a database of it). The index of DALI's ``wds2idx`` separates its fields by blanks, and takes the
names from GNU tar's listing, which escapes what is not ASCII. So a stem

* is the key without its last extension, other dots in its last component replaced by ``_``;
* is printable ASCII without blanks and without what file systems forbid: of any other character,
  the UTF-8 bytes are written ``%E5``;
* is relative, without empty components, ``.`` and ``..``; nor has its first component the form
  ``__x__``, which webdataset skips as metadata;
* fits a ustar header: a longer one is cut, and gets a digest of the key;
* is unique in its shard: the second of two equal ones gets a digest of its key.

It is for people and tools; the key itself is in the sample's ``.json``.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from itertools import count
from typing import Any

from dataprep.errors import ImageError, SinkError
from dataprep.sinks.annotations import (
    attributes_to_store,
    box_labels_to_store,
    check_box_labels,
    from_image,
    label_found,
    labels_to_store,
)
from dataprep.sinks.base import DatasetInfo
from dataprep.sinks.example import Example

NAME_LIMIT = 100  # bytes of a name in a ustar header
PREFIX_LIMIT = 155  # and of the directories before it

IMAGES = {"jpg": "JPEG", "jpeg": "JPEG", "png": "PNG"}
PARTS = frozenset({*IMAGES, "cls", "json"})
_EXTENSIONS = {"JPEG": "jpg", "PNG": "png"}
_CLASS = re.compile(rb"\s*([0-9]{1,18})\s*")
# Others put a .json beside their images, too, with "key", "width" and what not. These are ours.
_OURS = ("class_name", "labels")


def encode(example: Example, info: DatasetInfo) -> list[tuple[str, bytes]]:
    """(extension, data) of every part, in the order of the archive.

    Raises:
        SinkError: it is not an encoded image, or its labels or attributes are not the data set's.
    """
    extension = _EXTENSIONS.get(example.format)
    if extension is None:
        raise SinkError(
            f"WebDataset holds JPEG and PNG images, not {example.format}; choose another sink"
        )
    labels = labels_to_store(example, info)
    parts = [(extension, example.encoded)]
    if not info.multilabel:
        parts.append(("cls", b"%d" % labels[0]))
    fields: dict[str, object] = {
        "boxes": example.boxes,
        "class_name": example.class_name,
        "colorspace": example.colorspace,
        "format": example.format,
        "height": example.height,
        "key": example.key,
        "labels": labels,
        "synset": example.synset,
        "width": example.width,
    }
    if info.attributes:
        fields["attributes"] = attributes_to_store(example, info)
    if box_labels := box_labels_to_store(example, info):
        fields["box_labels"] = box_labels
    parts.append(
        ("json", json.dumps(fields, separators=(",", ":"), sort_keys=True).encode("ascii"))
    )
    return parts


def decode(stem: str, parts: Mapping[str, bytes], info: DatasetInfo) -> Example:
    """The example that a sample holds.

    Of a sample without our ``json``, the key is the stem, and the rest what the image's header
    and ``cls`` say.

    Raises:
        SinkError: it has no image, or its parts are damaged or contradict each other.
    """
    images = [extension for extension in parts if extension in IMAGES]
    if len(images) != 1:
        raise SinkError(f"it has {len(images)} images, expected 1 of {', '.join(IMAGES)}")
    encoded = parts[images[0]]
    labels = _class(parts["cls"], info) if "cls" in parts else ()
    fields = own_fields(parts.get("json"))
    if fields is None:
        try:
            return from_image(stem, encoded, labels, info)
        except ImageError as error:
            raise SinkError(f"its image: {error}") from error
    example = _own(encoded, fields)
    if info.classes and example.labels and example.labels[-1] >= len(info.classes):
        raise SinkError(f"its labels are {example.labels}, of {len(info.classes)} classes")
    check_box_labels(example.box_labels, len(example.boxes), info)
    if "cls" in parts and example.labels != labels:
        raise SinkError(f"its .cls says {labels}, its .json {example.labels}")
    if example.format != IMAGES[images[0]]:
        raise SinkError(f"it is a .{images[0]}, but its .json says {example.format}")
    return example


def own_fields(data: bytes | None) -> dict[str, Any] | None:
    """What our ``json`` says, its types checked; None if it is somebody else's, or missing.

    Raises:
        SinkError: it is not JSON, or it is ours and damaged.
    """
    if data is None:
        return None
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise SinkError(f"its .json is not JSON: {error}") from error
    if not isinstance(fields, dict) or not any(name in fields for name in _OURS):
        return None
    for name, valid in _VALID.items():
        if name in _OPTIONAL and name not in fields:
            continue
        if name not in fields or not valid(fields[name]):
            found = f"has {str(fields[name])[:40]!r} for" if name in fields else "lacks"
            raise SinkError(f"its .json {found} {name!r}")
    return fields


def _own(encoded: bytes, fields: Mapping[str, Any]) -> Example:
    return Example(
        key=fields["key"],
        encoded=encoded,
        format=fields["format"],
        height=fields["height"],
        width=fields["width"],
        colorspace=fields["colorspace"],
        labels=tuple(fields["labels"]),
        synset=fields["synset"],
        class_name=fields["class_name"],
        boxes=tuple((box[0], box[1], box[2], box[3]) for box in fields["boxes"]),
        box_labels=tuple(fields.get("box_labels", ())),
        attributes=fields.get("attributes", {}),
    )


def _class(data: bytes, info: DatasetInfo) -> tuple[int, ...]:
    match = _CLASS.fullmatch(data)
    if not match:
        raise SinkError(f"its .cls is {data[:20]!r}, not a class index")
    return label_found(int(match[1]), info)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_size(value: object) -> bool:
    return type(value) is int and value > 0


def _are_labels(value: object) -> bool:
    return (
        isinstance(value, list)
        and all(type(label) is int and label >= 0 for label in value)
        and value == sorted(set(value))
    )


def _are_boxes(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(box, list) and len(box) == 4 and all(type(side) in (int, float) for side in box)
        for box in value
    )


def _are_box_labels(value: object) -> bool:
    return isinstance(value, list) and all(type(label) is int for label in value)


def _are_attributes(value: object) -> bool:
    return isinstance(value, dict) and all(type(one) in (int, str) for one in value.values())


_OPTIONAL = frozenset({"attributes", "box_labels"})
_VALID = {
    "attributes": _are_attributes,
    "box_labels": _are_box_labels,
    "boxes": _are_boxes,
    "class_name": _is_text,
    "colorspace": lambda value: value in ("RGB", "Grayscale"),
    "format": lambda value: value in ("JPEG", "PNG"),
    "height": _is_size,
    "key": _is_text,
    "labels": _are_labels,
    "synset": _is_text,
    "width": _is_size,
}


# --- What it is called ---

_UNSAFE = re.compile(rb"[^A-Za-z0-9._+=@,~^%#!$&'()\[\]{};-]")
_LONGEST_EXTENSION = len(".json")
_DIGEST_CHARACTERS = 16
_BASE_LIMIT = NAME_LIMIT - _LONGEST_EXTENSION


class Stems:
    """Names the samples of one shard.

    Memory: a 64-bit digest of every stem given, about 100 bytes in Python.
    """

    def __init__(self) -> None:
        self._taken: set[int] = set()

    def name(self, key: str) -> str:
        """The stem for the next sample."""
        directory, base = _split(key)
        stem = directory + base
        if len(directory) > PREFIX_LIMIT or len(base) > _BASE_LIMIT:
            directory = _cut(directory)
            stem = directory + _marked(base, _digest(key))
        attempts = count()
        while (taken := _number(stem)) in self._taken:
            attempt = next(attempts)
            # Keys are unique in a split; what else comes here would be a collision of digests.
            stem = _cut(directory) + _marked(base, _digest(f"{attempt}/{key}" if attempt else key))
        self._taken.add(taken)
        return stem


def _split(key: str) -> tuple[str, str]:
    """The directories with their last slash, or nothing; and the name without its extension."""
    *directories, last = [part for part in key.split("/") if part] or [""]
    base, dot, _ = last.rpartition(".")
    base = _safe(base if dot and base else last).replace(".", "_") or "_"
    if not directories:
        return "", base
    directories = [
        _safe(part) if part.strip(".") else part.replace(".", "%2E") for part in directories
    ]
    if directories[0].startswith("__") and directories[0].endswith("__"):
        directories[0] = "%5F" + directories[0][1:]
    return "/".join(directories) + "/", base


def _safe(text: str) -> str:
    data = text.encode("utf-8", "surrogateescape")
    return _UNSAFE.sub(lambda match: b"%%%02X" % match[0][0], data).decode("ascii")


def _cut(directory: str) -> str:
    """As many whole components from the front as fit."""
    if len(directory) <= PREFIX_LIMIT:
        return directory
    return directory[: directory.rfind("/", 0, PREFIX_LIMIT) + 1]


def _marked(base: str, digest: str) -> str:
    return f"{base[: _BASE_LIMIT - len(digest) - 1]}-{digest}"


def _digest(key: str) -> str:
    data = key.encode("utf-8", "surrogateescape")
    return hashlib.sha256(data).hexdigest()[:_DIGEST_CHARACTERS]


def _number(stem: str) -> int:
    return int.from_bytes(hashlib.blake2b(stem.encode("ascii"), digest_size=8).digest(), "big")
