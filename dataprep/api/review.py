"""Looking at a finished data set, as calls: ``dataprep.lint``, ``report``, ``card`` and ``sql``."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dataprep.api.places import located
from dataprep.api.progress import Display, Tell, told
from dataprep.options import StrPath
from dataprep.remote.store import address_of
from dataprep.sealed.set import SealedSet
from dataprep.system.durable_files import write_beside
from dataprep.system.messages import printable
from dataprep_schemas.tables import patient_column

if TYPE_CHECKING:
    import pyarrow as pa

    from dataprep.review.findings import Findings


@dataclass(frozen=True, slots=True)
class Linted:
    """What ``lint`` found.

    Attributes:
        rules: what each rule found, the worst rules first.
        remarks: lines on what could not be looked for.
        excluded: images named in the file that was to be written; None without one.
        undecided: images of conflicts, which are not in that file, since only people can say which
            label is right; None without one.
    """

    rules: tuple[Findings, ...]
    remarks: tuple[str, ...]
    excluded: int | None
    undecided: int | None = None


def lint(
    out: StrPath,
    *,
    rules: str | Sequence[str] | None = None,
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
            None for 66, or fewer where all images are alike, such as radiographs.
        fewest: images of the smallest class of a split that is accepted.
        imbalance: largest accepted ratio of the largest class of a split to its smallest.
        show: findings of each rule to return; None for all.
        write_exclude: a file to write: which images to leave out, for ``--exclude``.

    Raises:
        DatasetError: there is no intact manifest, or only a part of the data set.
        UsageError: no such rule, a value that none can have, or the file cannot be written.
    """
    from dataprep.api.options import Linting
    from dataprep.api.parameters import options
    from dataprep.review.findings import (
        Excluded,
        Limits,
        chosen_rules,
        conflicting,
        opened,
        write_excluded,
    )
    from dataprep.review.findings import lint as run
    from dataprep.review.near import CHOICES

    given = {"rules": rules, "distance": distance, "fewest": fewest, "imbalance": imbalance}
    more = {"show": show, "write_exclude": write_exclude}
    values = options("dataprep lint", Linting).settle({**given, **more})
    chosen = chosen_rules(values["rules"])
    limits = Limits(values["distance"], values["fewest"], values["imbalance"])
    left_out: dict[tuple[str, str], Excluded] | None = None if write_exclude is None else {}
    with told(progress) as reporter:
        advance = partial(reporter.counting, "lint", CHOICES)
        with opened(SealedSet.read(located(out)), chosen, limits, advance) as (database, remarks):
            shown = None if show is None else values["show"]
            torn = set() if left_out is None else conflicting(database)
            found = run(database, chosen, show=shown, chosen=left_out, undecided=torn)
    if write_exclude is None or left_out is None:
        return Linted(tuple(found), tuple(remarks), None)
    write_excluded(Path(write_exclude), left_out.values())
    return Linted(tuple(found), tuple(remarks), len(left_out), len(torn - left_out.keys()))


def report(
    out: StrPath,
    *,
    to: StrPath | None = None,
    findings: StrPath | None = None,
    near: bool | None = None,
    seed: int = 0,
    progress: Tell | None = None,
) -> Path:
    """Write an HTML page about a data set: numbers, classes, images, findings; returns its path.

    Args:
        to: of the page; None for ``report.html`` in `out`, or here if that is in a bucket.
        findings: a file to write, ``.csv`` or ``.parquet``: a row for every finding.
        near: whether to look for look-alikes; None: if there are at most 400,000 images.
        seed: chooses the images that are shown.

    Raises:
        DatasetError: there is no intact manifest, or only a part of the data set.
        UsageError: matplotlib or Jinja2 is not installed, or the page cannot be written there.
    """
    from dataprep.api.options import Reporting
    from dataprep.api.parameters import options
    from dataprep.review.near import CHOICES
    from dataprep.review.report import NAME, write_report

    values = options("dataprep report", Reporting).settle(
        {"to": to, "findings": findings, "seed": seed}
    )
    path = values["to"] or Path(_beside(out), NAME)
    with told(progress) as reporter:
        advance = partial(reporter.counting, "report", CHOICES)
        write_report(
            located(out),
            path,
            findings=values["findings"],
            near=near,
            seed=values["seed"],
            advance=advance,
        )
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
        UsageError: something that catalogues ask for is missing, or a file cannot be written.
    """
    from dataprep.review.card import CROISSANT, README, croissant, full_card, readme
    from dataprep.tables.records import RecordsTable

    place = located(out)
    manifest = SealedSet.read(place).manifest
    found = full_card(manifest.dataset, fields, responsible or {})
    with RecordsTable(place, manifest.records_table) as table:
        own = table.fields
        rows = table.rows(0, manifest.records_table.rows, ["format"])
        formats = {form for (form,) in rows if form}
    paths = _beside(out) / CROISSANT, _beside(out) / README
    texts = croissant(found, manifest, own), readme(found, manifest, formats)
    for path, text in zip(paths, texts, strict=True):
        write_beside(path, text.encode(), "mend that and run the same command again")
    return paths


def browse(
    out: StrPath,
    *,
    where: str | None = None,
    decisions: StrPath = "decisions.csv",
    who: str | None = None,
    port: int = 0,
    near: bool | None = None,
    open: bool = False,  # noqa: A002  # the option's name
    progress: Tell | None = None,
) -> None:
    """Show a finished data set in a browser of this machine, to look, ask and mark, until Ctrl-C.

    A message of `progress` has the address: of the loopback interface, good once.

    Args:
        where: begin with the images that meet this condition in SQL.
        decisions: the file of marks, a CSV, which may be there; not in `out`.
        who: the person who marks; None: this user.
        port: to listen on; 0: any that is free.
        near: whether findings include nearly the same images; None: if there are at most 400,000.
        open: whether to open the page in a browser.

    Raises:
        DatasetError: there is no intact manifest, or only a part of the data set.
        UsageError: the condition, the file, the name or the port cannot be used, or Jinja2 is not
            installed.
    """
    from dataprep.api.options import Browsing
    from dataprep.api.parameters import options
    from dataprep.review.browse.site import opened_in_browser, serve

    given = {"where": where, "decisions": decisions, "who": who, "port": port, "open": open}
    values = options("dataprep browse", Browsing).settle({**given, "near": near})
    shown = values.pop("open")
    # Somebody has to see the address.
    with told(progress or Display()) as reporter, ExitStack() as at_end:

        def ready(address: str, marks: Path, by: str) -> None:
            reporter.line(f"marks of {printable(by) or 'nobody named'} go into {marks}")
            reporter.line(f"open {address} (good once); Ctrl-C ends it")
            if shown:
                at_end.enter_context(opened_in_browser(address))

        serve(SealedSet.read(located(out)), **values, ready=ready)


def _beside(out: StrPath) -> Path:
    """Where what is written of a data set goes: into it; of one in a bucket, here."""
    return Path(out) if address_of(out) is None else Path.cwd()


def sql(out: StrPath | Mapping[str, StrPath], query: str) -> pa.Table:
    """Ask a finished data set, or several, in SQL: ``select split, count(*) from records …``.

    The SQL is DuckDB's; it reads the tables of records, and reaches no other file.

    Args:
        out: the directory of a data set, whose ``records.parquet`` is the table ``records``; of
            several by name, ``{"a": "OUT", "b": "OUT2"}``, the tables have these names.
        query: one that selects.

    Returns:
        A table of Arrow: it has ``to_pylist`` and ``to_pandas``.

    Raises:
        UsageError: it does not select, is wrong, takes more than a gigabyte of memory, or its
            answer does; or the name of a table cannot be one.
        DatasetError: there is no intact manifest, or table of records.
    """
    from dataprep.sealed.questions import asked

    places = out if isinstance(out, Mapping) else {"records": out}
    paths = {name: located(place) for name, place in places.items()}
    tables = {name: SealedSet.read(path).manifest.records_table for name, path in paths.items()}
    return asked({name: (path, tables[name]) for name, path in paths.items()}, query)


# --- labels by split, as papers have them: images, percent, patients ---

_MARKDOWN: Final = str.maketrans({each: f"\\{each}" for each in "\\|`*_[]<>"})


def label_table(out: StrPath, format_: str) -> Iterator[str]:
    """Lines of the table; the last row is of all images.

    Args:
        format_: ``markdown`` or ``csv``.

    Raises:
        DatasetError: there is no intact data set.
    """
    from dataprep.tables.questions import labels_by_split

    out = located(out)
    manifest = SealedSet.read(out).manifest
    patient = patient_column(manifest.examples.fields)
    found = labels_by_split(out, manifest.records_table, patient)
    counts = {(split, label): (images, patients) for split, label, images, patients in found}
    splits = [split for split in manifest.splits if (split, None) in counts]
    rows: list[tuple[str, int | None]] = [
        (name or identifier, number) for number, (identifier, name) in enumerate(manifest.classes)
    ]
    others = (("no label", -1), ("only uncertain labels", -2))
    rows += [row for row in others if any(label == row[1] for _, label in counts)]
    rows.append(("total", None))
    every = [[counts.get((split, label), (0, 0)) for split in splits] for _, label in rows]
    totals = [counts[split, None][0] for split in splits]
    titles = ["label"]
    for split in splits:
        titles += [f"{split} n", f"{split} %"] + [f"{split} patients"] * (patient is not None)
    lines = [titles]
    for (name, _), cells in zip(rows, every, strict=True):
        lines.append([name])
        for (images, patients), total in zip(cells, totals, strict=True):
            lines[-1] += [str(images), f"{100 * images / total:.1f}"]
            lines[-1] += [str(patients)] * (patient is not None)
    return _PRINTED[format_](lines)


def comma_separated(lines: Iterable[Sequence[str]]) -> Iterator[str]:
    """Lines of a CSV."""
    for line in lines:
        text = io.StringIO()
        csv.writer(text, lineterminator="").writerow(line)
        yield text.getvalue()


def _markdown(lines: Sequence[Sequence[str]]) -> Iterator[str]:
    for number, line in enumerate(lines):
        yield f"| {' | '.join(printable(cell).translate(_MARKDOWN) for cell in line)} |"
        if number == 0:
            yield f"| --- |{' ---: |' * (len(line) - 1)}"


_PRINTED: Final = {"csv": comma_separated, "markdown": _markdown}
