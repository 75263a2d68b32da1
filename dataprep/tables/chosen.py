"""What is taken of finished data sets, and what is changed, as ``dataprep select`` is told."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from dataprep.options import FILE, names, option, paths, share
from dataprep.tables.decisions import Decision


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What is taken, and what is changed.

    Attributes:
        sample: by the smallest hashes.
        decided: what is in the files of decisions, once they are read.
        names: of the sets, which are put before keys; empty: keys stay.
    """

    splits: tuple[str, ...] | None = option(
        "Only these splits, e.g. train,validation. [default: all]",
        None,
        metavar="NAMES",
        parse=names,
    )
    where: str | None = option(
        "Take the images for which this is true, in SQL over records.parquet: \"view = 'PA'\".",
        None,
        metavar="SQL",
    )
    sample: Fraction | None = option(
        "Take this share of each split, e.g. 0.1 or 10%; that of 0.1 is in that of 0.2.",
        None,
        metavar="SHARE",
        parse=share,
    )
    stratify: bool = option("Take that share of each set of labels of a split.", False)
    exclude: Path | None = option(
        "Images to leave out: a CSV with the columns split and key, or one name per line.",
        None,
        **FILE,
    )
    relabel: Path | None = option(
        "Labels to give images: a CSV with the columns split, key and label (several: a|b).",
        None,
        **FILE,
    )
    decisions: tuple[Path, ...] | None = option(
        "Files of decisions: what to leave out, other labels and splits, classes to rename or "
        "merge. People must agree. A class that they empty is dropped, unless --classes has it.",
        None,
        metavar="FILES",
        parse=paths,
    )
    split_by: str | None = option(
        "The column of records.parquet that tells the split. [default: images stay in theirs]",
        None,
        metavar="COLUMN",
    )
    decided: tuple[Decision, ...] = ()
    names: tuple[str, ...] = ()

    @property
    def renamed(self) -> dict[str, str]:
        """What classes are to be called, by what they are called; empty: their images lose it."""
        lines = ((one.of_class, one) for one in self.decided if one.decision == "label")
        return {name: one.value.strip() for name, one in lines if name is not None}
