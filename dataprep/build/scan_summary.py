"""What scanning found, as a whole: everything about the raw data but the images themselves."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from dataprep.build.index_parts import IndexParts
from dataprep.build.request import EVERY_SPLIT, Request
from dataprep.build.workspace import Workspace
from dataprep.datasets import Dataset, Found, wanted_splits
from dataprep.datasets.splits import in_usual_order
from dataprep.errors import RejectedError, SourceError, UsageError
from dataprep.system.messages import counted, printable
from dataprep.system.state_files import read_state, to_json, write_state

if TYPE_CHECKING:  # it loads a database, which a run that has nothing to order need not
    from dataprep.index.images import Images

_RULES = 1  # raise it whenever the same index would be summarized otherwise


@dataclass(frozen=True, slots=True)
class SplitSummary:
    """The images that are prepared of a split.

    Attributes:
        images: how many there are.
        source_bytes: their size in the raw data.
        digest: of what shapes the output: the same for every raw layout. It notices every change,
            but is no proof against forgery.
    """

    images: int
    source_bytes: int
    digest: str


@dataclass(frozen=True, slots=True)
class Unmatched:
    """Images that are listed but not there, or there but not listed.

    Attributes:
        missing: how many are listed but not there.
        unlisted: how many are there but not listed.
        first: the names of a few, by kind.
    """

    missing: int
    unlisted: int
    first: Mapping[str, Sequence[str]]

    @property
    def number(self) -> int:
        """How many there are."""
        return self.missing + self.unlisted

    def texts(self) -> list[tuple[str, Sequence[str]]]:
        """How many of what, and a few names, of the kinds of which there are any."""
        kinds = {"missing": "listed but not there", "unlisted": "there but not listed"}
        numbers = {"missing": self.missing, "unlisted": self.unlisted}
        return [
            (f"{counted(numbers[kind], 'image')} {what}", self.first[kind])
            for kind, what in kinds.items()
            if numbers[kind]
        ]


@dataclass(frozen=True, slots=True)
class ScanSummary:
    """The index as a whole.

    Attributes:
        splits: those that are prepared, in order.
        classes: (identifier, name) of every class, by index.
        images: of every split that is prepared.
        unmatched: images without an entry in a list, and the other way round.
        ignored: how many files are no images, and a line on the first; empty if none.
        counts: what was counted, by what it is.
    """

    splits: tuple[str, ...]
    classes: tuple[tuple[str, str], ...]
    images: Mapping[str, SplitSummary]
    unmatched: Unmatched
    ignored: tuple[int, str]
    counts: Mapping[str, int]


def open_images(
    request: Request, dataset: Dataset, workspace: Workspace, parts: IndexParts
) -> Images:
    """The images of the index; nothing is read until something is asked."""
    from dataprep.index.images import Images

    attributes = [attribute.name for attribute in dataset.attributes]
    statuses = parts.statuses()
    return Images(parts.tables(), workspace.private, statuses, attributes, request.splits)


def summarize(
    request: Request,
    workspace: Workspace,
    dataset: Dataset,
    found: Found,
    parts: IndexParts,
    images: Images,
) -> ScanSummary:
    """Check the images and put together what is known of them; at once if nothing changed.

    Raises:
        UsageError: a split was asked for that is not there.
        SourceError: there are no images, or no labels; a name or a group is where it must not be.
    """
    path = workspace.order / "summary.json"
    known = dataset.classes()
    made_of = [
        *(_RULES, request.splits, request.limit, request.seed, found.splits, known),
        [[unit.name, part.sha256, part.fingerprint] for unit, part in parts.units.items()],
    ]
    key = hashlib.sha256(to_json(made_of)).hexdigest()
    state = read_state(path)
    if state is not None and state["key"] == key:
        return _restored(state["summary"])
    summary = _summarized(request, workspace, dataset, found, parts, images)
    write_state(path, {"key": key, "summary": asdict(summary)})
    return summary


def _summarized(
    request: Request,
    workspace: Workspace,
    dataset: Dataset,
    found: Found,
    parts: IndexParts,
    images: Images,
) -> ScanSummary:
    unmatched = Unmatched(**images.unmatched())
    if unmatched.number:
        images.write_unmatched(workspace.unmatched)
    else:
        workspace.unmatched.unlink(missing_ok=True)  # of an earlier run
    there = images.splits()
    if not there:
        raise _nothing(request, unmatched)
    splits = found.splits or wanted_splits(in_usual_order(there), request.splits)
    check_splits(request, splits)
    for split in splits:
        if split not in there:
            raise SourceError(
                f"{split}: no images found; leave it out with --splits; or, if it was cut by a "
                "share, take a larger one or another --split_seed"
            )
    known = dataset.classes()
    if known is None:
        names = images.class_names().union(*(part.classes for part in parts.units.values()))
        known = dataset.order_classes(names)
    if not known:
        raise SourceError("no image has a label; check where labels are taken from")
    images.check_splits_known()
    images.check_keys()
    images.check_groups(dataset.group)
    choose_images(images, splits, known, dataset, request)
    counts: Counter[str] = Counter()
    for part in parts.units.values():
        counts.update(part.counts)
    return ScanSummary(
        splits=splits,
        classes=tuple(known),
        images={row[0]: SplitSummary(*row[1:]) for row in images.summaries()},
        unmatched=unmatched,
        ignored=images.ignored(),
        counts={name: counts[name] for name in sorted(counts)},
    )


def choose_images(
    images: Images,
    splits: Sequence[str],
    classes: Sequence[tuple[str, str]],
    dataset: Dataset,
    request: Request,
) -> None:
    """Make the tables that summaries and the order are made of."""
    identifiers = [identifier for identifier, _ in classes]
    images.number_labels(splits, identifiers, multilabel=dataset.multilabel)
    images.choose(splits, seed=request.seed, limit=request.limit)


def check_splits(request: Request, splits: Sequence[str]) -> None:
    """Refuse options that name splits which are not prepared.

    Raises:
        UsageError: names one.
    """
    known = ", ".join(sorted(splits))
    for name in request.num_shards or {}:
        if name not in splits and name != EVERY_SPLIT:
            raise UsageError(f"--num_shards {name}=…: the splits are {known}")


def check_unmatched(request: Request, workspace: Workspace, summary: ScanSummary) -> None:
    """Refuse early, before hours of work, what could not be sealed.

    Raises:
        RejectedError: more images are missing, or not listed, than the user allows.
    """
    unmatched = summary.unmatched
    images = sum(split.images for split in summary.images.values())
    if request.max_bad.allows(unmatched.number, images + unmatched.missing):
        return
    raise RejectedError(
        f"{' and '.join(text for text, _ in unmatched.texts())}, --max_bad allows "
        f"{request.max_bad}; no shard was written; {workspace.unmatched} names all of them",
        rejected=unmatched.number,
    )


def report_summary(summary: ScanSummary, report: Callable[[str], None]) -> None:
    """Tell the user what may be a surprise."""
    number, first = summary.ignored
    if number:
        report(f"{counted(number, 'file')} ignored, the first {first}")
    for what, count in summary.counts.items():
        report(f"{what}: {count:,} in the raw data")
    for text, names in summary.unmatched.texts():
        report(f"{text}: {', '.join(names)}")


def _restored(value: Mapping[str, Any]) -> ScanSummary:
    return ScanSummary(
        splits=tuple(value["splits"]),
        classes=tuple((identifier, name) for identifier, name in value["classes"]),
        images={name: SplitSummary(**split) for name, split in value["images"].items()},
        unmatched=Unmatched(**value["unmatched"]),
        ignored=(value["ignored"][0], value["ignored"][1]),
        counts=value["counts"],
    )


def _nothing(request: Request, unmatched: Unmatched) -> SourceError:
    place = printable(str(request.raw))
    others = "".join(f"; {text}, such as {names[0]}" for text, names in unmatched.texts())
    return SourceError(
        f"no images found in {place}{others}; check --raw_data_dir, and what says which images "
        "there are"
    )
