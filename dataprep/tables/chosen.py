"""What is taken of finished data sets, and what is changed, as ``dataprep select`` is told."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from dataprep.options import FILE, names, option, share


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What is taken, and what is changed.

    Attributes:
        sample: by the smallest hashes.
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
    split_by: str | None = option(
        "The column of records.parquet that tells the split. [default: images stay in theirs]",
        None,
        metavar="COLUMN",
    )
    names: tuple[str, ...] = ()
