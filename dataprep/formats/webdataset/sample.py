"""One sample of a WebDataset archive: what it is called, its parts out, and an example in.

The parts are the image (``jpg`` or ``png``), ``cls`` (the 0-based class index in ASCII digits;
only where an image has one label, since webdataset decodes it as one integer) and ``json``: every
field of the example but the image, in ASCII, keys sorted, no blanks. ``attributes`` is there if
the data set has any, ``box_labels`` if something is said of what the boxes show. Where the data
set has captions, ``json`` has all, and ``txt`` the first, empty if there is none: ``datasets``
wants the same parts in every sample. An image with a mask has it as ``mask.png``.

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
from collections.abc import Collection, Mapping
from itertools import count
from typing import Any

import msgspec

from dataprep.errors import SinkError
from dataprep.formats.example import DatasetInfo, Example, as_stored, to_bytes, to_text
from dataprep_schemas.fields import BOXES, CAPTIONS, DECLARED, MASK, named
from dataprep_schemas.manifest import Examples

NAME_LIMIT = 100  # bytes of a name in a ustar header
PREFIX_LIMIT = 155  # and of the directories before it

IMAGES = {"jpg": "JPEG", "jpeg": "JPEG", "png": "PNG"}
MASK_PART = "mask.png"
PARTS = frozenset({*IMAGES, "cls", "txt", "json", MASK_PART})
_EXTENSIONS = {"JPEG": "jpg", "PNG": "png"}
# Others put a .json beside their images, too, with "key", "width" and what not. These are ours.
_OURS = {"class_name", "labels"}


# Of the data set's fields, those under names of their own; the others are in `attributes`.
_TOP = {name: it for name, it in DECLARED.items() if not (it.rules.plain or it == MASK)}
_APART = {*_TOP, MASK.name}


class _Said(msgspec.Struct, frozen=True):
    """The ``json`` of a sample, besides `_TOP`."""

    class_name: str
    colorspace: str
    format: str
    height: int
    key: str
    labels: tuple[int, ...]
    synset: str
    width: int
    attributes: dict[str, Any] = {}


_ALWAYS = [field.name for field in msgspec.structs.fields(_Said) if field.required]
_HUB_TYPES = {str: "string", int: "int64", tuple[int, ...]: "list<int64>"}


def encode(example: Example, info: DatasetInfo) -> list[tuple[str, bytes]]:
    """(extension, data) of every part, in the order of the archive."""
    parts = [(_EXTENSIONS[example.format], example.encoded)]
    if not info.multilabel:
        parts.append(("cls", b"%d" % example.labels[0]))
    values = example.fields
    said: dict[str, object] = {name: getattr(example, name) for name in _ALWAYS}
    said[BOXES.name] = ()
    if any(field.name not in _APART for field in info.fields):
        said["attributes"] = {name: values[name] for name in values if name not in _APART}
    for field in info.fields:
        if field.name in _TOP and (field.name in values or field == CAPTIONS):
            said[field.name] = values.get(field.name, ())
    if MASK.name in values:
        parts.append((MASK_PART, values[MASK.name]))
    if CAPTIONS in info.fields:
        parts.append(("txt", to_bytes("".join(values.get(CAPTIONS.name, ())[:1]))))
    data = json.dumps(said, separators=(",", ":"), sort_keys=True).encode("ascii")
    return [*parts, ("json", data)]


def hub_features(info: Examples, formats: Collection[str]) -> list[Mapping[str, Any]]:
    """The types of a sample's parts, as ``dataset_info`` of a card has them on Hugging Face.

    Without them, ``datasets`` takes the types of all from the first five samples: a list that is
    empty there stops it at the first that is not, and an attribute that is missing there is
    dropped from all.
    """
    said = {it.name: _HUB_TYPES[it.type] for it in msgspec.structs.fields(_Said) if it.required}
    said |= {BOXES.name: BOXES.rules.column}
    said |= {field.name: field.rules.column for field in info.fields if field.name in _TOP}
    own = {field.name: field.rules.column for field in info.fields if field.name not in _APART}
    features = [_hub_feature(name, said[name]) for name in sorted(said)]
    if own:
        attributes = [_hub_feature(name, column) for name, column in own.items()]
        features.append({"name": "attributes", "struct": attributes})
    images = [_EXTENSIONS[form] for form in sorted(formats)]
    images += [MASK_PART] if MASK in info.fields else []
    texts = ["__key__", "__url__", *(["txt"] if CAPTIONS in info.fields else [])]
    return [
        *(_hub_feature(name, "string") for name in texts),
        *(_hub_feature(name, "image") for name in images),
        *([] if info.multilabel else [_hub_feature("cls", "int64")]),
        {"name": "json", "struct": features},
    ]


def _hub_feature(name: str, column: str) -> Mapping[str, Any]:
    lists, single = column.count("list<"), column.replace("list<", "").rstrip(">")
    kind: Any = {"double": "float64", "float": "float64"}.get(single, single)
    if not lists:
        return {"name": name, "dtype": kind}
    for _ in range(lists - 1):
        kind = {"list": kind}
    return {"name": name, "list": kind}


def decode(stem: str, parts: Mapping[str, bytes], info: DatasetInfo) -> Example:
    """The example that a sample holds.

    Of a sample without our ``json``, the key is the stem, and the rest what the image's header,
    ``cls`` and ``txt`` say.

    Raises:
        SinkError: it has no image, or its parts contradict each other.
        ValueError: they are damaged; and whatever else damaged JSON brings about.
    """
    images = [extension for extension in parts if extension in IMAGES]
    if len(images) != 1:
        raise SinkError(f"it has {len(images)} images, expected 1 of {', '.join(IMAGES)}")
    encoded = parts[images[0]]
    labels = (int(parts["cls"]),) if "cls" in parts else ()
    caption = tuple(filter(None, [to_text(parts.get("txt", b""))]))
    mask = {MASK.name: parts.get(MASK_PART, b"")}
    # Not by msgspec's own parser, which takes no key that is not UTF-8.
    fields = json.loads(parts.get("json", b"null"))
    if not isinstance(fields, dict) or not _OURS & fields.keys():
        return info.example(stem, encoded, labels, fields={CAPTIONS.name: caption, **mask})
    said = msgspec.convert(fields, _Said)
    top = {
        name: msgspec.convert(fields[name], field.rules.type)
        for name, field in _TOP.items()
        if name in fields
    }
    if labels and said.labels != labels:
        raise SinkError(f"its .cls says {labels[0]}, its .json {[*said.labels]}")
    if caption and caption != top.get(CAPTIONS.name, ())[:1]:
        raise SinkError("its .txt is not the first caption of its .json")
    if said.format != IMAGES[images[0]]:
        raise SinkError(f"it is a .{images[0]}, but its .json says {said.format}")
    found = info.example(
        said.key,
        encoded,
        said.labels,
        kind=said.format,
        size=(said.height, said.width),
        fields={**said.attributes, **top, **mask},
    )
    words = {"colorspace": said.colorspace, "synset": said.synset, "class_name": said.class_name}
    return as_stored(found, **words)


# --- What it is called ---

_UNSAFE = re.compile(rb"[^A-Za-z0-9._+=@,~^%#!$&'()\[\]{};-]")
_DIGEST_CHARACTERS = 16


class Stems:
    """Names the samples of one shard.

    Memory: a 64-bit digest of every stem given, about 100 bytes in Python.
    """

    def __init__(self, info: DatasetInfo) -> None:
        self._taken: set[int] = set()
        longest = MASK_PART if named(info.fields, MASK.kind) else "json"
        self._limit = NAME_LIMIT - len(longest) - 1

    def name(self, key: str) -> str:
        """The stem for the next sample."""
        directory, base = _split(key)
        stem = directory + base
        if len(directory) > PREFIX_LIMIT or len(base) > self._limit:
            directory = _cut(directory)
            stem = directory + _marked(base, _digest(key), self._limit)
        attempts = count()
        while (taken := _number(stem)) in self._taken:
            attempt = next(attempts)
            # Keys are unique in a split; what else comes here would be a collision of digests.
            digest = _digest(f"{attempt}/{key}" if attempt else key)
            stem = _cut(directory) + _marked(base, digest, self._limit)
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
    data = to_bytes(text)
    return _UNSAFE.sub(lambda match: b"%%%02X" % match[0][0], data).decode("ascii")


def _cut(directory: str) -> str:
    """As many whole components from the front as fit."""
    if len(directory) <= PREFIX_LIMIT:
        return directory
    return directory[: directory.rfind("/", 0, PREFIX_LIMIT) + 1]


def _marked(base: str, digest: str, limit: int) -> str:
    return f"{base[: limit - len(digest) - 1]}-{digest}"


def _digest(key: str) -> str:
    data = to_bytes(key)
    return hashlib.sha256(data).hexdigest()[:_DIGEST_CHARACTERS]


def _number(stem: str) -> int:
    return int.from_bytes(hashlib.blake2b(stem.encode("ascii"), digest_size=8).digest(), "big")
