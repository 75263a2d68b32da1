"""Making ``report.html``: facts, findings and pictures into one file that needs nothing else."""

from __future__ import annotations

import base64
import glob
import hashlib
import io
import os
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dataprep.errors import UsageError
from dataprep.review.facts import ClassCount, Histogram, class_counts, histograms, rows_of, sample
from dataprep.review.findings import Findings, Limits, lint, opened, write_findings
from dataprep.review.pictures import Album, Picture, short
from dataprep.review.rules import NEEDS_NEAR, RULES
from dataprep.sealed.set import SealedSet
from dataprep.system.durable_files import write_beside
from dataprep.system.messages import counted, sized
from dataprep_schemas.manifest import Manifest

if TYPE_CHECKING:
    import jinja2
    from matplotlib.axes import Axes
    from matplotlib.ticker import MaxNLocator

NAME: Final = "report.html"

_IMAGES: Final = 240  # on the contact sheet
_PAIRS: Final = 8  # findings with pictures, of a rule
_ALIKE: Final = 2  # pictures of a finding
_FINDINGS: Final = 100  # in words, of a rule
_LONGEST: Final = 300  # characters of a finding
_CLASSES: Final = 25_000  # in the table

_NEAR_LIMIT: Final = 400_000  # images; with more, look-alikes take longer than a report should


@dataclass(frozen=True, slots=True)
class Shown:
    """What a rule found, the first findings in pictures, and more in words."""

    found: Findings
    pictures: tuple[tuple[str, tuple[Picture, ...]], ...]
    words: tuple[str, ...]


def write_report(
    out: Path,
    path: Path,
    *,
    findings: Path | None,
    near: bool | None,
    seed: int,
    advance: Callable[[int], None],
) -> None:
    """Write it.

    Args:
        findings: gets a row for every finding.
        near: whether to look for look-alikes; None: if there are few enough images.

    Raises:
        DatasetError: it is not a finished data set, damaged, or a part.
        UsageError: what draws a page is not installed, or it cannot be written there.
    """
    sealed = SealedSet.read(out)
    manifest, splits = sealed.manifest, sealed.manifest.splits
    if not os.access(path.parent, os.W_OK):
        raise UsageError(f"{path} cannot be written; choose a file in a directory of yours (--to)")
    if near is None:
        near = sealed.records <= _NEAR_LIMIT
    rules = [rule for rule in RULES if near or rule.name not in NEEDS_NEAR]
    with opened(sealed, rules, Limits(), advance) as (database, remarks):
        found = lint(database, rules, show=_FINDINGS if findings is None else None)
        if findings is not None:
            write_findings(findings, found)
            found = [replace(it, findings=it.findings[:_FINDINGS]) for it in found]
        classes = class_counts(database, splits)
        measures = histograms(database)
        chosen = sample(database, [*splits], images=_IMAGES, seed=seed)
        pictured = {(split, key) for _, split, key in chosen}
        pictured |= {image for entry in found for image in _pictured(entry)}
        album = Album(sealed, rows_of(database, pictured))
    if not near:
        remarks.append(
            f"look-alikes were not looked for among {sealed.records:,} images: `dataprep lint` does"
        )
    environment = _templates(autoescape=True)  # loaded only here, and for the charts
    environment.filters.update(sized=sized, counted=counted, sha256=_sha256, short=short)
    text = environment.get_template(f"{NAME}.j2").render(
        name=short(out.resolve().name),
        verdict=_verdict(found),
        worst=next((entry.level for entry in found if entry.count), "fine"),
        facts=_facts(sealed),
        splits=splits,
        classes=len(classes),
        rows=classes[:_CLASSES],
        class_chart=descending([(entry.total, short(entry.name, 24)) for entry in classes]),
        charts=[bars(measure) for measure in measures],
        sheet=_contact_sheet(album, chosen, classes),
        findings=_shown(album, [entry for entry in found if entry.count]),
        quiet=[entry for entry in found if not entry.count],
        remarks=remarks,
        loaders=loaders(manifest),
        options=_options(manifest),
    )
    write_beside(path, text.encode(), "choose a file elsewhere (--to)")


def _verdict(found: Sequence[Findings]) -> str:
    bad = [entry for entry in found if entry.count and entry.level != "note"]
    if not bad:
        return "Nothing odd was found."
    errors = sum(entry.count for entry in bad if entry.level == "error")
    warnings = sum(entry.count for entry in bad if entry.level == "warning")
    worst = bad[0]
    numbers = " and ".join(
        counted(count, word) for count, word in ((errors, "error"), (warnings, "warning")) if count
    )
    return f"{numbers}, first of all: {worst.meaning} ({worst.count:,})."


def _sha256(text: str) -> str:
    """Of the page's script, so that the page allows no other."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _facts(sealed: SealedSet) -> list[tuple[str, str]]:
    numbers = (
        ("records", sealed.records),
        ("classes", len(sealed.manifest.classes)),
        ("shards", sealed.shards),
        ("rejected", sealed.rejected),
        ("repaired", sealed.manifest.totals.repaired),
    )
    return [
        *((name, f"{number:,}") for name, number in numbers),
        ("in shards", sized(sum(split.bytes for split in sealed.manifest.splits.values()))),
        ("format", sealed.manifest.sink.name),
    ]


def _contact_sheet(
    album: Album, chosen: Sequence[tuple[int, str, str]], classes: Sequence[ClassCount]
) -> list[tuple[str, str, list[Picture]]]:
    """Name, number of images, and pictures of each class that is shown."""
    sheet: dict[int, list[Picture]] = {}
    pictures = album.pictures([(split, key) for _, split, key in chosen])
    for (label, *_), picture in zip(chosen, pictures, strict=True):
        sheet.setdefault(label, []).append(picture)
    return [
        (short(classes[label].name), counted(classes[label].total, "image"), found)
        for label, found in sheet.items()
    ]


def _pictured(found: Findings) -> Iterator[tuple[str, str]]:
    for finding in found.findings[:_PAIRS]:
        yield from finding.images[:_ALIKE]


def _shown(album: Album, found: Sequence[Findings]) -> list[Shown]:
    shown = []
    for entry in found:
        pictures = iter(album.pictures(list(_pictured(entry))))
        pairs = [
            (short(finding.text, _LONGEST), tuple(islice(pictures, len(finding.images[:_ALIKE]))))
            for finding in entry.findings[:_PAIRS]
            if finding.images
        ]
        words = tuple(short(finding.text, _LONGEST) for finding in entry.findings)
        shown.append(Shown(entry, tuple(pairs), words))
    return shown


def _options(manifest: Manifest) -> list[tuple[str, str]]:
    """What the data set was made with, each as text."""
    said: dict[str, object] = {
        "dataset": manifest.dataset,
        "dataset config": manifest.dataset_config,
        "seed": manifest.seed,
        "limit": manifest.limit,
        "shuffle": manifest.shuffle,
        "image": manifest.image,
        "sink": manifest.sink,
        "versions": manifest.versions,
        "manifest": f"SHA-256 {manifest.sha256}",
    }
    return [(name, short(text, 2000)) for name, value in said.items() if (text := _text(value))]


def _text(value: object) -> str:
    """A value in words; empty if it says nothing."""
    if isinstance(value, msgspec.Struct):
        value = msgspec.structs.asdict(value)
    if isinstance(value, dict):
        texts = {name: _text(inner) for name, inner in sorted(value.items())}
        return ", ".join(f"{name} {text}" for name, text in texts.items() if text)
    if isinstance(value, tuple):
        return " ".join(value)
    return "" if value is None else str(value)


def _templates(*, autoescape: bool) -> jinja2.Environment:
    """The templates beside this file."""
    try:
        import jinja2
        import matplotlib as mpl  # noqa: F401  # of the same extra
    except ModuleNotFoundError as error:
        raise UsageError(
            "a report needs matplotlib and Jinja2; install dataprep-shards[report]"
        ) from error
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("dataprep.review", "."),
        autoescape=autoescape,  # noqa: S701  # code is no HTML; the page escapes it
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["literal"] = _literal
    return environment


def loaders(manifest: Manifest) -> Iterator[tuple[str, str]]:
    """(trainer, lines) for each that reads this format, with the data set's own paths and labels.

    They are the blocks of ``loaders.j2``, which begin those in docs/trainers.md and
    docs/training.md; a test compares them, and runs them for every format.
    """
    split = "train" if "train" in manifest.splits else next(iter(manifest.splits))
    paths = [file.path for file in manifest.splits[split].shards[0].files]
    index = next((path for path in paths if path.endswith(".idx")), paths[-1])
    template = _templates(autoescape=False).get_template("loaders.j2")  # code, not HTML
    context = template.new_context(
        {
            "split": split,
            "first": f"OUT/{paths[0]}",
            "folder": f"OUT/{PurePosixPath(paths[0]).parent}",
            "pattern": f"OUT/{_pattern(paths[0])}",
            "index": f"OUT/{index}",
            "index_pattern": f"OUT/{_pattern(index)}",
            "classes": len(manifest.classes),
            "multilabel": manifest.examples.multilabel,
        }
    )
    for name, block in template.blocks.items():
        sink, _, trainer = name.replace("_", "-").partition("--")
        if sink in ("any", manifest.sink.name):
            yield trainer.replace("-", " "), "".join(block(context)).strip()


def _pattern(path: str) -> str:
    """A glob of all shards: ``train/train-00000-of-00008.tar`` is ``train/train-*.tar``."""
    head, _, tail = path.rpartition("-of-")
    before = glob.escape(head.rpartition("-")[0])
    return f"{before}-*{PurePosixPath(tail).suffix}" if head else glob.escape(path)


def _literal(text: str) -> str:
    """A string of Python, for whatever a manifest says; in double quotes if it needs no escape."""
    inner = repr(text)[1:-1]
    return f'"{inner}"' if inner == text and '"' not in text else repr(text)


# --- Charts as SVG ---

# Drawn by matplotlib, which lays out axes and dates of any range without a browser, and writes the
# same SVG for the same numbers when it is told to leave out the time. Its colours are replaced by
# the page's variables, so that a chart is readable on dark paper, too.

# Colours that nothing else has, and what the page calls them.
_INK, _FAINT, _FILL = "#010203", "#040506", "#070809"
_VARIABLES: Final = {_INK: "var(--ink)", _FAINT: "var(--line)", _FILL: "var(--accent)"}
_COLUMNS: Final = 1000  # a screen has no more
_STYLE: Final[Any] = {  # of names that only matplotlib knows
    "svg.fonttype": "none",  # text stays text: it can be found, and read aloud
    "svg.hashsalt": "dataprep",
    "text.parse_math": False,
    "font.family": "sans-serif",
    "font.size": 9,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "text.color": _INK,
    "axes.edgecolor": _FAINT,
    "axes.labelcolor": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": _INK,
    "ytick.color": _INK,
}


def bars(measure: Histogram) -> str:
    """A histogram."""
    from matplotlib import ticker

    def draw(axes: Axes) -> None:
        axes.stairs(measure.counts, measure.edges, fill=True, color=_FILL)
        if measure.growing:
            axes.set_xscale("log")
            spread, units = measure.edges[-1] / measure.edges[0], ticker.EngFormatter(sep="")
            locator = ticker.LogLocator(subs=(1.0, 2.0, 5.0) if spread < 100 else (1.0,))
            few = ticker.MaxNLocator(5, steps=(1, 2, 5, 10))
            axes.xaxis.set_major_locator(few if spread < 10 else locator)
            axes.xaxis.set_major_formatter(lambda it, _: f"{it:,g}" if it < 10_000 else units(it))
            axes.xaxis.set_minor_formatter(ticker.NullFormatter())
        axes.set_xlabel(measure.title)
        axes.set_ylabel("images")

    return _drawn(draw, f"histogram: {measure.title}", width=4.2, height=2.1)


def descending(counts: Sequence[tuple[int, str]]) -> str:
    """Classes from the largest to the smallest, however many there are; few with their names."""
    largest = sorted(counts, key=lambda each: -each[0])
    ordered = [count for count, _ in largest]
    step = max(len(ordered) // _COLUMNS, 1)

    def draw(axes: Axes) -> None:
        shown = ordered[::step]
        edges = [number * step for number in range(len(shown) + 1)]
        axes.stairs(shown, edges, fill=True, color=_FILL)
        axes.set_ylim(0)
        axes.xaxis.set_major_locator(_whole_numbers())
        if len(ordered) <= 24:  # names have room
            places, names = [edge - 0.5 for edge in edges[1:]], [name for _, name in largest]
            axes.set_xticks(places, names, rotation=30, ha="right", rotation_mode="anchor")
        axes.set_xlabel("classes, largest first")
        axes.set_ylabel("images")

    return _drawn(draw, "images of each class, largest first", width=8.6, height=2.5)


def _whole_numbers() -> MaxNLocator:
    from matplotlib import ticker

    return ticker.MaxNLocator(nbins=5, integer=True)


def _drawn(draw: Callable[[Axes], None], name: str, *, width: float, height: float) -> str:
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE), warnings.catch_warnings(action="ignore"):  # of rare letters
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.add_subplot()
        draw(axes)
        axes.tick_params(length=3)
        axes.yaxis.set_major_locator(_whole_numbers())
        buffer = io.BytesIO()
        FigureCanvasSVG(figure).print_figure(
            buffer, format="svg", metadata={"Date": None, "Creator": None, "Title": name}
        )
    text = buffer.getvalue().decode()
    svg = text[text.index("<svg") :]
    for color, variable in _VARIABLES.items():
        svg = svg.replace(color, variable)
    # A page has several charts, and every name in it once.
    prefix = hashlib.sha256(name.encode()).hexdigest()[:8]
    svg = re.sub(r'(id="|url\(#|href="#)', rf"\g<1>c{prefix}-", svg)
    return svg.replace("<svg ", '<svg role="img" ', 1)
