"""Making ``report.html``: facts, findings and pictures into one file that needs nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dataprep.build.manifest import read_manifest
from dataprep.errors import DataprepError, UsageError
from dataprep.records import Records
from dataprep.review.charts import bars, descending
from dataprep.review.facts import ClassCount, Histogram, class_counts, histograms, sample
from dataprep.review.findings import Findings, Limits, lint, opened
from dataprep.review.loaders import loaders
from dataprep.review.pictures import thumbnail
from dataprep.review.rules import NEEDS_NEAR, RULES
from dataprep.system.durable_files import write_durably
from dataprep.system.messages import counted, printable, sized

NAME: Final = "report.html"

_IMAGES: Final = 240  # on the contact sheet
_PAIRS: Final = 24  # findings with pictures, of a rule
_FINDINGS: Final = 100  # in words, of a rule
_NEAR_LIMIT: Final = 400_000  # images; with more, look-alikes take longer than a report should


@dataclass(frozen=True, slots=True)
class Picture:
    """A thumbnail and its caption."""

    address: str | None
    caption: str


@dataclass(frozen=True, slots=True)
class Shown:
    """What a rule found, and the first findings in pictures."""

    found: Findings
    pictures: tuple[tuple[str, tuple[Picture, ...]], ...]


def write_report(
    out: Path, path: Path, *, near: bool | None, seed: int, advance: Callable[[int], None]
) -> str:
    """Write it.

    Args:
        out: a finished data set.
        path: of the page.
        near: whether to look for look-alikes; None: if there are few enough images.
        seed: chooses the images on the contact sheet.
        advance: told of steps.

    Returns:
        The verdict, a line.

    Raises:
        DatasetError: it is not sealed, damaged, or a part.
        UsageError: what draws a page is not installed.
    """
    manifest = read_manifest(out)
    rows = manifest["totals"]["records"]
    if near is None:
        near = rows <= _NEAR_LIMIT
    rules = [rule for rule in RULES if near or rule.name not in NEEDS_NEAR]
    splits = list(manifest["splits"])
    with opened(out, rules, Limits(), advance) as (database, remarks):
        found = lint(database, rules, show=_FINDINGS)
        classes = class_counts(database, splits)
        measures = histograms(database)
        chosen = sample(database, splits, images=_IMAGES, seed=seed)
    if not near:
        remarks.append(
            f"look-alikes were not looked for among {rows:,} images: `dataprep lint {out}` does"
        )
    verdict = _verdict(found)
    text = _template().render(
        name=out.resolve().name,
        verdict=verdict,
        worst=next((entry.level for entry in found if entry.count), "fine"),
        manifest=manifest,
        splits=[_split_row(name, split) for name, split in manifest["splits"].items()],
        classes=classes,
        largest=max((entry.total for entry in classes), default=0),
        class_chart=descending([entry.total for entry in classes], "classes, largest first"),
        charts=[_chart(measure) for measure in measures],
        sheet=_contact_sheet(out, chosen, classes),
        findings=[_shown(out, entry) for entry in found if entry.count],
        quiet=[entry for entry in found if not entry.count],
        remarks=remarks,
        loaders=loaders(manifest),
        options=_options(manifest),
    )
    write_durably(path, text.encode())
    return verdict


def _template() -> Any:  # Jinja2 is loaded only here
    try:
        import jinja2
    except ModuleNotFoundError as error:
        raise UsageError(
            "a report needs matplotlib and Jinja2; install dataprep-shards[report]"
        ) from error
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("dataprep.review", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(sized=sized, counted=counted, printable=printable)
    return environment.get_template(f"{NAME}.j2")


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


def _split_row(name: str, split: Mapping[str, Any]) -> dict[str, Any]:
    sizes = [shard["records"] for shard in split["shards"]]
    return {
        "name": name,
        "records": sum(sizes),
        "shards": len(sizes),
        "bytes": sum(file["bytes"] for shard in split["shards"] for file in shard["files"]),
        "fewest": min(sizes, default=0),
        "most": max(sizes, default=0),
        "spread": split["class_spread"],
        "rejected": split["rejected"],
        "first": split["shards"][0]["files"][0]["path"] if sizes else "",
    }


def _chart(measure: Histogram) -> str:
    scale = "log" if measure.growing else "linear"
    return bars(measure.edges, measure.counts, measure.title, scale=scale)


def _contact_sheet(
    out: Path, chosen: Sequence[tuple[int, str, str]], classes: Sequence[ClassCount]
) -> list[tuple[ClassCount, list[Picture]]]:
    sheet: dict[int, list[Picture]] = {}
    pictures = _pictures(out, [(split, key) for _, split, key in chosen])
    for (label, *_), picture in zip(chosen, pictures, strict=True):
        sheet.setdefault(label, []).append(picture)
    return [(classes[label], found) for label, found in sheet.items()]


def _shown(out: Path, found: Findings) -> Shown:
    first = found.findings[:_PAIRS]
    return Shown(
        found,
        tuple(
            (finding.text, tuple(_pictures(out, finding.images[:4])))
            for finding in first
            if finding.images
        ),
    )


def _pictures(out: Path, images: Sequence[tuple[str, str]]) -> list[Picture]:
    """Thumbnails; of what cannot be read, only a caption."""
    found = {}
    for split in {split for split, _ in images}:
        with Records(out, split) as records:
            for name, key in images:
                if name == split:
                    found[split, key] = _picture(records, key)
    return [found[image] for image in images]


def _picture(records: Records, key: str) -> Picture:
    caption = f"{records.split}/{key}"
    try:
        example = records.by_key(key)
        return Picture(thumbnail(example), _labelled(caption, example.class_name))
    except (KeyError, DataprepError, OSError):  # rejected, or a damaged shard
        return Picture(None, caption)


def _labelled(caption: str, name: str) -> str:
    return f"{caption}: {name}" if name else caption


def _options(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the data set was made with, each as text."""
    shown = []
    for name in ("dataset", "dataset_config", "seed", "limit", "shuffle", "image", "sink"):
        value = manifest.get(name)
        if isinstance(value, Mapping):
            text = ", ".join(
                f"{key} {value[key]}" for key in sorted(value) if value[key] not in (None, {}, [])
            )
        else:
            text = "" if value is None else str(value)
        if text:
            shown.append((name.replace("_", " "), text))
    versions = manifest["versions"]
    shown.append(("versions", ", ".join(f"{name} {versions[name]}" for name in sorted(versions))))
    shown.append(("manifest", f"SHA-256 {manifest['sha256']}"))
    return shown
