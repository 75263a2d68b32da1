"""The plug: what a data set must be able to do. Nothing else differs between data sets.

A third party subclasses `Dataset`, implements `find`, `scan` and `fingerprint`, and names the
class in the entry-point group ``dataprep.datasets``; then ``dataprep NAME`` prepares it, with
every option, format and guarantee that the shipped data sets have.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from dataprep.archives.containers import codec_of
from dataprep.archives.packed import Codec, Copy
from dataprep.errors import SourceError, UsageError
from dataprep.options import read, stated, written
from dataprep.rows import Scanned
from dataprep.system.messages import printable, some_of
from dataprep.tables.cut import StratifiedCut
from dataprep_schemas.fields import DECLARED, MASK, MEANINGS, Field, Fields
from dataprep_schemas.tables import INDEX, ORDER, RECORDS

OLDEST: Final = 120  # years; an age above is a mistake, or stands for none
TOO_OLD: Final = "age out of range"  # what `Scanned.counts` calls it


@dataclass(frozen=True)
class NoOptions:
    """The options of a data set that has none of its own."""


@dataclass(frozen=True, slots=True)
class ScanUnit:
    """One piece of raw data to scan; a data set adds what it needs in a subclass.

    Units travel to other processes, so they hold small, plain values, and their ``repr`` is part
    of what tells whether an earlier scan is still good.

    Attributes:
        name: unique and stable within a data set, safe as a file name: ``train-n01440764``.
        container: the directory, archive or list to read, relative to the raw directory;
            what messages name.
    """

    name: str
    container: str

    @property
    def restarts_name(self) -> str:
        """The name, in the index, of the restart points if the unit is a gzip archive."""
        return f"{self.name}.restarts"

    @property
    def copy_name(self) -> str:
        """The name, in the index, of the images that are copied from the unit."""
        return f"{self.name}.images"

    @property
    def unpacked_by(self) -> Codec | None:
        """By what `container` is compressed, if it is unpacked into a copy to read it."""
        return codec_of(self.container)

    def scanned(self, scan: Callable[[Copy | None], Scanned]) -> Scanned:
        """What the unit holds; of an archive that is not read in place, once there is a copy."""
        if (codec := self.unpacked_by) is None:
            return scan(None)
        return Scanned(copy=lambda file: scan(Copy(codec, self.copy_name, file)))


@dataclass(frozen=True)
class Found:
    """What lies under the raw directory: all that is known of it before it is scanned.

    Workers get it, so it holds plain values; a data set adds what its `scan` needs in a subclass.
    Its ``repr``, of what shapes rows, is part of what tells whether an earlier scan is still good.

    Attributes:
        description: lines for the terminal.
        units: what to scan, in a stable order.
        splits: the splits that scanning will find, in the order they are prepared; None if only
            scanning can tell.
        classes: every class as (identifier, name); the position is the 0-based class index. None
            if only scanning can tell: then they are in `Scanned.classes`, and `name_classes` puts
            them in order.
        multilabel: whether an example has any number of labels, as a radiograph has findings.
        fields: what rows may have in `Row.fields`.
        official_counts: how many images each split of the complete data set has, where known.
        cut: how to cut the images whose split scanning leaves open; None: it does so of none.
        names_files: whether the table of records may name the files that were rejected.
        copied: bytes of images that scanning copies into the index, since they cannot be read in
            place.
        mask_values: numbers of masks, and what they become.
        whole: whether anything in the raw directory may be taken for images, so that no output
            may go there; otherwise only what the units' containers are in.
    """

    description: tuple[str, ...] = field(repr=False)
    units: tuple[ScanUnit, ...] = field(repr=False)
    splits: tuple[str, ...] | None = field(repr=False)
    classes: tuple[tuple[str, str], ...] | None = None
    multilabel: bool = False
    fields: Fields = ()
    official_counts: Mapping[str, int] = field(default_factory=dict, repr=False)
    cut: StratifiedCut | None = field(default=None, repr=False)
    names_files: bool = True
    copied: int = field(default=0, repr=False)
    mask_values: tuple[tuple[int, int], ...] = field(default=(), repr=False)
    whole: bool = field(default=False, repr=False)


@dataclass(frozen=True, slots=True)
class Classes:
    """Which classes there are of a data set of which only scanning can tell.

    Attributes:
        classes: (identifier, name), in the order of their index.
        identifiers: the identifier of what the scan calls otherwise.
        reason: how that is known, for the terminal; empty if it is plain.
    """

    classes: Sequence[tuple[str, str]]
    identifiers: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""


def require_labels(names: Collection[str]) -> None:
    """Refuse images of which none has a label.

    Raises:
        SourceError: there are no names of classes.
    """
    if not names:
        raise SourceError("no image has a label; check where labels are taken from")


def refuse_reserved(fields: Iterable[Field], place: str) -> None:
    """Refuse fields that are called like a column that tables have themselves, or like another.

    Args:
        fields: those of a data set.
        place: what names them, for the message.

    Raises:
        SourceError: one is.
    """
    reserved = {*INDEX, *ORDER, *RECORDS}
    reserved |= {name for name, field in DECLARED.items() if field.kind not in ("int", "text")}
    own = (it for it in fields if it not in MEANINGS and it.kind != MASK.kind)
    # DuckDB takes names that differ in case for the same.
    if clash := [it.name for it in own if it.name.lower() in reserved]:
        raise SourceError(
            f"{place}: {some_of(clash)} cannot be an attribute, since dataprep's tables have a "
            "column of that name; rename it or leave it out"
        )


def wanted_splits(there: Sequence[str], asked: Sequence[str] | None) -> tuple[str, ...]:
    """The splits that are prepared, in their own order.

    Args:
        there: the splits that there are.
        asked: those that the user asked for; None: all.

    Raises:
        UsageError: the user asked for none, or for one that there is not.
    """
    unknown = [split for split in asked or () if split not in there]
    if unknown or (asked is not None and not asked):
        raise UsageError(
            f"--splits names {', '.join(map(printable, unknown)) or 'nothing'}; the splits are "
            f"{', '.join(there)}"
        )
    return tuple(split for split in there if asked is None or split in asked)


class Dataset(ABC):
    """A data set in its published form: how to find it, list it and label it.

    It has its options and nothing else: what it finds is in a `Found`.

    Args:
        options: of `Options`, by name: values, or the text of the command line.

    Raises:
        UsageError: an option it does not have, or that cannot have this value.
    """

    name: ClassVar[str]
    """What the command line calls it; also the name of its entry point."""

    summary: ClassVar[str] = ""
    """The help of its command: a line, then perhaps paragraphs."""

    Options: ClassVar[type[Any]] = NoOptions
    """Its own options, besides those that all data sets share: a frozen dataclass, whose fields are
    made by `dataprep.options.option`."""

    options: Any
    """Theirs: an instance of `Options`; annotate it so in a subclass."""

    defaults: ClassVar[Mapping[str, Any]] = {}
    """Shared options whose default is another for this data set: ``{"color": "gray"}``."""

    formats: ClassVar[frozenset[Literal["JPEG", "PNG"]]] = frozenset({"JPEG"})
    """The formats, of ``JPEG`` and ``PNG``, that stay byte for byte unless the user asks for
    another; what its readers expect."""

    group: ClassVar[str] = "group"
    """What `Row.group` is, for messages: ``patient``."""

    card: ClassVar[Mapping[str, str]] = {}
    """What catalogues ask for, by the names of `dataprep.review.card.Card`, as far as it is known:
    ``license``, ``cite_as``, ``url`` and so on."""

    def __init__(self, **options: Any) -> None:
        self.options = read(self.Options, options, f"data set {self.name}")

    def config(self) -> Mapping[str, str]:
        """The options that shape the index, kept in the manifest; no paths.

        Of a file, whatever identifies its content belongs here or in `fingerprint`.
        """
        said = stated(self.options).items()
        return {name: written(value) for name, value in said if not isinstance(value, Path)}

    def name_classes(self, found: Found, names: Collection[str]) -> Classes:
        """The classes of a data set where only scanning can tell them, by name if nothing else.

        Args:
            names: what the scan has in `Scanned.classes`, or, if that is nothing, as labels in
                `Scanned.tables`.

        Raises:
            SourceError: they cannot be meant.
        """
        del found
        require_labels(names)
        return Classes([(name, name) for name in sorted(names)])

    def check_classes(
        self,
        found: Found,
        names: Sequence[str],
        by_split: Mapping[str, Collection[str]],
        folders: Collection[str],
    ) -> None:
        """Look at the classes that scanning found, once all of it is known.

        Args:
            names: their identifiers, in the order of their index.
            by_split: those that images of each split have.
            folders: of the keys of images.

        Raises:
            SourceError: they cannot be meant.
        """
        del found, names, by_split, folders

    @abstractmethod
    def find(self, raw: Path, splits: Sequence[str] | None) -> Found:
        """Detect what lies under `raw`, reading directories and archive headers only.

        Args:
            raw: the raw directory, as the user gave it.
            splits: the splits wanted; None demands every split of the data set.

        Raises:
            SourceError: nothing was found, or two things that contradict each other.
            UsageError: `splits` names a split the data set does not have.
        """

    @abstractmethod
    def scan(self, raw: Path, found: Found, unit: ScanUnit) -> Scanned:
        """List one unit: the rows of each split sorted by key, and whatever was left out.

        Raises:
            SourceError: the unit is damaged, unreadable, mislabelled or holds a key twice.
        """

    @abstractmethod
    def fingerprint(self, raw: Path, unit: ScanUnit) -> str:
        """Identify what `scan` would read, cheaply, so that an earlier index can be reused.

        `config`, the unit itself, and what `find` says of classes and columns are taken into
        account by the caller.

        Raises:
            SourceError: something the unit needs is gone or unreadable.
        """
