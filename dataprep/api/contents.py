"""What is in a finished data set, told from its manifest and its table of records."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from dataprep.api.places import located
from dataprep.errors import SourceError
from dataprep.jobs.output.workspace import Workspace
from dataprep.jobs.running.identity import identity_of, recipe_of
from dataprep.remote.store import address_of
from dataprep.sealed.set import PresentSplit, SealedSet, described
from dataprep.staging.directory import PRIVATE
from dataprep.system.messages import counted, printable, sized
from dataprep.tables.records import NAME, TURNED, check_sealed, conspicuous, count_reasons
from dataprep_schemas.fields import MASK
from dataprep_schemas.manifest import Manifest, Statistics, Statuses

if TYPE_CHECKING:
    from dataprep.jobs.preparing.dry_run import Plan

_SHOWN = 5  # images that are not just stored
_NUMBERS = 8  # of masks, in a line
_PUBLISHED: Final = "since its files were found as they are published"
_RULES: Final = {
    "imagenet": _PUBLISHED,
    "chestxray14": _PUBLISHED,
    "shards": "since its files are shards with labels that others have packed",
}
"""Why raw data is taken for a data set, in the order in which they are tried; else ``folder``."""


class SplitContents(Statuses, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """A split: ``records`` to ``records_per_shard`` of what is here, the rest of all of it.

    Attributes:
        records: how many.
        bytes: of all shards.
        shards: how many.
        records_per_shard: smallest and largest.
        images_found: records, and images rejected.
        class_spread: largest difference of any class's count between any two shards.
        label_set_spread: the same of any set of labels that examples have together.
        class_records: records by 0-based class index.
        statistics: as in the manifest; None without ``--stats``.
    """

    records: int
    bytes: int
    shards: int
    records_per_shard: tuple[int, int]
    images_found: int
    class_spread: int
    label_set_spread: int
    class_records: dict[str, int]
    statistics: Statistics | None

    @classmethod
    def of(cls, split: PresentSplit) -> SplitContents:
        """What is known of a split of which something is here."""
        here = {
            "records": split.records,
            "bytes": split.bytes,
            "shards": len(split.shards),
            "records_per_shard": split.records_per_shard,
        }
        return msgspec.convert(msgspec.structs.asdict(split.whole) | here, cls)


@dataclass(frozen=True, slots=True)
class MaskNumber:
    """A number in the masks of a split.

    Attributes:
        number: 255 is a pixel of which nothing is said.
        name: what it means; empty if that is not known.
        images: that have it.
        pixels: of all of them.
    """

    number: int
    name: str
    images: int
    pixels: int


@dataclass(frozen=True, slots=True)
class MaskContents:
    """The masks of a split.

    Attributes:
        without: how many images have none.
        numbers: that the others have.
    """

    without: int
    numbers: tuple[MaskNumber, ...]

    def __str__(self) -> str:
        """The most frequent numbers."""
        total = max(sum(it.pixels for it in self.numbers), 1)
        most = sorted(self.numbers, key=lambda it: -it.pixels)[:_NUMBERS]
        said = [
            f"{' '.join(filter(None, (str(it.number), it.name)))} {100 * it.pixels / total:.1f} %"
            for it in most
        ]
        more = len(self.numbers) - len(most)
        said += [f"and {more:,} more"] if more else []
        said += [f"{counted(self.without, 'image')} without a mask"] if self.without else []
        return f"pixels of masks: {', '.join(said)}"


@dataclass(frozen=True, slots=True)
class Contents:
    """A finished data set.

    Attributes:
        out: its directory, or its address.
        dataset: ``imagenet`` or another.
        sink: the format.
        seed: of the order.
        part: what of the data set is here, e.g. ``part 2 of 4``; None if all of it.
        splits: what the manifest says of those of which something is here, by name.
        noted: a line each on the first few images that are not just stored: status, split, key and
            reason; ``records.parquet`` names all.
        noted_images: how many there are.
        turned: stored images with an EXIF orientation other than 1, by which what dataprep decodes
            is turned; of the whole data set.
        classes: identifier and name of every class, by number, whether or not it has images.
        recipe: what made it, in the words of the command line, without places.
        masks: of each split, where images have any.
    """

    out: Path | str
    dataset: str
    sink: str
    seed: int
    part: str | None
    splits: Mapping[str, SplitContents]
    noted: tuple[str, ...]
    noted_images: int
    turned: int
    classes: tuple[tuple[str, str], ...]
    recipe: str
    masks: Mapping[str, MaskContents] = field(default_factory=dict)

    def __str__(self) -> str:
        """A few lines a split."""
        return "\n".join(map(printable, self._lines()))

    def _lines(self) -> Iterator[str]:
        yield f"{self.out}: {self.dataset}, {self.sink}, seed {self.seed}"
        yield f"recipe: {self.recipe}"
        if self.part is not None:
            yield f"{self.part} is here"
        for name, split in self.splits.items():
            yield f"{name}: {split.records:,} records of {split.images_found:,} images"
            sizes = " to ".join(f"{size:,}" for size in sorted({*split.records_per_shard}))
            shards = counted(split.shards, "shard")
            yield f"  {shards} of {sizes} records, {sized(split.bytes)}"
            empty = len(self.classes) - len(split.class_records)
            without = f" ({empty:,} without images)" if empty else ""
            yield (
                f"  {counted(len(self.classes), 'class', 'classes')}{without}, "
                f"{split.rejected:,} rejected, {split.repaired:,} repaired, {split.warned:,} warned"
            )
            if name in self.masks:
                yield f"  {self.masks[name]}"
        if self.turned:
            yield (
                f"{counted(self.turned, 'image')} with an EXIF orientation other than 1: `encoded` "
                "keeps it, what decodes turns by it"
            )
        yield from self.noted
        if self.noted_images > len(self.noted):
            yield f"and {self.noted_images - len(self.noted):,} more; {NAME} names all of them"


def inspect(out: str | os.PathLike[str]) -> Contents | Plan:
    """Tell what is in a finished data set, or what would be made of raw data; nothing is written.

    Args:
        out: a data set, of which its manifest and its table of records are read; or a directory
            that dataprep did not make, of raw data: ImageNet or ChestX-ray14 if these are found in
            it, else as `shards` takes it, if that can, or `folder`.

    Raises:
        DatasetError: the manifest is damaged, or what was begun there is not finished.
        SourceError: there are no images, or something is wrong with them.
    """
    address = address_of(out)
    out = located(out)
    workspace = Workspace(out)
    ours = (workspace.manifest, workspace.private, out / PRIVATE)
    if out.is_dir() and not any(map(os.path.lexists, ours)):
        return _inspect_raw(out)
    sealed = SealedSet.read(out)
    manifest, totals = sealed.manifest, sealed.manifest.totals
    columns = ("status", "split", "key", "reason")
    check_sealed(out / NAME, manifest.records_table)
    return Contents(
        out=address or out,
        dataset=manifest.dataset,
        sink=manifest.sink.name,
        seed=manifest.seed,
        part=None if sealed.part is None else described(sealed.part),
        splits={name: SplitContents.of(split) for name, split in sealed.splits.items()},
        noted=tuple(
            printable(": ".join(filter(None, row)))
            for row in islice(conspicuous(out / NAME, columns), _SHOWN)
        ),
        noted_images=sum(msgspec.structs.asdict(totals).values()) - totals.records,
        turned=count_reasons(out / NAME, TURNED),
        classes=manifest.classes,
        recipe=recipe_of(identity_of(manifest)),
        masks=_masks(out, manifest),
    )


def _masks(out: Path, manifest: Manifest) -> dict[str, MaskContents]:
    fields = [it for it in manifest.examples.fields if it.kind == MASK.kind]
    if not fields:
        return {}
    from dataprep.tables.questions import mask_numbers

    found: dict[str, MaskContents] = {}
    names = dict(fields[0].numbers)
    for split, number, images, pixels in mask_numbers(out, manifest.records_table, fields[0].name):
        before = found.get(split, MaskContents(0, ()))
        if number is None:
            found[split] = replace(before, without=images)
        else:
            own = MaskNumber(number, names.get(number, ""), images, pixels)
            found[split] = replace(before, numbers=(*before.numbers, own))
    return found


def _inspect_raw(raw: Path) -> Plan:
    from dataprep.api.calls import plan_raw
    from dataprep.plugins import load_dataset

    for name, rule in _RULES.items():
        try:
            load_dataset(name).find(raw, None)
        except SourceError:
            continue
        return plan_raw(raw, name, rule)
    try:
        return plan_raw(raw, "folder", "since it is nothing else")
    except SourceError as error:
        raise SourceError(
            f"{printable(str(raw))} has no manifest.json, and is no raw data either: {error}; if "
            "others have packed it into shards, look with `dataprep shards --dry_run`"
        ) from error
