"""The options of each call, put together of the groups in which they are declared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dataprep.api.parameters import Options, options
from dataprep.errors import DataprepError
from dataprep.jobs.request import (
    Building,
    ConvertRequest,
    ImagesAnew,
    Lustre,
    Machine,
    RawRequest,
    Request,
    Running,
    SelectRequest,
    SourceCheck,
)
from dataprep.options import names, option, options_of
from dataprep.recipe import Recipe
from dataprep.system.lustre import Striping, stripes
from dataprep.system.site import site
from dataprep.tables.chosen import Selection

if TYPE_CHECKING:
    from dataprep.datasets.base import Dataset


def prepare_options(dataset: type[Dataset]) -> Options:
    """Those of a data set: what all share, with its defaults, and its own.

    Raises:
        DataprepError: it has one that all share, or a default of one that there is not.
    """
    groups = (RawRequest, Machine, Request, Recipe, Running, Lustre)
    shared = {name for group in groups for each in options_of(group) for name in each.names}
    own = Counter(name for each in options_of(dataset.Options) for name in each.names)
    taken = {*shared, "--dry_run", "--json", *(name for name in own if own[name] > 1)}
    wrong = [name for name in own if name in taken]
    wrong += [f"the default of --{it}" for it in dataset.defaults if f"--{it}" not in shared]
    if wrong:
        raise DataprepError(
            f"data set {dataset.name} cannot have {wrong[0]}: that is for options which all data "
            "sets share, and only for those; this is a defect of the data set"
        )
    first, *others = groups
    call = f"dataprep {dataset.name}"
    return options(call, first, dataset.Options, *others, defaults=dataset.defaults)


def convert_options() -> Options:
    """Those of ``convert``."""
    return options(
        "dataprep convert", SourceCheck, Machine, ConvertRequest, ImagesAnew, Running, Lustre
    )


def select_options() -> Options:
    """Those of ``select``: what is taken, what is changed, and how it is stored."""
    groups = (Selection, SourceCheck, Machine, SelectRequest, ImagesAnew, Running, Lustre)
    return options("dataprep select", *groups)


def compact_options() -> Options:
    """Those of ``compact``; all else is as the data set was made."""
    return options("dataprep compact", SourceCheck, Machine, Building, Running, Lustre)


def stage_options() -> Options:
    """Those of ``stage``: what is copied, where to, how, and by whom."""
    from dataprep.staging.request import StageRequest

    return options("dataprep stage", StageRequest)


@dataclass(frozen=True, kw_only=True)
class Linting:
    """What is looked for, and what of it is shown and written down."""

    rules: tuple[str, ...] | None = option(
        "Only these rules. [default: all]", None, metavar="NAMES", parse=names
    )
    distance: int | None = option(
        "Bits of 255 in which perceptual hashes of nearly the same image may differ. [default: 66; "
        "fewer where all images are alike, such as radiographs]",
        None,
        metavar="BITS",
        least=0,
        most=127,
    )
    fewest: int = option("Smallest class size to accept.", 10, metavar="N", least=1)
    imbalance: float = option("Largest allowed class-size ratio.", 10, metavar="RATIO", least=1)
    show: int = option(
        "Findings of each rule to print; --json prints all.", 10, metavar="N", least=0
    )
    write_exclude: Path | None = option(
        "Write the images to leave out as a CSV for --exclude. Of copies one is kept: in test "
        "rather than in validation, and in validation rather than in train. Which label of a "
        "conflict is right is left to people (`dataprep select --decisions`).",
        None,
        metavar="FILE",
        place="file",
    )


@dataclass(frozen=True, kw_only=True)
class Reporting:
    """What ``report`` writes, and where."""

    to: Path | None = option(
        "Path of the page. [default: OUT/report.html]", None, metavar="FILE", place="file"
    )
    findings: Path | None = option(
        "Write every finding as a row of this file too, .csv or .parquet.",
        None,
        metavar="FILE",
        place="file",
    )
    near: bool | None = option(
        "Whether to look for nearly the same images. [default: up to 400,000 images]", None
    )
    seed: int = option("Random seed that chooses the images.", 0, metavar="N", least=0)


@dataclass(frozen=True, kw_only=True)
class Browsing:
    """What ``browse`` begins with, where marks go, and whose they are."""

    where: str | None = option(
        "Begin with the images that meet this condition, SQL on the columns of records.parquet.",
        None,
        metavar="SQL",
    )
    decisions: Path | None = option(
        "CSV file of marks, which may be there; not in OUT. [default: decisions.csv]",
        None,
        metavar="FILE",
        place="file",
    )
    who: str | None = option(
        "Name of the person who marks. [default: the name of this user]", None, metavar="NAME"
    )
    port: int = option(
        "Port to listen on. [default: any that is free]",
        0,
        metavar="N",
        least=0,
        most=65535,
        shown=False,
    )
    near: bool | None = option(
        "Whether findings include nearly the same images. [default: up to 400,000 images]", None
    )
    open: bool = option("Open the page in a browser.", False)


def chosen_striping(values: Mapping[str, Any]) -> Striping:
    """What the Lustre options say; by default automatic, and silent where there is no Lustre."""
    count, pool = values["lustre_stripe"], values["lustre_pool"]
    asked, here = bool(count or pool), site()
    if here and not asked:  # so a layout that somebody chose before is kept
        count, pool = stripes(here.lustre_stripe or "auto"), here.lustre_pool
    return Striping(count=count or "auto", pool=pool or "", asked=asked)
