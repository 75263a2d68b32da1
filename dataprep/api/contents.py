"""What is in a finished data set, told from its manifest and its table of records."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from dataprep.sealed.manifest import present, read_manifest, read_part
from dataprep.system.messages import counted, one_line, printable, sized
from dataprep.tables.records import NAME, TURNED, check_sealed, conspicuous, count_reasons

_SHOWN = 5  # images that are not just stored


@dataclass(frozen=True, slots=True)
class Contents:
    """A finished data set.

    Attributes:
        out: its directory.
        dataset: ``imagenet`` or another.
        sink: the format.
        seed: of the order.
        part: what of the data set is here, e.g. ``part 2 of 4``; None if all of it.
        splits: what the manifest says of those of which something is; ``records``, ``bytes`` and
            the number of ``shards`` are of what is here.
        noted: a line each on the first few images that are not just stored: status, split, key and
            reason; ``records.parquet`` names all.
        noted_images: how many there are.
        turned: stored images with an EXIF orientation other than 1, by which what dataprep decodes
            is turned; of the whole data set, as far as its version looked.
        classes: identifier and name of every class, by number, whether or not it has images.
    """

    out: Path
    dataset: str
    sink: str
    seed: int
    part: str | None
    splits: Mapping[str, Mapping[str, Any]]
    noted: tuple[str, ...]
    noted_images: int
    turned: int
    classes: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        """A few lines a split."""
        return "\n".join(map(one_line, self._lines()))

    def _lines(self) -> Iterator[str]:
        yield f"{self.out}: {self.dataset}, {self.sink}, seed {self.seed}"
        if self.part is not None:
            yield f"{self.part} is here"
        for name, split in self.splits.items():
            yield f"{name}: {split['records']:,} records of {split['images_found']:,} images"
            sizes = " to ".join(f"{size:,}" for size in sorted({*split["records_per_shard"]}))
            shards = counted(split["shards"], "shard")
            yield f"  {shards} of {sizes} records, {sized(split['bytes'])}"
            empty = len(self.classes) - len(split["class_records"])
            without = f" ({empty:,} without images)" if empty else ""
            yield (
                f"  {counted(len(self.classes), 'class', 'classes')}{without}, "
                f"{split['rejected']:,} rejected, {split['repaired']:,} repaired, "
                f"{split['warned']:,} warned"
            )
        if self.turned:
            yield (
                f"{counted(self.turned, 'image')} with an EXIF orientation other than 1: `encoded` "
                "keeps it, what decodes turns by it"
            )
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
    columns = ("status", "split", "key", "reason")
    totals = manifest["totals"]
    check_sealed(out / NAME, manifest["records_table"])
    return Contents(
        out=out,
        dataset=manifest["dataset"],
        sink=manifest["sink"]["name"],
        seed=manifest["seed"],
        part=None if part is None else str(part),
        splits={
            name: {key: split[key] for key in split if key != "files"}
            | {"shards": len(split["shards"])}
            for name, split in present(out, manifest)["splits"].items()
        },
        noted=tuple(
            printable(": ".join(filter(None, row)))
            for row in islice(conspicuous(out / NAME, columns), _SHOWN)
        ),
        noted_images=sum(totals.values()) - totals["records"],
        turned=count_reasons(out / NAME, TURNED),
        classes=tuple((identifier, name) for identifier, name in manifest["classes"]),
    )
