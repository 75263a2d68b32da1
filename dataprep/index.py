"""One row per example: where its bytes are, and what it is. Nothing is unpacked."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Box = tuple[float, float, float, float]
Value = int | str
Packing = tuple[int | str, ...]

_ENCODER = json.JSONEncoder(separators=(",", ":"))  # making one takes as long as a row


@dataclass(frozen=True, slots=True)
class Row:
    """Where one example's bytes are and what they show.

    Attributes:
        key: the example's name within its split, unique there, the same for every raw
            layout: ``n01440764/n01440764_10026.JPEG``, ``00000001_000.png``. It is data, never
            a path.
        container: the file to read, relative to the raw directory: the image itself or
            the archive that holds it.
        offset: where in the container the image's bytes start; of a gzip archive, in what it
            unpacks to. 0 means that the container is the image itself.
        size: how many bytes the image has, unpacked.
        modified: the modification time, in whole seconds since 1970, of the file in a
            tree or of the archive member; part of the index's digest, so that a scan that finds
            it changed is noticed.
        labels: 0-based indices into the data set's class list, ascending; exactly one where
            classes exclude each other.
        boxes: bounding boxes, each (xmin, ymin, xmax, ymax) as fractions of the width and
            height of the image.
        box_labels: what each box shows, 0-based; empty where all show the only label.
        attributes: what else is known of the example, by name; what is missing is left out.
        group: who or what it belongs to: two examples of one group are never in two splits.
            Empty where there are no groups.
        packing: how the bytes lie in the container; empty if as they are. ``("stored", CRC-32)``
            or ``("deflate", compressed size, CRC-32)`` in a zip archive; ``("gzip", name)`` in a
            gzip archive, whose restart points are in the index under that name.
    """

    key: str
    container: str
    offset: int
    size: int
    modified: int
    labels: tuple[int, ...]
    boxes: tuple[Box, ...] = ()
    box_labels: tuple[int, ...] = ()
    attributes: Mapping[str, Value] = field(default_factory=dict)
    group: str = ""
    packing: Packing = ()

    def to_json(self) -> str:
        """The row as one line of JSON, without the newline."""
        labels = self.labels[0] if len(self.labels) == 1 else self.labels
        fields: list[object] = [self.key, self.container, self.offset, self.size]
        fields += [self.modified, labels]
        if rest := self._rest():
            fields.append(rest)
        return _ENCODER.encode(fields)

    @classmethod
    def from_json(cls, line: str | bytes) -> Row:
        """The inverse of `to_json`."""
        # Decoded here because json.loads would first guess the encoding of every line.
        fields = json.loads(line.decode() if isinstance(line, bytes) else line)
        key, container, offset, size, modified, labels, *rest = fields
        row_labels = (labels,) if isinstance(labels, int) else tuple(labels)
        if not rest:
            return cls(key, container, offset, size, modified, row_labels)
        return cls(key, container, offset, size, modified, row_labels, **_restored(rest[0]))

    def facts(self) -> bytes:
        """What of the row shapes the output, as one line: the same for every raw layout."""
        labels = "|".join(map(str, self.labels))
        fields = [self.key, str(self.size), labels]
        known = {
            name: value for name, value in self._rest().items() if name not in ("group", "packing")
        }
        if known:
            fields.append(json.dumps(known, separators=(",", ":"), sort_keys=True))
        return ("\0".join(fields) + "\n").encode("utf-8", "surrogateescape")

    def _rest(self) -> dict[str, Any]:
        """The fields that most rows lack, by name."""
        rest: dict[str, Any] = {}
        if self.boxes:
            rest["boxes"] = self.boxes
        if self.box_labels:
            rest["box_labels"] = self.box_labels
        if self.attributes:
            rest["attributes"] = dict(self.attributes)
        if self.group:
            rest["group"] = self.group
        if self.packing:
            rest["packing"] = self.packing
        return rest


def _restored(rest: dict[str, Any]) -> dict[str, Any]:
    if "boxes" in rest:
        rest["boxes"] = tuple(tuple(box) for box in rest["boxes"])
    for name in ("box_labels", "packing"):
        if name in rest:
            rest[name] = tuple(rest[name])
    return rest


@dataclass(frozen=True, slots=True)
class Ignored:
    """Something in the raw data that is not an image and was left out, and why."""

    container: str
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Unmatched:
    """An image that is listed but not there (``missing``), or there but not listed.

    Attributes:
        kind: which of the two.
        name: the image's name.
        where: the list that names it, or the directory or archive that holds it.
        split: the split it would belong to; empty if nobody knows.
    """

    kind: Literal["missing", "unlisted"]
    name: str
    where: str
    split: str = ""


@dataclass(frozen=True, slots=True)
class Scanned:
    """What one scan unit holds.

    Attributes:
        rows: by split; of each split sorted by key.
        ignored: what is no image.
        unmatched: images that are not listed, or listed files that are not there.
        classes: what the rows' labels are indices into, if only scanning tells which classes
            there are; None if they are indices into `Dataset.classes`.
        counts: how often something happened that the user should know of, by what happened:
            ``{"age out of range": 16}``.
        restarts: the restart points of a gzip archive, as bytes for a file of the index; empty if
            the unit is none.
    """

    rows: Mapping[str, Sequence[Row]]
    ignored: Sequence[Ignored] = ()
    unmatched: Sequence[Unmatched] = ()
    classes: Sequence[str] | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    restarts: bytes = b""
