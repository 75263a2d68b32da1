"""What is in a finished data set, told from its manifest and its table of records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dataprep.build.manifest import present, read_manifest, read_part
from dataprep.index.records import NAME, conspicuous
from dataprep.system.messages import counted, printable, sized

_SHOWN = 5  # images that are not just stored


@dataclass(frozen=True, slots=True)
class SplitContents:
    """One split.

    Attributes:
        name: of the split.
        records: that are here; a node's part of a data set has some of them.
        shards: likewise.
        bytes: of those shards.
        records_per_shard: the fewest and the most.
        all_records: of the whole split.
        all_shards: likewise.
        images_found: in the raw data.
        classes: how many classes have records.
        class_spread: the largest difference of a class's count between two shards.
        shuffle: how the images were ordered: ``stratified``, ``global`` or ``none``.
        rejected: images that could not be used.
        repaired: images that were encoded anew because they had to be.
        warned: images with something odd about them.
        first_shard: its path beneath the directory.
        statistics: of the images, as in the manifest; None unless asked for with ``stats``.
    """

    name: str
    records: int
    shards: int
    bytes: int
    records_per_shard: tuple[int, int]
    all_records: int
    all_shards: int
    images_found: int
    classes: int
    class_spread: int
    shuffle: str
    rejected: int
    repaired: int
    warned: int
    first_shard: str
    statistics: Mapping[str, Any] | None

    def lines(self) -> Iterator[str]:
        """What a person wants to see."""
        smallest, largest = self.records_per_shard
        size = f"{largest:,}" if smallest == largest else f"{smallest:,} to {largest:,}"
        if self.shards < self.all_shards:
            yield (
                f"{self.name}: {self.records:,} of {self.all_records:,} records, "
                f"{sized(self.bytes)}"
            )
            yield (
                f"  {self.shards:,} of {counted(self.all_shards, 'shard')} of {size} records; "
                f"first shard {self.first_shard}"
            )
            return
        yield (
            f"{self.name}: {self.records:,} records of {self.images_found:,} images, "
            f"{sized(self.bytes)}, {self.classes} classes, shuffle {self.shuffle}"
        )
        spread = f"; no class differs by more than {self.class_spread} between two shards"
        shards = counted(self.shards, "shard")
        yield f"  {shards} of {size} records" + (spread if self.shards > 1 else "")
        yield (
            f"  {self.rejected:,} rejected, {self.repaired:,} repaired, {self.warned:,} warned; "
            f"first shard {self.first_shard}"
        )
        if self.statistics and self.statistics["images"]:
            yield from _statistics(self.statistics)


@dataclass(frozen=True, slots=True)
class NotedImage:
    """An image that is not just stored.

    Attributes:
        status: ``repaired``, ``warned``, ``rejected``, ``missing``, ``unlisted`` or ``ignored``.
        split: None where nobody knows it.
        key: what it is called.
        reason: why, if there is one.
    """

    status: str
    split: str | None
    key: str
    reason: str | None

    def __str__(self) -> str:
        """One line."""
        text = f"{self.status}: {self.split}: {self.key}" if self.split else self.status
        text = text if self.split else f"{text}: {self.key}"
        return printable(f"{text}: {self.reason}" if self.reason else text)


@dataclass(frozen=True, slots=True)
class Contents:
    """A finished data set.

    Attributes:
        out: its directory.
        dataset: ``imagenet`` or another.
        sink: the format.
        seed: of the order.
        lineage: the formats that it was converted from, the latest first, each with the first
            twelve digits of its manifest's hash.
        missing: images that are listed but not there.
        unlisted: images that are there but not listed.
        counts: what else the raw data was found to hold.
        part: what of the data set is here, e.g. ``part 2 of 4``; None if all of it.
        absent: splits of which nothing is here.
        splits: those of which something is.
        noted: the first few images that are not just stored; ``records.parquet`` names all.
        noted_images: how many there are.
    """

    out: Path
    dataset: str
    sink: str
    seed: int
    lineage: tuple[str, ...]
    missing: int
    unlisted: int
    counts: Mapping[str, int]
    part: str | None
    absent: tuple[str, ...]
    splits: tuple[SplitContents, ...]
    noted: tuple[NotedImage, ...]
    noted_images: int

    def __str__(self) -> str:
        """A few lines a split."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"{self.out}: {self.dataset}, {self.sink}, seed {self.seed}"
        for ancestor in self.lineage:
            yield f"converted from {ancestor}"
        if self.missing or self.unlisted:
            yield (
                f"{counted(self.missing, 'image')} listed but not there, "
                f"{self.unlisted:,} there but not listed"
            )
        for what, number in self.counts.items():
            yield f"{what}: {number:,} in the raw data"
        if self.part is not None:
            nothing = f", nothing of {', '.join(self.absent)}" if self.absent else ""
            yield f"{self.part} is here{nothing}"
        for split in self.splits:
            yield from split.lines()
        for image in self.noted:
            yield str(image)
        if self.noted_images > len(self.noted):
            yield f"and {self.noted_images - len(self.noted):,} more; {NAME} names all of them"


def read_contents(out: Path) -> Contents:
    """Look at a data set.

    Raises:
        DatasetError: there is no intact manifest.
    """
    manifest = read_manifest(out)
    part = read_part(out, manifest)
    unmatched = manifest.get("unmatched", {"missing": 0, "unlisted": 0})
    columns = ("status", "split", "key", "reason")
    totals = manifest["totals"]
    return Contents(
        out=out,
        dataset=manifest["dataset"],
        sink=manifest["sink"]["name"],
        seed=manifest["seed"],
        lineage=tuple(
            f"{ancestor['sink']['name']} {ancestor['manifest_sha256'][:12]}"
            for ancestor in manifest.get("lineage", ())
        ),
        missing=unmatched["missing"],
        unlisted=unmatched["unlisted"],
        counts=manifest.get("counts", {}),
        part=None if part is None else str(part),
        absent=()
        if part is None
        else tuple(name for name in manifest["splits"] if name not in part.splits),
        splits=tuple(
            _split(name, split, manifest)
            for name, split in present(out, manifest)["splits"].items()
        ),
        noted=tuple(NotedImage(*row) for row in conspicuous(out / NAME, columns, most=_SHOWN)),
        noted_images=sum(totals.values()) - totals["records"],
    )


def _split(name: str, here: Mapping[str, Any], manifest: Mapping[str, Any]) -> SplitContents:
    whole = manifest["splits"][name]
    return SplitContents(
        name=name,
        records=here["records"],
        shards=len(here["shards"]),
        bytes=here["bytes"],
        records_per_shard=tuple(here["records_per_shard"]),
        all_records=whole["records"],
        all_shards=len(whole["shards"]),
        images_found=whole["images_found"],
        classes=len(whole["class_records"]),
        class_spread=whole["class_spread"],
        shuffle=manifest["shuffle"][name],
        rejected=whole["rejected"],
        repaired=whole["repaired"],
        warned=whole["warned"],
        first_shard=here["shards"][0]["files"][0]["path"],
        statistics=whole["statistics"],
    )


def _statistics(found: Mapping[str, Any]) -> Iterator[str]:
    formats = ", ".join(f"{count:,} {kind}" for kind, count in found["formats"].items())
    yield (
        f"  {formats}; {_range(found['width'])} wide, {_range(found['height'])} high, "
        f"{sized(found['bytes']['mean'])} an image"
    )
    if found["mean"] is not None:
        channels = "R, G, B" if len(found["mean"]) == 3 else "grey"
        mean, std = (", ".join(f"{value:.2f}" for value in found[key]) for key in ("mean", "std"))
        yield f"  pixels ({channels}; 0 to 255): mean {mean}; standard deviation {std}"


def _range(found: Mapping[str, Any]) -> str:
    smallest, largest = found["min"], found["max"]
    return f"{smallest}" if smallest == largest else f"{smallest} to {largest}"
