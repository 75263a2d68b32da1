"""Batches of record numbers: the same sequence for any number of ranks, resumed exactly."""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Literal, TypeVar, get_args

import numpy as np

from dataprep.errors import UsageError
from dataprep.system.messages import counted
from dataprep.training.order import Order

_Batch = TypeVar("_Batch")

Leftover = Literal["keep", "drop", "repeat"]
Ahead = tuple[int, Callable[[list[int]], None]]
FORMAT: Final = 1
"""Of the states that samplers give."""

POSITION: Final = "position"
"""The field of a batch that tells where its samples are: shape (batch, 2), epoch and position."""


class Numbers(list[int]):
    """The record numbers of one batch, and where they are in the sequence of all ranks."""

    epoch: int  # which epoch
    positions: range  # of each number in that epoch; from the epoch's size on of those repeated
    seed: int  # of the sampler


class Sampler:
    """A batch sampler for ``DataLoader``; made by ``records.sampler``.

    The sequence of samples is a function of the data set, the seed and the epoch. Position p of an
    epoch goes to rank p modulo `world_size`, so all ranks together take it in order, whatever
    their number, the batch size and the workers that fetch. A state is how much of it all ranks
    have received; a sampler of any other size goes on with the next sample.

    A pass over it is an epoch, from where the state is; the next pass is the next epoch. A pass
    that is not tracked and left early begins again; of ``keep``, every pass that is left early.

    Args:
        order: of the samples.
        batch_size: of one rank.
        rank: 0-based; None for that of this process, whenever it is asked for.
        world_size: how many ranks there are; likewise.
        uneven: and the rest of an epoch, as ``records.sampler`` has it.
        title: of what it is, for its repr.
        identity: what the state is of: a state of anything else is refused.
        shared: whether other ranks have other records, so that no state is true of all.
        announce: how many positions ahead to tell of, and whom.

    Attributes:
        batch_size: of one rank.
        seed: of the order.

    Raises:
        UsageError: there is no such rank, or not one batch for each.
    """

    def __init__(
        self,
        order: Order,
        batch_size: int,
        *,
        rank: int | None,
        world_size: int | None,
        uneven: Leftover,
        title: str,
        identity: Mapping[str, Any],
        shared: bool,
        announce: Ahead | None = None,
    ) -> None:
        self.batch_size = whole_number("batch_size", batch_size, 1)
        if (rank is None) != (world_size is None):
            raise UsageError("give both rank and world_size, or none of them")
        self._given: tuple[int, int] | None = None
        if rank is not None:
            self._given = whole_number("rank", rank), whole_number("world_size", world_size, 1)
        if uneven not in get_args(Leftover):
            raise UsageError(f"uneven={uneven!r} is none of {', '.join(get_args(Leftover))}")
        self.seed = order.seed
        self._order, self._uneven, self._title = order, uneven, title
        self._identity = {**identity, "settings": {**order.settings, "uneven": uneven}}
        self._shared, self._announce = shared, announce
        self._epoch = self._consumed = 0
        self._tracking: object = None  # whose loop is under way
        self._untracked = False
        self._loaded = False  # a state, from which the next pass goes on
        self._require_enough()

    def __repr__(self) -> str:
        """What is read, in which batches and order, for whom, and how far it is."""
        batches = f"{counted(len(self), 'batch', 'batches')} of {self.batch_size} an epoch"
        order = f'shuffle="{self._order.settings["shuffle"]}", uneven="{self._uneven}"'
        return (
            f"<sampler of {self._title}: {batches}, {order}, seed {self.seed}, rank {self.rank} of "
            f"{self.world_size}, epoch {self._epoch}, {self._consumed:,} samples received>"
        )

    def _require_enough(self) -> None:
        if not self._order.count:
            raise UsageError(f"{self._title}: there is nothing to read")
        rank, world_size = self._ranks
        if rank >= world_size:
            raise UsageError(f"there is no rank {rank} in a world of size {world_size}")
        if not self._steps(self._order.count):
            raise UsageError(
                f"{counted(self._order.count, 'example')}, fewer than the {self._together} of one "
                'batch of all ranks; a smaller batch_size, or uneven="repeat" or "keep"'
            )

    @property
    def _ranks(self) -> tuple[int, int]:
        return self._given or this_process()

    @property
    def rank(self) -> int:
        """Which this is, 0-based."""
        return self._ranks[0]

    @property
    def world_size(self) -> int:
        """How many ranks there are."""
        return self._ranks[1]

    @property
    def counts(self) -> list[int]:
        """How many samples of an epoch each rank receives; of ``keep``, all examples together."""
        return [len(self._places(rank, 0)) for rank in range(self.world_size)]

    @property
    def epoch(self) -> int:
        """Which epoch the next sample is in, 0-based."""
        return self._epoch

    @property
    def consumed(self) -> int:
        """How many samples of the epoch all ranks together have received."""
        return self._consumed

    @property
    def _together(self) -> int:
        """Samples in one batch of each rank."""
        return self.batch_size * self.world_size

    def __len__(self) -> int:
        """How many batches an epoch has; the same on all ranks, but of ``keep`` in ones of 1."""
        return min(self._steps(self._order.count), len(self._places(self.rank, 0)))

    def _steps(self, samples: int) -> int:
        full, rest = divmod(max(samples, 0), self._together)
        return full + (rest > 0 and self._uneven != "drop")

    def __iter__(self) -> Iterator[Numbers]:
        """The batches that are left of the epoch."""
        self._untracked = self._tracking is None
        if self._untracked:
            self._begin()
        return _Pass(self)

    def _begin(self) -> None:
        self._require_enough()  # of the ranks that there are by now
        self._consumed, self._loaded = self._next, False

    @property
    def _next(self) -> int:
        """Where the next pass begins: one that is to have each sample once, at the beginning."""
        return self._consumed if self._loaded or self._uneven != "keep" else 0

    def _size(self, left: int) -> int:
        """Of the next batch, where so many samples are left for all ranks; of some, one less."""
        size = min(self.batch_size, -(-left // self.world_size))
        over = left - size * self.world_size
        # So few are left behind it that some ranks would have no last batch, and others wait.
        short = self._uneven == "keep" and size > 1 and 0 < over < self.world_size
        return size - short

    def _places(self, rank: int, start: int) -> range:
        """The positions of an epoch, from one on, that a rank receives."""
        end = self._order.count
        if self._uneven != "keep":
            full, over = divmod(end - start, self._together)
            more = -(-over // self.world_size) if self._uneven == "repeat" else 0
            end = start + (full * self.batch_size + more) * self.world_size
        return range(start + rank, end, self.world_size)

    def _batch(self, epoch: int, start: int) -> Numbers:
        positions = self._places(self.rank, start)[: self._size(self._order.count - start)]
        numbers = Numbers(self.numbers(epoch, positions))
        numbers.epoch, numbers.positions, numbers.seed = epoch, positions, self.seed
        if self._announce is not None:
            distance, announce = self._announce
            end = min(positions.stop + distance, self._order.count)
            ahead = range(positions.start + distance, end, self.world_size)
            announce(self.numbers(epoch, ahead))
        return numbers

    def rest(self) -> tuple[int, range]:
        """The epoch, and the positions in it that this rank has still to come."""
        return self._epoch, self._places(self.rank, self._next)

    def numbers(self, epoch: int, positions: range) -> list[int]:
        """The record at each of these positions of an epoch; behind its end, from its beginning."""
        places = np.arange(positions.start, positions.stop, positions.step, dtype=np.uint64)
        found = self._order.numbers(epoch, places % np.uint64(self._order.count))
        numbers: list[int] = found.tolist()
        return numbers

    def set_epoch(self, epoch: int) -> None:
        """Begin an epoch; nothing changes if it is the one that is under way.

        While batches are tracked it is a loader that calls this, with a count of its own, which
        begins at 0 in every process: that is passed over.
        """
        epoch = whole_number("epoch", epoch)
        if epoch != self._epoch and self._tracking is None:
            self._epoch, self._consumed = epoch, 0
            self._untracked = self._loaded = False

    def track(self, loader: Iterable[_Batch]) -> Iterator[_Batch]:
        """The batches of a loader that this sampler feeds, counted when they are received.

        Give it the outermost loader: what fetches ahead must do so within.

        Raises:
            UsageError: the loader may give batches in another order.
        """
        if getattr(loader, "in_order", True) is False:
            raise UsageError(
                "a loader with in_order=False: which samples it gave cannot be told; leave that out"
            )
        loop = self._tracking = object()
        self._untracked = False
        try:
            self._begin()
            # Which may load a state: StatefulDataLoader does it here.
            batches = iter(loader)
            self._loaded = False
            epoch, start = after = self._epoch, self._consumed
            received = 0
            for batch in batches:
                after = self._epoch, self._consumed = self._behind(*after)
                received += self.batch_size
                yield batch
            if after[0] == epoch and received >= len(self._places(self.rank, start)):
                self._epoch, self._consumed = epoch + 1, 0  # others have one batch more
        finally:
            if self._tracking is loop:  # a loop that was left may end after the next has begun
                self._tracking = None

    def _behind(self, epoch: int, start: int) -> tuple[int, int]:
        """Epoch and samples consumed when all ranks have received the batch that begins there.

        Behind the last one that is the next epoch at once: not all loops ask whether there is more.
        """
        consumed = start + self._size(self._order.count - start) * self.world_size
        return (epoch, consumed) if self._steps(self._order.count - consumed) else (epoch + 1, 0)

    def state_dict(self, after: object = None) -> dict[str, Any]:
        """How far all ranks are: numbers and words, for any checkpoint; the same on every rank.

        Args:
            after: the batch that was received last, which tells by itself: of ``records.loader``,
                or with the field ``position`` of ``to_torch``. Without one, all batches that
                `track` has given are counted.

        Raises:
            UsageError: nobody counted the batches; or each node has another part of the data set.
        """
        if self._shared and self.world_size > 1:
            raise UsageError(
                "of a part of a data set there is no state that is true on all nodes; with "
                "rank=0, world_size=1 each process has one of its own"
            )
        epoch, consumed = self._epoch, self._consumed
        if after is not None:
            epoch, first = _place_of(after)
            epoch, consumed = self._behind(epoch, first - self.rank)
        elif self._untracked:
            raise UsageError(
                "nobody has counted the batches: loop over sampler.track(loader), or give "
                "after=batch of records.loader"
            )
        return self._state(epoch, consumed)

    def _state(self, epoch: int, consumed: int) -> dict[str, Any]:
        return {"format": FORMAT, **self._identity, "epoch": epoch, "consumed": consumed}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on behind what a state says was consumed, by however many ranks.

        Raises:
            UsageError: it is no state of such a sampler, or one of another data set or order.
        """
        wanted = {"format": FORMAT, **self._identity}
        if not isinstance(state, Mapping) or set(state) != {*wanted, "epoch", "consumed"}:
            raise UsageError(
                f"this is no state of a sampler of dataprep: {str(state)[:80]}; give what its "
                "state_dict() returned"
            )
        for name, value in wanted.items():
            if state[name] != value:
                raise UsageError(
                    f"the state was saved with {name} {state[name]}, here it is {value}; "
                    "open the same data set with the same choice and settings"
                )
        epoch, consumed = state["epoch"], state["consumed"]
        good = type(epoch) is int and type(consumed) is int and epoch >= 0
        if not good or not 0 <= consumed <= self._order.count:
            raise UsageError(
                f"the state says epoch {epoch!r} and {consumed!r} examples of "
                f"{self._order.count:,}, which cannot be; give what state_dict() returned"
            )
        self._epoch, self._consumed = epoch, consumed
        self._untracked, self._loaded = False, True
        if not self._steps(self._order.count - consumed):
            self._epoch, self._consumed = epoch + 1, 0


class _Pass(Iterator[Numbers]):
    """The batches that are left of an epoch; with a state for ``StatefulDataLoader``."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler
        self._after = sampler.epoch, sampler.consumed
        self._epoch = sampler.epoch

    def __next__(self) -> Numbers:
        """The next, or the end of the epoch."""
        if self._after[0] != self._epoch:
            raise StopIteration
        sampler = self._sampler
        numbers = sampler._batch(*self._after)
        self._after = sampler._behind(*self._after)
        if sampler._untracked and self._after[0] != self._epoch:
            sampler._epoch, sampler._consumed = self._after
        if not numbers:  # the last few samples are those of other ranks
            raise StopIteration
        return numbers

    def state_dict(self) -> dict[str, Any]:
        """Behind the last batch that was given."""
        return self._sampler._state(*self._after)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on there."""
        self._sampler.load_state_dict(state)
        self._after = self._sampler.epoch, self._sampler.consumed
        self._epoch = self._sampler.epoch


def _place_of(batch: object) -> tuple[int, int]:
    """The epoch and position of the first sample of a batch."""
    found = getattr(batch, POSITION, None)
    parts = [batch, *batch] if isinstance(batch, (tuple, list)) else [batch]
    for part in parts:
        if isinstance(part, Mapping) and POSITION in part:
            found = part[POSITION]
    if found is None:
        raise UsageError(
            f"this batch, a {type(batch).__name__}, does not say where its samples are: give "
            f'fields=["{POSITION}"] to to_torch, or loop over sampler.track(loader)'
        )
    return int(found[0][0]), int(found[0][1])


def whole_number(name: str, value: object, least: int = 0) -> int:
    """An argument that is a whole number, numpy's too; else it is a `UsageError`."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]  # that is what is asked
    except TypeError:
        number = least - 1
    if isinstance(value, bool) or number < least:
        raise UsageError(f"{name}={value!r:.40}: expected {least} or more, a whole number")
    return number


def this_process() -> tuple[int, int]:
    """Rank and world size: of ``torch.distributed``, or of RANK and WORLD_SIZE; else 0 and 1."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    try:
        return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    except (KeyError, ValueError):
        return 0, 1
