"""Several sets of examples as one, in proportions that hold all along."""

from __future__ import annotations

import operator
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, overload

import numpy as np

from dataprep.errors import UsageError
from dataprep.formats.example import Example
from dataprep.system.messages import counted
from dataprep.training.examples import TrainingExamples
from dataprep.training.order import InProportion, whole_shares

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import ArrayLike, NDArray

    from dataprep.training.examples import Shuffle
    from dataprep.training.order import Order


def mix(
    sets: Mapping[str, TrainingExamples], weights: Mapping[str, float] | None = None
) -> Mixture:
    """Several sets of examples as one: ``mix({"a": a, "b": b}, weights={"a": 3, "b": 1})``.

    Its loader and sampler give each set its share in every stretch of the sequence; of each, all
    examples come before any comes again. An epoch has as many samples as all sets together have
    examples.

    Args:
        sets: what `dataprep.open` gave, by names of the caller's.
        weights: the share of each, in proportion; None for as many as it has examples.

    Raises:
        UsageError: they have not the same classes, or there is no weight for each.
    """
    return Mixture(sets, weights)


class Mixture(TrainingExamples):
    """The examples of several sets, one set behind another by number; see `mix`."""

    def __init__(
        self, sets: Mapping[str, TrainingExamples], weights: Mapping[str, float] | None = None
    ) -> None:
        self._names, self._sets = list(sets), list(sets.values())
        if not self._sets or not all(map(len, self._sets)):
            raise UsageError("a mixture is of one or more sets, none of them empty")
        first = self._sets[0]
        for name, one in sets.items():
            for what in ("classes", "multilabel", "colorspace"):
                if getattr(one.info, what) != getattr(first.info, what):
                    raise UsageError(
                        f"{name} and {self._names[0]} differ in their {what}: what is mixed has "
                        "the same; `dataprep select --classes` makes a set with other classes"
                    )
            if one.pixels != first.pixels:
                raise UsageError(
                    f"one of {name} and {self._names[0]} stores pixels, one image files: what is "
                    "mixed stores the same; `dataprep convert` makes another format of one"
                )
        weights = {name: len(one) for name, one in sets.items()} if weights is None else weights
        if set(weights) != set(sets):
            raise UsageError(
                f"weights of {', '.join(weights)}, and sets {', '.join(sets)}; expected one of each"
            )
        self._shares = whole_shares([weights[name] for name in self._names], self._names)
        self._ends = list(accumulate(map(len, self._sets)))
        sizes = {one.info.size for one in self._sets}
        self.info = first.info
        if len(sizes) > 1:
            self.info = replace(first.info, size=None)
        self.pixels = first.pixels

    def __len__(self) -> int:
        """How many examples all sets have."""
        return self._ends[-1]

    def __repr__(self) -> str:
        """The sets and their shares."""
        total = sum(self._shares)
        parts = zip(self._names, self._shares, self._sets, strict=True)
        shares = [f"{share / total:.1%} {name}: {one!r}" for name, share, one in parts]
        return "\n".join([f"<mixture of {len(self):,} records:", *shares]) + ">"

    @property
    def labels(self) -> NDArray[np.int64]:
        """See `TrainingExamples.labels`."""
        return np.concatenate([one.labels for one in self._sets])

    def values(self, name: str) -> pa.Array:
        """See `TrainingExamples.values`."""
        import pyarrow as pa

        return pa.concat_arrays([one.values(name) for one in self._sets])

    @overload
    def __getitem__(self, number: SupportsIndex) -> Example: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[Example]: ...
    def __getitem__(self, number: SupportsIndex | slice) -> Example | Sequence[Example]:
        """Example ``number``, 0-based, negative from the end."""
        if isinstance(number, slice):
            raise UsageError("a mixture has no parts; take parts of its sets")
        at = operator.index(number)
        if not -len(self) <= at < len(self):
            raise IndexError(f"no example {at} of {len(self)}")
        which, place = self._find(at % len(self))
        return self._sets[which][place]

    def __getitems__(self, numbers: Sequence[SupportsIndex], /) -> list[Example]:
        """See `TrainingExamples.__getitems__`."""
        return self._each(numbers, lambda one, places: one.__getitems__(places))

    def encoded(self, numbers: Sequence[SupportsIndex]) -> list[bytes]:
        """See `TrainingExamples.encoded`."""
        return self._each(numbers, lambda one, places: one.encoded(places))

    def _each(self, numbers: Sequence[SupportsIndex], read: Any) -> list[Any]:
        found: list[Any] = [None] * len(numbers)
        places = [self._find(operator.index(number)) for number in numbers]
        for which, one in enumerate(self._sets):
            mine = [at for at, (owner, _) in enumerate(places) if owner == which]
            for at, it in zip(mine, read(one, [places[at][1] for at in mine]), strict=True):
                found[at] = it
        return found

    def _find(self, number: int) -> tuple[int, int]:
        """Which set, and the number there."""
        which = bisect_right(self._ends, number)
        return which, number - (self._ends[which - 1] if which else 0)

    def place_of(self, number: int) -> str:
        """See `TrainingExamples.place_of`."""
        which, place = self._find(number)
        return f"{self._names[which]}: {self._sets[which].place_of(place)}"

    def identity(self) -> dict[str, Any]:
        """See `TrainingExamples.identity`."""
        each = {name: one.identity() for name, one in zip(self._names, self._sets, strict=True)}
        return {"examples": len(self), "mixture": each}

    @property
    def title(self) -> str:
        """See `TrainingExamples.title`."""
        return f"mixture of {len(self):,} records of {counted(len(self._sets), 'set')}"

    @property
    def shared(self) -> bool:
        """See `TrainingExamples.shared`."""
        return any(one.shared for one in self._sets)

    def shard_sizes(self) -> list[int]:
        """See `TrainingExamples.shard_sizes`."""
        return [size for one in self._sets for size in one.shard_sizes()]

    def order(
        self,
        seed: int,
        shuffle: Shuffle,
        window: int,  # noqa: ARG002 - there are no shards in it
        weights: ArrayLike | None,
        balance: Literal["class"] | None,
    ) -> Order:
        """The sets by turns: there is no other order.

        Raises:
            UsageError: another one is asked for.
        """
        if shuffle != "global" or weights is not None or balance is not None:
            raise UsageError("a mixture has the order of its weights: shuffle it globally")
        shares = dict(zip(self._names, self._shares, strict=True))
        settings = {"seed": seed, "shuffle": "mixture", "shares": shares}
        return InProportion(seed, settings, None, list(map(len, self._sets)), self._shares)
