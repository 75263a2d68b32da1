"""One row per example: where its bytes are, and what it is. Nothing is unpacked."""

from __future__ import annotations

import json
from dataclasses import dataclass

Box = tuple[float, float, float, float]

_PLAIN_FIELDS = 6  # how many fields a row without boxes has


@dataclass(frozen=True, slots=True)
class Row:
    """Where one example's bytes are and what they show.

    Attributes:
        key: the example's name within its split, unique there, the same for every raw
            layout: ``n01440764/n01440764_10026.JPEG`` for training images,
            ``ILSVRC2012_val_00000001.JPEG`` for validation images. It is data, never a path.
        container: the file to read, relative to the raw directory: the image itself or
            the archive that holds it.
        offset: where in the container the image's bytes start.
        size: how many bytes the image has.
        modified: the modification time, in whole seconds since 1970, of the file in a
            tree or of the archive member; part of the index's digest, so that a scan that finds
            it changed is noticed.
        class_index: 0-based index into the data set's class list.
        boxes: bounding boxes, each (xmin, ymin, xmax, ymax) as fractions of the width and
            height of the image.
    """

    key: str
    container: str
    offset: int
    size: int
    modified: int
    class_index: int
    boxes: tuple[Box, ...] = ()

    def to_json(self) -> str:
        """The row as one line of JSON, without the newline."""
        fields: list[object] = [self.key, self.container, self.offset, self.size]
        fields += [self.modified, self.class_index]
        if self.boxes:
            fields.append(self.boxes)
        return json.dumps(fields, separators=(",", ":"))

    @classmethod
    def from_json(cls, line: str | bytes) -> Row:
        """The inverse of `to_json`."""
        # Decoded here because json.loads would first guess the encoding of every line.
        fields = json.loads(line.decode() if isinstance(line, bytes) else line)
        if len(fields) > _PLAIN_FIELDS:
            fields[_PLAIN_FIELDS] = tuple(tuple(box) for box in fields[_PLAIN_FIELDS])
        return cls(*fields)


@dataclass(frozen=True, slots=True)
class Ignored:
    """Something in the raw data that is not an image and was left out, and why."""

    container: str
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Scanned:
    """What one directory or archive holds: rows sorted by key, and what was ignored."""

    rows: list[Row]
    ignored: list[Ignored]
