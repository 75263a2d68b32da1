"""The samples of a rank as a random-access source for Grain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, SupportsIndex, overload

from dataprep.sinks.example import Example

if TYPE_CHECKING:
    from dataprep.training.sampler import Sampler
    from dataprep.training.source import Source

_TOGETHER: Final = 256  # numbers that are computed at once, as Grain asks for one after another


class GrainSource(Sequence[Example]):
    """What is left of a rank's samples in an epoch, by their place among them.

    Args:
        examples: of which.
        sampler: which of them, in which order; what it counts later changes nothing here.
    """

    def __init__(self, examples: Source, sampler: Sampler) -> None:
        self._examples, self._sampler = examples, sampler
        self._epoch, self._positions = sampler.rest()
        self._known: tuple[int, list[int]] = (-1, [])

    def __len__(self) -> int:
        """How many samples there are."""
        return len(self._positions)

    @overload
    def __getitem__(self, place: SupportsIndex) -> Example: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Example]: ...
    def __getitem__(self, place: SupportsIndex | slice) -> Example | Sequence[Example]:
        """The sample that is so many behind the next."""
        if isinstance(place, slice):
            return [self[at] for at in range(len(self))[place]]
        chunk, at = divmod(range(len(self))[place], _TOGETHER)
        known = self._known
        if known[0] != chunk:  # one assignment: other threads see the old or the new
            start = chunk * _TOGETHER
            positions = self._positions[start : start + _TOGETHER]
            known = self._known = chunk, self._sampler.numbers(self._epoch, positions)
        return self._examples[known[1][at]]
