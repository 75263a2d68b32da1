"""Makes rows of images whose labels are still text, once all labels of a unit are known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from dataprep.errors import SourceError
from dataprep.index import Row
from dataprep.sources.containers.listing import StoredImage
from dataprep.sources.folder.class_list import ClassList
from dataprep.wording import printable


@dataclass(frozen=True, slots=True)
class Draft:
    """An image that has everything a row needs but the numbers of its labels.

    Attributes:
        split: the split it belongs to.
        key: its name within the split.
        image: where its bytes are.
        labels: classes' identifiers (or what else `ClassList.indices` knows), in any order.
        group: as in `Row`.
    """

    split: str
    key: str
    image: StoredImage
    labels: tuple[str, ...]
    group: str = ""


class RepeatedKeyError(SourceError):
    """A unit has one key twice in a split.

    Args:
        message: what to tell the user.
        key: the key.
    """

    def __init__(self, message: str, key: str) -> None:
        super().__init__(message)
        self.key = key


def make_rows(
    drafts: list[Draft], known: ClassList | None, without_images: Iterable[str] = ()
) -> tuple[dict[str, list[Row]], Sequence[str] | None]:
    """The rows of each split, sorted by key, and what their labels are indices into.

    Args:
        drafts: of one unit; emptied, so that drafts and rows are never in memory both.
        known: the data set's classes, which have every label; None if only scanning can tell.
        without_images: classes that there are besides.

    Returns:
        The rows, and the classes found, sorted by name; None if the labels are indices into
        `known`.

    Raises:
        RepeatedKeyError: two images of a split have the same key.
    """
    classes: list[str] | None = None
    if known is None:
        found = {label for draft in drafts for label in draft.labels}
        classes = sorted(found.union(without_images))
        indices: Mapping[str, int] = {label: index for index, label in enumerate(classes)}
    else:
        indices = known.indices
    drafts.sort(key=lambda draft: (draft.split, draft.key), reverse=True)
    _require_unique(drafts)
    labels: dict[tuple[str, ...], tuple[int, ...]] = {}  # one tuple for all images of a class
    rows: dict[str, list[Row]] = {}
    while drafts:
        draft = drafts.pop()
        if draft.labels not in labels:
            labels[draft.labels] = tuple(sorted({indices[label] for label in draft.labels}))
        rows.setdefault(draft.split, []).append(_row(draft, labels[draft.labels]))
    return rows, classes


def _row(draft: Draft, labels: tuple[int, ...]) -> Row:
    image = draft.image
    return Row(
        draft.key,
        image.container,
        image.offset,
        image.size,
        image.modified,
        labels,
        group=draft.group,
        packing=image.packing,
    )


def _require_unique(drafts: Sequence[Draft]) -> None:
    for one, other in pairwise(drafts):
        if (one.key, one.split) == (other.key, other.split):
            places = " and ".join(
                dict.fromkeys(printable(draft.image.container) for draft in (other, one))
            )
            raise RepeatedKeyError(
                f"{one.split}: two images have the same name, {printable(one.key)}, in {places}; "
                "expected each name once; rename or remove one",
                one.key,
            )
