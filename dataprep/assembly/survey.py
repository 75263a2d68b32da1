"""What scanning found: everything about the raw data but the rows themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from dataprep.assembly.index_parts import (
    IndexPart,
    Part,
    read_header,
    read_lines,
    read_unmatched,
)
from dataprep.assembly.request import EVERY_SPLIT, Request
from dataprep.assembly.unmatched import UnmatchedTable, write_unmatched
from dataprep.assembly.workspace import Workspace
from dataprep.errors import SourceError, UsageError
from dataprep.index import Row, Unmatched
from dataprep.sources import Dataset, Found
from dataprep.sources.base import wanted_splits
from dataprep.sources.split_names import in_usual_order
from dataprep.wording import printable


@dataclass(frozen=True, slots=True)
class Survey:
    """The index as a whole.

    Attributes:
        parts: one a scan unit.
        digests: of each part's rows, by the unit's name.
        splits: those that are prepared, in order.
        others: those that are there too.
        classes: (identifier, name) of every class, by index.
        names: the classes' identifiers if rows have indices into their part's own list of classes
            and must be told the common ones; else None.
        ignored: what is no image, by split, as the manifest has it.
        unmatched: images without an entry in a list, and the other way round.
        counts: what was counted, by what it is.
        images: how many rows each split has.
    """

    parts: tuple[IndexPart, ...]
    digests: Mapping[str, str]
    splits: tuple[str, ...]
    others: tuple[str, ...]
    classes: tuple[tuple[str, str], ...]
    names: tuple[str, ...] | None
    ignored: Mapping[str, Sequence[Mapping[str, str]]]
    unmatched: UnmatchedTable
    counts: Mapping[str, int]
    images: Mapping[str, int]

    def part_paths(self) -> list[Path]:
        """Where the parts are."""
        return [part.path for part in self.parts]


def survey(
    request: Request,
    workspace: Workspace,
    dataset: Dataset,
    found: Found,
    parts: Sequence[IndexPart],
) -> Survey:
    """Put together what the parts' headers say.

    Raises:
        UsageError: a split was asked for that is not there.
        SourceError: there are no images, or no labels; or the data set cannot tell what is missing.
    """
    headers = {part.unit.name: read_header(part.path) for part in parts}
    there = {split for header in headers.values() for split in header.sections}
    unmatched = write_unmatched(workspace, _unmatched(request, dataset, parts, headers))
    if not there:
        raise _nothing(request, unmatched)
    splits = found.splits or _wanted(request, there)
    check_splits(request, splits)
    own = dataset.classes()
    classes = own if own is not None else dataset.order_classes(_all_classes(headers.values()))
    if not classes:
        raise SourceError("no image has a label; check where labels are taken from")
    return Survey(
        parts=tuple(parts),
        digests={name: header.digest for name, header in headers.items()},
        splits=splits,
        others=tuple(sorted(there.difference(splits))),
        classes=tuple(classes),
        names=_names(headers, classes),
        ignored=_ignored(headers, splits),
        unmatched=unmatched,
        counts=_counts(headers),
        images=_images(headers, splits),
    )


def _nothing(request: Request, unmatched: UnmatchedTable) -> SourceError:
    place = printable(str(request.raw))
    others = "".join(f"; {kind.text}, such as {kind.first[0]}" for kind in unmatched.kinds)
    return SourceError(
        f"no images found in {place}{others}; check --raw_data_dir, and what says which images "
        "there are"
    )


def check_splits(request: Request, splits: Sequence[str]) -> None:
    """Refuse options that name splits which are not prepared.

    Raises:
        UsageError: names one.
    """
    known = ", ".join(sorted(splits))
    for name in request.num_shards or {}:
        if name not in splits and name != EVERY_SPLIT:
            raise UsageError(f"--num_shards {name}=…: the splits are {known}")


def _wanted(request: Request, there: set[str]) -> tuple[str, ...]:
    """The splits that scanning found, those that were asked for, in the usual order."""
    return wanted_splits(in_usual_order(there), request.splits)


def _all_classes(headers: Iterable[Part]) -> set[str]:
    return {name for header in headers for name in header.classes or ()}


def _names(
    headers: Mapping[str, Part], classes: Sequence[tuple[str, str]]
) -> tuple[str, ...] | None:
    if all(header.classes is None for header in headers.values()):
        return None
    return tuple(identifier for identifier, _ in classes)


def _ignored(headers: Mapping[str, Part], splits: Sequence[str]) -> dict[str, list[dict[str, str]]]:
    """By split; what nobody can tell the split of goes to the first."""
    ignored: dict[str, list[dict[str, str]]] = {}
    for header in headers.values():
        own = [split for split in splits if split in header.sections]
        place = own[0] if own else splits[0]
        ignored.setdefault(place, []).extend(asdict(entry) for entry in header.ignored)
    return {split: entries for split, entries in ignored.items() if entries}


def _unmatched(
    request: Request,
    dataset: Dataset,
    parts: Sequence[IndexPart],
    headers: Mapping[str, Part],
) -> Iterator[Unmatched]:
    """Those of each part, and what no part has; never all in memory."""
    for part in parts:
        for entry in read_unmatched(part.path):
            if request.splits is None or not entry.split or entry.split in request.splits:
                yield entry
    yield from dataset.missing(request.raw, request.splits, _keys(parts, headers))


def _images(headers: Mapping[str, Part], splits: Sequence[str]) -> dict[str, int]:
    images = dict.fromkeys(splits, 0)
    for header in headers.values():
        for split in images.keys() & header.sections.keys():
            images[split] += header.sections[split].rows
    return images


def _keys(parts: Sequence[IndexPart], headers: Mapping[str, Part]) -> Iterator[str]:
    for part in parts:
        for split in headers[part.unit.name].sections:
            for line in read_lines(part.path, split):
                yield Row.from_json(line).key


def _counts(headers: Mapping[str, Part]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for header in headers.values():
        total.update(header.counts)
    return {name: total[name] for name in sorted(total)}
