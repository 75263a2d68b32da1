"""A small data set that is right, others that break one thing each, and the test that must tell."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dataprep.archives.kinds import list_container, witness
from dataprep.archives.listing import StoredImage
from dataprep.datasets import Attribute, Dataset, Found, Option, ScanUnit
from dataprep.errors import SourceError, UsageError
from dataprep.index import Ignored, Row, Scanned

LABELS = "labels.txt"
_LISTED = {
    "train": {"a.jpg": 0, "b.jpg": 1, "c.jpg": 0},
    "test": {"d.jpg": 1, "e.jpg": 0},
}
_calls = itertools.count()


def write_toy(raw: Path) -> Path:
    """The raw directory of `Toy`."""
    lines = []
    for split, images in _LISTED.items():
        (raw / split).mkdir(parents=True)
        (raw / split / "read me.txt").touch()
        for name, label in images.items():
            (raw / split / name).write_bytes(name.encode() * (label + 1))
            lines.append(f"{split}/{name} {label}")
    (raw / LABELS).write_text("\n".join(lines))
    return raw


class Toy(Dataset):
    """A folder a split, and a list of labels."""

    name = "toy"
    summary = "Prepare a toy."
    OPTIONS = (
        Option("mood", "Of no effect.", default="good", choices=("good", "bad")),
        Option("note", "A file that is never read.", file=True),
    )
    defaults: Mapping[str, str] = {"color": "gray"}
    attributes = (Attribute("age", "int"), Attribute("view", "text"))
    splits = ("train", "test")

    @property
    def has_boxes(self) -> bool:
        return True

    def classes(self) -> Sequence[tuple[str, str]] | None:
        return [("0", "zero"), ("1", "one")]

    def find(self, raw: Path, splits: Sequence[str] | None) -> Found:
        wanted = self.splits if splits is None else tuple(splits)
        if not wanted or not set(wanted) <= set(self.splits):
            raise UsageError(f"no such split; there are {self.splits}")
        if not (raw / LABELS).exists():
            raise SourceError(f"no {LABELS}; expected one")
        return Found(("a toy",), tuple(map(self.unit, wanted)), wanted)

    def unit(self, split: str) -> ScanUnit:
        return ScanUnit(split, split)

    def scan(self, raw: Path, unit: ScanUnit) -> Scanned:
        labels = self.read_labels(raw)
        listing = list_container(raw, unit.container)
        images = sorted(listing.images, key=lambda image: image.name)
        rows = [self.row(image, labels[image.container]) for image in images]
        return Scanned({unit.container: rows}, listing.ignored)

    def row(self, image: StoredImage, label: int) -> Row:
        return Row(
            image.name,
            image.container,
            image.offset,
            image.size,
            image.modified,
            (label,),
            boxes=((0.0, 0.25, 0.5, 1.0),),
            box_labels=(label,),
            attributes={"age": label + 30, "view": "PA"},
            group=image.name,
        )

    @staticmethod
    def read_labels(raw: Path) -> dict[str, int]:
        lines = (raw / LABELS).read_text().splitlines()
        return {name: int(label) for name, label in map(str.split, filter(None, lines))}

    def fingerprint(self, raw: Path, unit: ScanUnit) -> str:
        return json.dumps([witness(raw, unit.container), witness(raw, LABELS)])


class FindsClasses(Toy):
    """Only scanning tells which classes there are."""

    def classes(self) -> None:
        return None

    def scan(self, raw: Path, unit: ScanUnit) -> Scanned:
        return replace(super().scan(raw, unit), classes=("0", "1"))


# --- What they say of themselves ---


class NoSummary(Toy):
    summary = ""


class CapitalName(Toy):
    name = "Toy Set"


class UnknownFormat(Toy):
    formats = frozenset({"GIF"})  # type: ignore[arg-type]


class OptionWithoutHelp(Toy):
    OPTIONS = (*Toy.OPTIONS, Option("extra", ""))


class OptionWithDashes(Toy):
    OPTIONS = (*Toy.OPTIONS, Option("extra-thing", "More."))


class OptionOfAll(Toy):
    OPTIONS = (*Toy.OPTIONS, Option("seed", "Of the cut."))


class OptionCalledHelp(Toy):
    OPTIONS = (*Toy.OPTIONS, Option("help", "More."))


class DefaultThatIsNoChoice(Toy):
    OPTIONS = (*Toy.OPTIONS, Option("extra", "More.", default="x", choices=("y",)))


class TakesAnyOption(Toy):
    def __init__(self, **options: str) -> None:
        super().__init__(**{name: it for name, it in options.items() if name == "note"})


class DefaultsOfNoOption(Toy):
    defaults = {"colour": "gray"}  # noqa: RUF012


class DefaultsOfNoValue(Toy):
    defaults = {"color": "grey"}  # noqa: RUF012


class PathsInConfig(Toy):
    def config(self) -> Mapping[str, str]:
        return self.options


class ConfigThatChanges(Toy):
    def config(self) -> Mapping[str, str]:
        return {"call": str(next(_calls))}


class AttributeWithSpace(Toy):
    attributes = (*Toy.attributes, Attribute("eye colour", "text"))


class ClassTwice(Toy):
    def classes(self) -> Sequence[tuple[str, str]]:
        return [("0", "zero"), ("1", "one"), ("1", "won")]


class ClassesAsFound(FindsClasses):
    def order_classes(self, found: Iterable[str]) -> Sequence[tuple[str, str]]:
        return [(name, name) for name in found]


# --- What they find ---


class NoDescription(Toy):
    def find(self, raw: Path, splits: Sequence[str] | None) -> Found:
        return replace(super().find(raw, splits), description=())


class UnitsWithSlashes(Toy):
    def unit(self, split: str) -> ScanUnit:
        return ScanUnit(f"toy/{split}", split)


class UnitsOfOneName(Toy):
    def unit(self, split: str) -> ScanUnit:
        return ScanUnit("toy", split)


class UnitsThatDifferInCase(Toy):
    def unit(self, split: str) -> ScanUnit:
        return ScanUnit("toy" if split == "train" else "Toy", split)


class UnitsOutside(Toy):
    def unit(self, split: str) -> ScanUnit:
        return ScanUnit(split, f"../raw/{split}")


class NewUnitNames(Toy):
    def unit(self, split: str) -> ScanUnit:
        return ScanUnit(f"{split}-{next(_calls)}", split)


@dataclass(frozen=True, slots=True)
class LockedUnit(ScanUnit):
    lock: Any = field(default_factory=threading.Lock, compare=False, repr=False)


class UnitsWithLocks(Toy):
    def unit(self, split: str) -> ScanUnit:
        return LockedUnit(split, split)


class TakesAnySplit(Toy):
    def find(self, raw: Path, splits: Sequence[str] | None) -> Found:
        known = None if splits is None else set(splits) & set(self.splits)
        return super().find(raw, tuple(known) if known else None)


class NeedsAllSplits(Toy):
    def find(self, raw: Path, splits: Sequence[str] | None) -> Found:
        return replace(super().find(raw, splits), splits=self.splits)


class LosesWhatIsAlone(Toy):
    def find(self, raw: Path, splits: Sequence[str] | None) -> Found:
        found = super().find(raw, splits)
        return found if splits is None else replace(found, units=())


class FindsAnything(Toy):
    def find(self, raw: Path, splits: Sequence[str] | None) -> Found:
        units = tuple(map(self.unit, self.splits))
        return (
            super().find(raw, splits)
            if raw.exists() and any(raw.iterdir())
            else Found(("a toy",), units, self.splits)
        )


class CrashesOnNothing(Toy):
    def find(self, raw: Path, splits: Sequence[str] | None) -> Found:
        next(raw.iterdir())
        return super().find(raw, splits)


# --- What they scan ---


class Changes(Toy):
    """Rows of another kind."""

    def changed(self, row: Row) -> Row:
        return row

    def row(self, image: StoredImage, label: int) -> Row:
        return self.changed(super().row(image, label))


class CountsScans(Changes):
    def changed(self, row: Row) -> Row:
        return replace(row, modified=next(_calls))


class LabelsInLists(Changes):
    def changed(self, row: Row) -> Row:
        return replace(row, labels=list(row.labels))  # type: ignore[arg-type]


class SameKeyInTwoUnits(Toy):
    def scan(self, raw: Path, unit: ScanUnit) -> Scanned:
        return replace(super().scan(raw, unit), rows=super().scan(raw, self.unit("train")).rows)


class SplitsNotAnnounced(Toy):
    def scan(self, raw: Path, unit: ScanUnit) -> Scanned:
        scanned = super().scan(raw, unit)
        return replace(scanned, rows={f"{split}ing": it for split, it in scanned.rows.items()})


class LabelsFromOne(Changes):
    def changed(self, row: Row) -> Row:
        return replace(row, labels=(row.labels[0] + 1,))


class TwoLabels(Changes):
    def changed(self, row: Row) -> Row:
        return replace(row, labels=(0, 1))


class LabelsNotSorted(TwoLabels):
    @property
    def multilabel(self) -> bool:
        return True

    def changed(self, row: Row) -> Row:
        return replace(row, labels=(1, 0))


class ClassesNowhere(FindsClasses):
    def scan(self, raw: Path, unit: ScanUnit) -> Scanned:
        return replace(super().scan(raw, unit), classes=None)


class AttributeNotDeclared(Changes):
    def changed(self, row: Row) -> Row:
        return replace(row, attributes={"height": 3})


class AgeAsText(Changes):
    def changed(self, row: Row) -> Row:
        return replace(row, attributes={"age": "30"})


class AgeAsTruth(Changes):
    def changed(self, row: Row) -> Row:
        return replace(row, attributes={"age": True})


class EmptyView(Changes):
    def changed(self, row: Row) -> Row:
        return replace(row, attributes={"view": ""})


class LargeAge(Changes):
    def changed(self, row: Row) -> Row:
        return replace(row, attributes={"age": 1 << 63})


class BoxesInPixels(Changes):
    def changed(self, row: Row) -> Row:
        return replace(row, boxes=((0, 10, 20, 30),))


class BoxesInsideOut(Changes):
    def changed(self, row: Row) -> Row:
        return replace(row, boxes=((0.5, 0.25, 0.0, 1.0),))


class BoxesWithoutLabels(Changes):
    def changed(self, row: Row) -> Row:
        return replace(row, boxes=row.boxes * 2)


class DeniesBoxes(Toy):
    @property
    def has_boxes(self) -> bool:
        return False


class OneGroup(Changes):
    def changed(self, row: Row) -> Row:
        return replace(row, group="everybody")


class SizesInKilobytes(Changes):
    def changed(self, row: Row) -> Row:
        return replace(row, size=row.size // 1000)


class AbsoluteContainers(Toy):
    def scan(self, raw: Path, unit: ScanUnit) -> Scanned:
        scanned = super().scan(raw, unit)
        ((split, rows),) = scanned.rows.items()
        rows = [replace(row, container=str(raw.absolute() / row.container)) for row in rows]
        return replace(scanned, rows={split: rows})


class IgnoresWithoutReason(Toy):
    def scan(self, raw: Path, unit: ScanUnit) -> Scanned:
        scanned = super().scan(raw, unit)
        return replace(
            scanned, ignored=[Ignored(it.container, it.name, "") for it in scanned.ignored]
        )


class CountsNothing(Toy):
    def scan(self, raw: Path, unit: ScanUnit) -> Scanned:
        return replace(super().scan(raw, unit), counts={"age out of range": 0})


# --- What they notice ---


class NewFingerprints(Toy):
    def fingerprint(self, raw: Path, unit: ScanUnit) -> str:
        return super().fingerprint(raw, unit) + str(next(_calls))


class OneFingerprint(Toy):
    def fingerprint(self, raw: Path, unit: ScanUnit) -> str:
        return "toy"


class FingerprintOfSizes(Toy):
    def fingerprint(self, raw: Path, unit: ScanUnit) -> str:
        return json.dumps([witness(raw, path)[0] for path in (unit.container, LABELS)])


class ForgetsTheLabels(Toy):
    def fingerprint(self, raw: Path, unit: ScanUnit) -> str:
        return json.dumps(witness(raw, unit.container))


class CrashesWithoutContainer(Toy):
    def fingerprint(self, raw: Path, unit: ScanUnit) -> str:
        (raw / unit.container).stat()
        return super().fingerprint(raw, unit)


BROKEN: Sequence[tuple[type[Dataset], str]] = [
    (NoSummary, "test_it_has_a_name_and_says_what_it_is"),
    (CapitalName, "test_it_has_a_name_and_says_what_it_is"),
    (UnknownFormat, "test_it_has_a_name_and_says_what_it_is"),
    (OptionWithoutHelp, "test_its_options_are_documented_and_clash_with_none"),
    (OptionWithDashes, "test_its_options_are_documented_and_clash_with_none"),
    (OptionOfAll, "test_its_options_are_documented_and_clash_with_none"),
    (OptionCalledHelp, "test_its_options_are_documented_and_clash_with_none"),
    (DefaultThatIsNoChoice, "test_its_options_are_documented_and_clash_with_none"),
    (TakesAnyOption, "test_its_options_take_nothing_else"),
    (DefaultsOfNoOption, "test_its_defaults_are_values_of_shared_options"),
    (DefaultsOfNoValue, "test_its_defaults_are_values_of_shared_options"),
    (PathsInConfig, "test_its_config_is_text_without_paths"),
    (ConfigThatChanges, "test_its_config_is_text_without_paths"),
    (AttributeWithSpace, "test_its_attributes_have_plain_names"),
    (ClassTwice, "test_its_classes_are_listed_once"),
    (ClassesAsFound, "test_its_classes_are_listed_once"),
    (NoDescription, "test_what_is_found_is_described"),
    (UnitsWithSlashes, "test_units_have_names_that_are_safe_as_file_names"),
    (UnitsOfOneName, "test_units_have_names_that_are_safe_as_file_names"),
    (UnitsThatDifferInCase, "test_units_have_names_that_are_safe_as_file_names"),
    (UnitsOutside, "test_units_name_a_place_below_the_raw_directory"),
    (NewUnitNames, "test_finding_again_gives_the_same"),
    (UnitsWithLocks, "test_units_survive_pickling"),
    (TakesAnySplit, "test_a_split_that_there_is_not_is_refused"),
    (NeedsAllSplits, "test_a_split_can_be_had_alone"),
    (LosesWhatIsAlone, "test_a_split_can_be_had_alone"),
    (FindsAnything, "test_nothing_is_found_where_nothing_is"),
    (CrashesOnNothing, "test_nothing_is_found_where_nothing_is"),
    (CountsScans, "test_scanning_again_gives_the_same"),
    (LabelsInLists, "test_labels_are_indices_of_classes"),
    (SameKeyInTwoUnits, "test_keys_come_once"),
    (SplitsNotAnnounced, "test_every_split_announced_is_there_and_no_other"),
    (LabelsFromOne, "test_labels_are_indices_of_classes"),
    (TwoLabels, "test_labels_are_indices_of_classes"),
    (LabelsNotSorted, "test_labels_are_indices_of_classes"),
    (ClassesNowhere, "test_labels_are_indices_of_classes"),
    (AttributeNotDeclared, "test_attributes_are_declared_and_of_their_kind"),
    (AgeAsText, "test_attributes_are_declared_and_of_their_kind"),
    (AgeAsTruth, "test_attributes_are_declared_and_of_their_kind"),
    (EmptyView, "test_attributes_are_declared_and_of_their_kind"),
    (LargeAge, "test_attributes_are_declared_and_of_their_kind"),
    (BoxesInPixels, "test_boxes_lie_in_their_image"),
    (BoxesInsideOut, "test_boxes_lie_in_their_image"),
    (BoxesWithoutLabels, "test_boxes_lie_in_their_image"),
    (DeniesBoxes, "test_boxes_lie_in_their_image"),
    (OneGroup, "test_no_group_is_in_two_splits"),
    (SizesInKilobytes, "test_images_can_be_read"),
    (AbsoluteContainers, "test_images_can_be_read"),
    (IgnoresWithoutReason, "test_what_is_no_row_is_told"),
    (CountsNothing, "test_what_is_no_row_is_told"),
    (NewFingerprints, "test_fingerprints_stay_while_nothing_changes"),
    (OneFingerprint, "test_a_touched_container_changes_the_fingerprint"),
    (FingerprintOfSizes, "test_a_touched_container_changes_the_fingerprint"),
    (ForgetsTheLabels, "test_a_file_that_scanning_reads_changes_the_fingerprint"),
    (CrashesWithoutContainer, "test_a_container_that_is_gone_is_an_error"),
]
