"""Looking at a finished data set, as calls: ``dataprep.lint``, ``report`` and ``card``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dataprep.api.option_types import StrPath
from dataprep.api.places import located
from dataprep.api.progress import Tell, told
from dataprep.remote.store import address_of
from dataprep.system.durable_files import write_durably

if TYPE_CHECKING:
    from dataprep.review.findings import Findings


@dataclass(frozen=True, slots=True)
class Linted:
    """What ``lint`` found.

    Attributes:
        rules: what each rule found, the worst rules first.
        remarks: lines on what could not be looked for.
        excluded: images named in the file that was to be written; None without one.
    """

    rules: tuple[Findings, ...]
    remarks: tuple[str, ...]
    excluded: int | None


def lint(
    out: StrPath,
    *,
    rules: Sequence[str] | None = None,
    distance: int | None = None,
    fewest: int = 10,
    imbalance: float = 10,
    show: int | None = 10,
    write_exclude: StrPath | None = None,
    progress: Tell | None = None,
) -> Linted:
    """Find leaks between splits, copies, odd classes and odd images in a finished data set.

    Only the table of records is read, not the images.

    Args:
        rules: names of rules; None for all.
        distance: bits of 255 in which the perceptual hashes of nearly the same image may differ;
            None for 72, or fewer where all images are alike, such as radiographs.
        fewest: images of the smallest class of a split that is accepted.
        imbalance: largest accepted ratio of the largest class of a split to its smallest.
        show: findings of each rule to return; None for all.
        write_exclude: a file to write: which images to leave out, for ``--exclude``.

    Raises:
        DatasetError: there is no intact manifest, or only a part of the data set.
        UsageError: no such rule, or the file cannot be written.
    """
    from dataprep.review.findings import Excluded, Limits, chosen_rules, opened, write_excluded
    from dataprep.review.findings import lint as run
    from dataprep.review.near import CHOICES
    from dataprep.sealed.set import SealedSet

    chosen, limits = chosen_rules(rules), Limits(distance, fewest, imbalance)
    left_out: dict[tuple[str, str], Excluded] | None = None if write_exclude is None else {}
    with told(progress) as reporter:
        advance = partial(reporter.counting, "lint", CHOICES)
        with opened(SealedSet.read(located(out)), chosen, limits, advance) as (database, remarks):
            found = run(database, chosen, show=show, chosen=left_out)
    if write_exclude is not None and left_out is not None:
        write_excluded(Path(write_exclude), left_out.values())
    return Linted(tuple(found), tuple(remarks), None if left_out is None else len(left_out))


def report(
    out: StrPath,
    *,
    to: StrPath | None = None,
    near: bool | None = None,
    seed: int = 0,
    progress: Tell | None = None,
) -> Path:
    """Write an HTML page about a data set: numbers, classes, images, findings; returns its path.

    Args:
        to: of the page; None for ``report.html`` in `out`, or here if that is in a bucket.
        near: whether to look for look-alikes; None: if there are at most 400,000 images.
        seed: chooses the images that are shown.

    Raises:
        DatasetError: there is no intact manifest, or only a part of the data set.
        UsageError: matplotlib or Jinja2 is not installed.
    """
    from dataprep.review.near import CHOICES
    from dataprep.review.report import NAME, write_report

    path = Path(_beside(out), NAME) if to is None else Path(to)
    with told(progress) as reporter:
        advance = partial(reporter.counting, "report", CHOICES)
        write_report(located(out), path, near=near, seed=seed, advance=advance)
    return path


def card(
    out: StrPath, *, responsible: Mapping[str, str | bool] | None = None, **fields: Any
) -> tuple[Path, Path]:
    """Write what catalogues read: ``croissant.json``, and ``README.md`` with its front matter.

    Of a data set in a bucket they are written into the current directory.

    Args:
        responsible: texts of Croissant's Responsible AI vocabulary, such as ``dataBiases``;
            ``hasSyntheticData`` is true or false.
        fields: ``name``, ``description``, ``license``, ``creator``, ``url``, ``date``,
            ``cite_as``, ``version``; what the data set knows of itself need not be given.

    Returns:
        The paths of both files.

    Raises:
        DatasetError: there is no intact manifest.
        UsageError: something that catalogues ask for is missing.
    """
    from dataprep.review.card import CROISSANT, README, croissant, full_card, readme
    from dataprep.sealed.set import SealedSet
    from dataprep.tables.records import RecordsTable

    place = located(out)
    manifest = SealedSet.read(place).manifest
    found = full_card(manifest.dataset, fields, responsible or {})
    with RecordsTable(place, manifest.records_table) as table:
        attributes = table.attributes
    paths = _beside(out) / CROISSANT, _beside(out) / README
    write_durably(paths[0], croissant(found, manifest, attributes).encode())
    write_durably(paths[1], readme(found, manifest).encode())
    return paths


def _beside(out: StrPath) -> Path:
    """Where what is written of a data set goes: into it; of one in a bucket, here."""
    return Path(out) if address_of(out) is None else Path.cwd()
