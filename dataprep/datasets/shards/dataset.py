"""What others have packed: WebDataset, Parquet, TFRecord, RecordIO and MDS, as they are."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO, ClassVar, Final, Literal, cast
from unicodedata import normalize

from dataprep.archives.containers import is_alone, stat_fingerprint
from dataprep.archives.listing import StoredImage, clean_path, is_image_name, stem_of
from dataprep.archives.packed import Codec, Copy
from dataprep.datasets.base import (
    Classes,
    Dataset,
    Found,
    ScanUnit,
    wanted_splits,
)
from dataprep.datasets.lists import ClassList, load_class_list
from dataprep.datasets.raw_directory import in_batches
from dataprep.datasets.shards.boxes import CUT_OFF, EMPTY, boxes_of
from dataprep.datasets.shards.fields import (
    NUMBER,
    PEEKED,
    Taken,
    choose_fields,
    is_no_class,
    label_text,
    name_classes,
)
from dataprep.datasets.shards.layout import (
    SAMPLES,
    Kind,
    ShardsOptions,
    find_files,
    splits_of,
)
from dataprep.datasets.splits import in_usual_order
from dataprep.errors import SourceError
from dataprep.formats.mds import INDEX
from dataprep.formats.recordio import LISTED
from dataprep.formats.samples import LONGEST, Sample
from dataprep.formats.tfrecord import tfrecord_samples
from dataprep.formats.webdataset.listing import webdataset_samples
from dataprep.rows import Packing, Row, Scanned, Unmatched
from dataprep.system.messages import counted, printable, sized, some_of
from dataprep_schemas.fields import BOX_LABELS, BOXES, CAPTIONS, Box

# Part of every fingerprint: raise it whenever the same raw data would scan differently.
_SCAN_RULES: Final = 3
_LOOKED: Final = 10_000  # samples of a file that are searched for these
_PEEKED_OF_LISTS: Final = 256  # of these, where a list of one value is no list
Span = tuple[int, int]

_COPY_HEAD: Final = b"dataprep"  # so that no image is at offset 0, which says something else


@dataclass(frozen=True, slots=True)
class ShardsUnit(ScanUnit):
    """Consecutive files of one split, or one that is compressed; `container` is the first."""

    kind: Kind  # what they are
    split: str
    files: tuple[str, ...]
    fields: Taken  # what is taken of their samples
    codec: Codec | None = None  # by what the file is compressed

    @property
    def unpacked_by(self) -> Codec | None:
        """See `ScanUnit.unpacked_by`."""
        return self.codec


@dataclass(frozen=True)
class ShardsFound(Found):
    """What was found, and the classes of a list; None: nobody gave one."""

    known: ClassList | None = None


class Shards(Dataset):
    """Samples of files that others have packed.

    A key is what the samples are called: by a field, or by their container; else the path of the
    file and the sample's number in it.
    """

    name: ClassVar[str] = "shards"
    summary: ClassVar[
        str
    ] = """Images packed by others: WebDataset, Parquet, TFRecord, RecordIO, MDS.

    What the files are is told by their content, and their splits by their names or folders:
    train-00000-of-00016.parquet, imagenet-val-000000.tar, val/…. They are read where they lie;
    only what is compressed is copied once, below OUT, until the data set is sealed.
    """
    Options: ClassVar[type[ShardsOptions]] = ShardsOptions
    options: ShardsOptions
    formats: ClassVar[frozenset[Literal["JPEG", "PNG"]]] = frozenset({"JPEG", "PNG"})

    def name_classes(self, found: Found, names: Collection[str]) -> Classes:
        """The classes by their numbers, or their names; see `fields.name_classes`."""
        known = cast("ShardsFound", found).known
        return name_classes(names, known, self.options.label_base)

    def find(self, raw: Path, splits: Sequence[str] | None) -> Found:
        """Tell what the files are by their first bytes; a few samples tell their fields."""
        kind, files = find_files(raw, self.options.files)
        by_split = splits_of(files, self.options.split_name)
        there = wanted_splits(in_usual_order(by_split), splits)
        some = sorted(path for split in there for path in by_split[split])
        first, samples, classes = _first_samples(raw, kind, {path: files[path] for path in some})
        fields = choose_fields(self.options, samples, classes, printable(first))
        path = self.options.classes
        units = [
            unit
            for split in there
            for unit in _units(kind, split, {it: files[it] for it in by_split[split]}, fields)
        ]
        said = [f"{split} ({counted(len(by_split[split]), 'file')})" for split in there]
        read = "compressed" if any(unit.codec for unit in units) else "read in place"
        copied = 0
        if kind == "Parquet":
            copied = sum(_copied_bytes(raw, path, fields) for unit in units for path in unit.files)
            read = f"{sized(copied)} of compressed images are copied once" if copied else read
        described = f"{kind}: {', '.join(said)}, {read}{fields.describe()}"
        return ShardsFound(
            description=(described,),
            units=tuple(units),
            splits=there,
            classes=() if self.options.unlabelled else None,
            multilabel=bool(fields.several or fields.boxes or self.options.unlabelled),
            fields=fields.declared,
            copied=copied,
            whole=True,
            known=None if path is None else load_class_list(path),
        )

    def scan(self, raw: Path, found: Found, unit: ScanUnit) -> Scanned:
        """List the samples of a unit's files, and read their small fields."""
        del found
        unit = cast("ShardsUnit", unit)
        if unit.kind == "Parquet":
            return _scan_parquet(raw, unit)
        return unit.scanned(partial(self._scan, raw, unit))

    def _scan(self, raw: Path, unit: ShardsUnit, copy: Copy | None) -> Scanned:
        rows = _Samples(unit)
        restarts: list[bytes] = []
        for path in unit.files:
            if unit.kind == "WebDataset":
                samples = webdataset_samples(raw, path, unit.restarts_name, restarts, copy)
            elif unit.kind == "TFRecord":
                samples = tfrecord_samples(raw, path, unit.fields.names, copy)
            else:
                samples = _samples(unit.kind, raw, path, copy)
            # Streaming unpacks a shard beside it: which of the two is read shapes no key.
            named = stem_of(path) if unit.kind == "MDS" and unit.codec else path
            rows.add(named, samples)
        return rows.scanned(restarts[0] if restarts else b"")

    def fingerprint(self, raw: Path, unit: ScanUnit) -> str:
        """Size and time of each file and of what is read beside it."""
        files = cast("ShardsUnit", unit).files
        beside = [str(Path(path).with_suffix(".lst")) for path in files]
        beside += [str(Path(path).parent / INDEX) for path in files]
        paths = [*files, *dict.fromkeys(path for path in beside if (raw / path).exists())]
        return json.dumps([_SCAN_RULES, *(stat_fingerprint(raw, path) for path in paths)])


class _Samples:
    """The samples of a unit, as they become rows, and what is wrong with the others."""

    def __init__(self, unit: ShardsUnit) -> None:
        self._unit = unit
        self._rows: list[Row] = []
        self._bad: list[Unmatched] = []
        self._counts: Counter[str] = Counter()
        self._keys: set[str] = set()
        self._numbers: dict[str, int] = {}

    def know(self, names: Sequence[str]) -> None:
        """The classes of a field whose numbers have names, also those that nothing shows."""
        for number, name in enumerate(names):
            self._number(label_text(number, name, name))

    def add(self, path: str, samples: Iterable[Sample]) -> None:
        """Samples of a file.

        Raises:
            SourceError: a label or an attribute is not what the first samples have.
        """
        names = self._unit.fields.names
        for number, sample in enumerate(samples):
            images = self._images(sample)
            has = (sample.fields.get(name) is not None or sample.lacks(name) for name in names)
            if not images and not any(has):  # or else its image should be there
                what = "lines of the .lst" if LISTED in sample.fields else "records"
                self._counts[f"{what} without an image, passed over"] += 1
                continue
            key = self._key(path, number, sample)
            if len(images) != 1:
                what = f"samples {'of several images' if images else 'without an image'}"
                self._refuse(key, path, what, "unlisted" if images else "missing")
            elif what := self._lacking(sample):
                self._refuse(key, path, what)
            elif key in self._keys:
                self._refuse(key, path, "samples of a key that another one has")
            else:
                try:
                    shown, size = self._boxes(sample)
                    texts = [*dict.fromkeys(text for text, _ in shown)] or self._labels(sample)
                    said = dict(self._said(sample))
                except SourceError as error:
                    raise SourceError(f"{printable(path)}, {printable(key)}: {error}") from error
                self._count(sample)
                self._keys.add(key)
                labels = tuple(sorted(map(self._number, texts)))
                if boxes := [(self._number(text), box) for text, box in shown if box]:
                    numbers, sides = zip(*boxes, strict=True)
                    said |= {BOXES.name: sides, BOX_LABELS.name: numbers}
                self._rows.append(images[0].row(key, labels, fields=said, drawn_on=size))

    def scanned(self, restarts: bytes = b"") -> Scanned:
        """All of them."""
        return Scanned(
            {self._unit.split: self._rows},
            unmatched=self._bad,
            classes=[*self._numbers],
            counts=dict(+self._counts),
            restarts=restarts,
        )

    def _refuse(
        self, key: str, path: str, what: str, kind: Literal["missing", "unlisted"] = "unlisted"
    ) -> None:
        self._counts[what] += 1
        self._bad.append(Unmatched(kind, key, path, self._unit.split))

    def _number(self, text: str) -> int:
        return self._numbers.setdefault(text, len(self._numbers))

    def _key(self, path: str, number: int, sample: Sample) -> str:
        field = self._unit.fields.key
        named = [image.path for image in self._images(sample)] or [sample.key]
        value = sample.fields.get(field) if field else named[0]
        if value and field != NUMBER:
            with suppress(ValueError):
                return clean_path(str(value))
        return f"{path}/{number:08d}"

    def _images(self, sample: Sample) -> list[StoredImage]:
        wanted = self._unit.fields.image
        return [image for name, image in sample.images.items() if wanted in ("", name)]

    def _lacking(self, sample: Sample) -> str:
        """What a sample does not have; empty if it has all."""
        fields = self._unit.fields
        for field in fields.names:
            if sample.lacks(field):
                return (
                    f"samples whose {printable(field)} is damaged, or longer than {sized(LONGEST)}"
                )
        value = sample.fields.get(fields.label)
        if not fields.label or (isinstance(value, list) and fields.several and not fields.flags):
            return ""
        if is_no_class(value):
            return "samples whose label is -1 or nan, which is no class"
        return "samples without a label" if value in (None, "", []) else ""

    def _count(self, sample: Sample) -> None:
        """What of a sample that is taken the user should know."""
        label, listed = (sample.fields.get(name) for name in (self._unit.fields.label, LISTED))
        if isinstance(label, list) and (none := sum(map(is_no_class, label))):
            self._counts["labels of -1 or nan in lists, which are no class"] += none
        if LISTED in sample.fields and not sample.key:
            self._counts["records that the .lst beside them does not list"] += 1
        elif listed not in (None, sample.fields.get("label")):
            self._counts["labels that differ from those of the .lst (--label_field lst)"] += 1

    def _labels(self, sample: Sample) -> list[str]:
        """What the labels of a sample are called."""
        fields = self._unit.fields
        value = sample.fields.get(fields.label)
        words = [str(sample.fields.get(name) or "") for name in (fields.identifier, fields.name)]
        if not fields.several:
            if isinstance(value, list):
                raise SourceError(
                    f"a list of {counted(len(value), 'label')}, expected one, as the first samples "
                    "have; name another field with --label_field"
                )
            return [label_text(value, *words)] if fields.label else []
        values = value if isinstance(value, list) else [value]
        if fields.flags:
            if len(values) != fields.flags or not all(flag in (0, 1) for flag in values):
                raise SourceError(
                    f"the label {printable(str(values))[:200]}, expected {fields.flags} zeros and "
                    "ones, one a class, as in the first samples; correct it, or name another "
                    "field with --label_field"
                )
            self.know([""] * len(values))
            values = [number for number, flag in enumerate(values) if flag]
        texts = [text for text in map(label_text, values) if text]
        if len({normalize("NFC", text) for text in texts}) < len(texts):
            raise SourceError(
                f"the labels {printable(str(values))[:200]}, expected each class once, or in every "
                "sample as many zeros and ones; correct them, or name another field with "
                "--label_field"
            )
        return texts

    def _boxes(self, sample: Sample) -> tuple[list[tuple[str, Box | None]], tuple[int, ...]]:
        """What boxes show and where they are, None without an area; and their picture's size."""
        form, found = self._unit.fields.boxes, list[tuple[str, Box | None]]()
        if form is None:
            return found, ()
        boxes, size = boxes_of(form, sample.fields)
        for label, words, sides in boxes:
            text = label_text(label, words, words)
            left, top, right, bottom = box = tuple(min(max(it, 0.0), 1.0) for it in sides)
            empty = not (left < right and top < bottom)
            self._counts[EMPTY] += empty
            self._counts[CUT_OFF] += not empty and any(
                abs(it - before) > 1e-6 for it, before in zip(box, sides, strict=True)
            )
            found.append((text, None if empty else (left, top, right, bottom)))
        return found, size

    def _said(self, sample: Sample) -> Iterator[tuple[str, Any]]:
        """What the fields that are kept say."""
        value = sample.fields.get(self._unit.fields.caption)
        texts = value if isinstance(value, list) else [value]
        if captions := tuple(text for text in texts if isinstance(text, str) and text):
            yield CAPTIONS.name, captions
        for name, field in self._unit.fields.fields:
            value = sample.fields.get(name)
            if value is None or value == "" or value != value:  # no number, as pandas says
                continue
            if field.rules.column == "string" and not isinstance(value, str):
                value = json.dumps(value)
            if (said := field.rules.taken(value)) is None:
                raise SourceError(
                    f"{printable(name)} is {printable(repr(value))}, expected "
                    f"{field.rules.expected(value)} as in the first samples; leave it out with "
                    "--attribute_fields"
                )
            yield field.name, said


def _first_samples(
    raw: Path, kind: Kind, paths: Mapping[str, Codec | None]
) -> tuple[str, list[Sample], Mapping[str, Sequence[str]]]:
    """The first file with images, its first samples of them, and the names of its classes."""
    named: dict[str, None] = {}  # fields that say where an image is
    for path, codec in paths.items():
        classes: Mapping[str, Sequence[str]] = {}
        count = PEEKED
        if kind == "Parquet":
            from dataprep.formats.parquet.listing import (  # late: they load Arrow
                columns_of,
                first_rows,
            )

            columns = columns_of(raw, path)
            samples: Iterable[Sample] = first_rows(raw, path, columns, PEEKED)
            classes = columns.classes
        else:
            samples = islice(_looked_at(kind, raw, path, codec), _LOOKED)
            count = PEEKED if kind in ("WebDataset", "MDS") else _PEEKED_OF_LISTS
        found = []
        for sample in samples:
            if sample.images:
                found.append(sample)
            else:
                texts = {name: it for name, it in sample.fields.items() if isinstance(it, str)}
                named |= {name: None for name, text in texts.items() if is_image_name(text)}
            if len(found) == count:
                break
        if found:
            return path, found, classes
    paths_only = (
        f", but paths in {some_of(named)}; embed the images, as push_to_hub does, or give these "
        "paths to `dataprep folder --listing`"
    )
    raise SourceError(
        f"{some_of(paths)}: no images among the first samples{paths_only if named else ''}; or "
        "choose other files with --files"
    )


def _looked_at(kind: Kind, raw: Path, path: str, codec: Codec | None) -> Iterator[Sample]:
    """Samples of a file; of one that is compressed nothing stays."""
    with TemporaryFile() as file:
        copy = codec and Copy(codec, "", cast("BinaryIO", file))
        yield from _samples(kind, raw, path, copy)


def _samples(kind: Kind, raw: Path, path: str, copy: Copy | None) -> Iterator[Sample]:
    return SAMPLES[kind](raw, path, **({"copy": copy} if copy else {}))


def _units(
    kind: Kind, split: str, files: Mapping[str, Codec | None], fields: Taken
) -> Iterator[ShardsUnit]:
    batches = in_batches([*files], lambda path: is_alone(path) or files[path] is not None)
    for number, some in enumerate(batches):
        name, first = f"{split}-{number:05d}", some[0]
        yield ShardsUnit(name, first, kind, split, tuple(some), fields, files[first])


def _copied_bytes(raw: Path, path: str, fields: Taken) -> int:
    from dataprep.formats.parquet.listing import columns_of

    columns = columns_of(raw, path)
    return columns.packed[columns.image(fields.image)]


def _scan_parquet(raw: Path, unit: ShardsUnit) -> Scanned:
    """The rows of Parquet files: images in place if they all lie as they are, else copied."""
    from dataprep.formats.parquet.listing import NotInPlaceError, places_of

    try:
        return _parquet_rows(raw, unit, places_of)
    except NotInPlaceError:
        return Scanned(copy=partial(_copy_images, raw, unit))


def _copy_images(raw: Path, unit: ShardsUnit, file: BinaryIO) -> Scanned:
    """Write the images one behind another; they are read there."""
    from dataprep.formats.parquet.listing import images_of

    file.write(_COPY_HEAD)

    def copied(raw: Path, path: str, column: str) -> Iterator[Span | None]:
        for image in images_of(raw, path, column):
            yield None if image is None else (file.tell(), len(image))
            file.write(image or b"")

    return _parquet_rows(raw, unit, copied, ("copy", unit.copy_name))


def _parquet_rows(
    raw: Path,
    unit: ShardsUnit,
    places: Callable[[Path, str, str], Iterator[Span | None]],
    packing: Packing = (),
) -> Scanned:
    """The rows of files; `places` tells where the images of a file are, by the path of a column."""
    from dataprep.formats.parquet.listing import columns_of, parquet_samples

    found, names = _Samples(unit), unit.fields.names
    for path in unit.files:
        columns = columns_of(raw, path)
        boxes = unit.fields.boxes
        of_boxes = f"{boxes.label}.{boxes.part}" if boxes else unit.fields.label
        found.know(columns.classes.get(of_boxes, ()))
        image = columns.image(unit.fields.image)
        spans = [*places(raw, path, columns.images[image])]
        found.add(path, parquet_samples(raw, path, image, names, spans, packing))
    return found.scanned()
