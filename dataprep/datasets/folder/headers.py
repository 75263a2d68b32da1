"""What headers of DICOM images tell of them, and of nobody: a whitelist, and keyed hashes."""

from __future__ import annotations

import hmac
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from msgspec.structs import replace

from dataprep.archives.open_files import open_container
from dataprep.archives.packed import Copy
from dataprep.datasets.base import OLDEST, TOO_OLD
from dataprep.datasets.folder.options import HASHED, FolderOptions
from dataprep.datasets.reading import read_image
from dataprep.errors import ImageError, SourceError, UsageError
from dataprep.rows import Row
from dataprep.system.messages import printable, unreadable
from dataprep_schemas.fields import Field, Fields, KindName, Value

_HEAD: Final = 1 << 18  # bytes of a file that are read first; what is asked for is in them
_LOOKS: Final = 16  # files looked at at once
_SECRET: Final = 32  # characters of a key, at least
_MOST: Final = 4096  # of them


def _years(text: str) -> int | None:
    """50 of ``050Y``, ``50Y`` or ``50``; days, weeks and months are counted in whole years."""
    found = re.fullmatch("([0-9]{1,9}) *([DWMY]?)", text.strip().upper())
    return int(found[1]) // {"D": 365, "W": 52, "M": 12}.get(found[2], 1) if found else None


def _age(text: str) -> int | None:
    """Years that a person may have."""
    years = _years(text)
    return None if years is None or years > OLDEST else years


def _decade(text: str) -> int | None:
    """50 of 50 to 59; 90 of all above."""
    years = _age(text)
    return None if years is None else min(years // 10 * 10, 90)


def _only(text: str, form: str) -> str | None:
    """Text of a form: what else stands there may be a name."""
    return text if re.fullmatch(form, text, re.ASCII) else None


_CODE: Final = partial(_only, form="[A-Z0-9 _]{1,16}")  # DICOM's CS


def _spacing(text: str, at: int) -> float | None:
    """In mm, of two numbers: that of rows, then that of columns."""
    found = re.fullmatch(r"([0-9.]{1,16}) *\\ *([0-9.]{1,16})", text)
    with suppress(ValueError):
        return float(found[at]) if found else None
    return None


# The elements of which the first that is there tells, and what is made of it. None has a name, a
# date, or an identifier that is not hashed.
_KNOWN: Final[Mapping[str, tuple[tuple[str, ...], Callable[[str], Value | None]]]] = {
    "view": (("ViewPosition",), _CODE),
    "laterality": (("ImageLaterality", "Laterality"), _CODE),
    "body_part": (("BodyPartExamined",), _CODE),
    "age": (("PatientAge",), _decade),
    "sex": (("PatientSex",), partial(_only, form="[MFO]")),
    "manufacturer": (("Manufacturer",), partial(_only, form=r"[\w .,&/()+-]{1,64}")),
    "row_spacing": (("PixelSpacing", "ImagerPixelSpacing"), partial(_spacing, at=1)),
    "column_spacing": (("PixelSpacing", "ImagerPixelSpacing"), partial(_spacing, at=2)),
    "study": (("StudyInstanceUID",), str),
    "patient": (("PatientID",), str),
    "age_years": (("PatientAge",), _age),
}


_KINDS: Final[Mapping[str, KindName]] = {
    **dict.fromkeys(("age", "age_years"), "int"),
    **dict.fromkeys(("row_spacing", "column_spacing"), "float"),
}


def header_fields(options: FolderOptions) -> Fields:
    """What headers tell.

    Raises:
        UsageError: pydicom is not installed.
    """
    names = options.dicom_attributes
    if names and find_spec("pydicom") is None:
        raise UsageError("--dicom_attributes needs pydicom; pip install 'dataprep-shards[dicom]'")
    return tuple(Field(it, _KINDS.get(it, "text")) for it in names)


# Of each image in a file: which of how many frames it is, and the texts of its header.
Told = list[tuple[tuple[int, ...], dict[str, str]]]


class KeyedHash:
    """HMAC-SHA-256 with the key in a file: without it nobody can try which name makes a hash.

    Raises:
        UsageError: the file has no key that could not be guessed.
    """

    def __init__(self, path: Path) -> None:
        try:
            with path.open("rb") as file:
                self._secret = file.read(_MOST).strip()
        except OSError as error:
            raise unreadable(str(path), error) from error
        if len(self._secret) < _SECRET:
            raise UsageError(
                f"--hash_key {printable(str(path))}: {len(self._secret)} characters, expected "
                f"{_SECRET} or more; make it with: openssl rand -hex 32 > FILE"
            )

    def of(self, kind: str, text: str) -> str:
        """64 hexadecimal digits; the same text hashes differently as another kind."""
        return hmac.new(self._secret, f"{kind}\0{text}".encode(), "sha256").hexdigest()

    @property
    def fingerprint(self) -> str:
        """What tells keys apart, and tells nothing of them."""
        return self.of("fingerprint", "")[:16]


class Headers:
    """Completes rows by what headers of DICOM images tell, and with keys as they are wanted.

    Args:
        hashes: what hashes what tells of people; None: nothing is hashed.

    Attributes:
        counts: how many ages are nobody's, so far.
    """

    def __init__(self, raw: Path, options: FolderOptions, hashes: KeyedHash | None) -> None:
        self._raw, self._options, self._hashes = raw, options, hashes
        self._tags = {tag for name in options.dicom_attributes for tag in _KNOWN[name][0]}
        self.counts: Counter[str] = Counter()

    def hashed(self, kind: str, text: str) -> str:
        """A key, or the name of a file; as it is where keys are no hashes."""
        if self._hashes is None or not self._options.hash_keys:
            return text
        return self._hashes.of(kind, text)

    def complete(
        self,
        found: Iterable[tuple[str, Row]],
        restarts: tuple[str, bytes] = ("", b""),
        copy: Copy | None = None,
        *,
        read: bool = True,
    ) -> Iterable[tuple[str, Row]]:
        """Splits and rows with what is known besides; of a file of several frames a row each.

        Args:
            restarts: the file of restart points, its name and what is in it.
            copy: what their archive is unpacked to.
            read: whether there are headers.

        Raises:
            SourceError: a file cannot be read, or does not say what images are grouped by.
        """
        read = read and bool(self._tags or self._options.frames)
        if not (read or self._options.hash_keys):
            return found
        images = list(found)
        texts: list[Told] = [[((), {})]] * len(images)
        if read:
            with TemporaryDirectory() as index, ThreadPoolExecutor(_LOOKS) as pool:
                if restarts[1]:
                    (Path(index) / restarts[0]).write_bytes(restarts[1])
                if copy is not None:
                    (Path(index) / copy.name).symlink_to(Path(copy.file.name).absolute())
                rows = [row for _, row in images]
                texts = list(pool.map(lambda row: self._texts_of(row, Path(index)), rows))
            ages = (told.get("PatientAge", "") for some in texts for _, told in some)
            if old := sum((_years(age) or 0) > OLDEST for age in ages):
                self.counts[TOO_OLD] += old
        return [
            self._completed(split, row, frame, self._fields(row, told) if read else {})
            for (split, row), some in zip(images, texts, strict=True)
            for frame, told in some
        ]

    def _completed(
        self, split: str, row: Row, frame: tuple[int, ...], fields: Mapping[str, Value]
    ) -> tuple[str, Row]:
        options, key, group = self._options, row.key, row.group
        if frame and options.frames == "all":
            # Of splits that folders tell, each may have a file of that name.
            group = group or (f"{split}/{key}" if split else key)
            key = f"{key}#{frame[0]}"
        if options.groups_by_header and fields:
            group = str(fields[options.group_by])
            if options.cut and not options.stratify:
                split = options.cut.split_of(group)
        key = self.hashed("key", key)
        return split, replace(row, key=key, group=group, fields=fields, frame=frame)

    def _fields(self, row: Row, texts: Mapping[str, str]) -> dict[str, Value]:
        found: dict[str, Value] = {}
        for name in self._options.dicom_attributes:
            tags, rule = _KNOWN[name]
            text = next((texts[tag] for tag in tags if texts.get(tag)), "")
            value = rule(text) if text else None
            if value is not None:
                if name in HASHED and self._hashes is not None:
                    value = self._hashes.of(name, str(value))
                found[name] = value
        group_by = self._options.group_by
        if self._options.groups_by_header and group_by not in found:
            raise SourceError(
                f"{printable(row.container)}: its header has no {_KNOWN[group_by][0][0]}, by "
                f"which --group_by {group_by} keeps images together; move it out of the raw "
                "directory, or group by something else"
            )
        return found

    def _texts_of(self, row: Row, index: Path) -> Told:
        # They load numpy and Pillow, which --help does not need.
        from dataprep.images.dicom import header_of, is_dicom
        from dataprep.recipe import MAX_IMAGE_BYTES

        nothing: Told = [((), {})]
        tags, frames = self._tags, self._options.frames or ""
        with suppress(ImageError):  # it is told when the image is made
            if row.offset == 0:
                try:
                    head = open_container(self._raw, row.container).read_at(0, _HEAD)
                except OSError as error:
                    raise unreadable(row.container, error) from error
                if not is_dicom(head):
                    return nothing
                with suppress(*[ImageError] * (row.size > _HEAD)):  # it may end within an element
                    if (found := header_of(head, tags, frames)) is not None or row.size <= _HEAD:
                        return found or nothing
            data = read_image(self._raw, row, index, most=MAX_IMAGE_BYTES)
            return (is_dicom(data) and header_of(data, tags, frames)) or nothing
        return nothing
