"""The order in which a multi-label data set's label sets are assigned to shards.

`dataprep.tables.order` assigns images in a sequence in which those of a label set are consecutive.
A label is spread best if the sets that have it are neighbours too: a run of consecutive images
gives any two shards the same number of them, within 1. So the labels are ranked from the rarest to
the most frequent, and the sets follow one another as in the reflected Gray code of (has the
rarest, has the second rarest, …). F. Gray, "Pulse code communication", US patent 2,632,058.

For every input this gives:

* the shards' sizes differ by at most 1;
* the count of every label set differs by at most 1 between any two shards;
* the count of a label differs by at most its runs: how many stretches of consecutive label sets
  have it. The label of rank r, the rarest being 1, has at most 2 ** (r - 2) runs, and the two
  rarest have one; and never more runs than there are combinations of rarer labels it occurs with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

LabelSet = tuple[int, ...]
"""The labels of an image, ascending; empty if it has none."""


def rank_label_sets(counts: Mapping[LabelSet, int]) -> dict[LabelSet, int]:
    """Each label set's place in the sequence, from 0, given how many images have it."""
    places = {label: place for place, label in enumerate(_rarest_first(counts))}
    return {labels: rank for rank, labels in enumerate(sorted(counts, key=_gray_order(places)))}


def _rarest_first(counts: Mapping[LabelSet, int]) -> list[int]:
    images: Counter[int] = Counter()
    for labels, count in counts.items():
        for label in labels:
            images[label] += count
    return sorted(images, key=lambda label: (images[label], label))


def _gray_order(places: Mapping[int, int]) -> Callable[[LabelSet], tuple[int, ...]]:
    """The sort key of a label set: as tuples of these compare, so do the ranks in the Gray code.

    The rank's binary digits are the set's, each xor all before it: they rise at the first label's
    place, fall at the second's, rise at the third's and so on. Of two sets with the same first
    labels the one that rises sooner, or falls later, comes later. No label at all is as one
    behind all others. Thus thousands of classes cost no more than the labels an image has.
    """
    end = len(places)

    def order(labels: LabelSet) -> tuple[int, ...]:
        turns = sorted(places[label] for label in labels)
        return tuple(place if number % 2 else -place for number, place in enumerate((*turns, end)))

    return order
