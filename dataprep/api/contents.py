"""What is in a finished data set, told from its manifest and its table of records."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from dataprep.build.manifest import present, read_manifest, read_part
from dataprep.index.records import NAME, conspicuous
from dataprep.system.messages import printable, sized

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
        found = f"{self.records:,} records of {self.images_found:,} images"
        shards = f"{self.shards:,} shards"
        if self.shards < self.all_shards:
            found = f"{self.records:,} of {self.all_records:,} records"
            shards = f"{self.shards:,} of {self.all_shards:,} shards"
        yield f"{self.name}: {found}, {sized(self.bytes)}, shuffle {self.shuffle}"
        size = " to ".join(f"{size:,}" for size in sorted({*self.records_per_shard}))
        yield f"  {shards} of {size} records; first shard {self.first_shard}"
        yield (
            f"  {self.classes} classes, {self.rejected:,} rejected, {self.repaired:,} repaired, "
            f"{self.warned:,} warned"
        )


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
        splits: those of which something is.
        noted: a line each on the first few images that are not just stored: status, split, key and
            reason; ``records.parquet`` names all.
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
    splits: tuple[SplitContents, ...]
    noted: tuple[str, ...]
    noted_images: int

    def __str__(self) -> str:
        """A few lines a split."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"{self.out}: {self.dataset}, {self.sink}, seed {self.seed}"
        yield from (f"converted from {ancestor}" for ancestor in self.lineage)
        if self.missing or self.unlisted:
            yield f"{self.missing:,} listed but not there, {self.unlisted:,} there but not listed"
        yield from (f"{what}: {number:,} in the raw data" for what, number in self.counts.items())
        if self.part is not None:
            yield f"{self.part} is here"
        for split in self.splits:
            yield from split.lines()
        yield from self.noted
        if self.noted_images > len(self.noted):
            yield f"and {self.noted_images - len(self.noted):,} more; {NAME} names all of them"


def inspect(out: str | os.PathLike[str]) -> Contents:
    """Tell what is in a finished data set, from its manifest.

    Args:
        out: the directory of ``manifest.json``.

    Raises:
        DatasetError: there is no intact manifest.
    """
    out = Path(out)
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
        splits=tuple(
            _split(name, split, manifest)
            for name, split in present(out, manifest)["splits"].items()
        ),
        noted=tuple(
            printable(": ".join(filter(None, row)))
            for row in islice(conspicuous(out / NAME, columns), _SHOWN)
        ),
        noted_images=sum(totals.values()) - totals["records"],
    )


def _split(name: str, here: Mapping[str, Any], manifest: Mapping[str, Any]) -> SplitContents:
    whole = manifest["splits"][name]
    same = ("images_found", "class_spread", "rejected", "repaired", "warned", "statistics")
    return SplitContents(
        name=name,
        records=here["records"],
        shards=len(here["shards"]),
        bytes=here["bytes"],
        records_per_shard=tuple(here["records_per_shard"]),
        all_records=whole["records"],
        all_shards=len(whole["shards"]),
        classes=len(whole["class_records"]),
        shuffle=manifest["shuffle"][name],
        first_shard=here["shards"][0]["files"][0]["path"],
        **{key: whole[key] for key in same},
    )
