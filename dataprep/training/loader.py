"""Batches of decoded images, made by threads in memory that is used again."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from importlib import import_module
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from dataprep.errors import ImageError, UsageError
from dataprep.images.crops import Crop
from dataprep.images.pixels import require_size
from dataprep.recipe import MAX_PIXELS
from dataprep.system.job_limits import usable_cores
from dataprep.system.messages import counted
from dataprep.training.decoding import Decoder, DecodingProcess
from dataprep.training.order import key, uniforms
from dataprep.training.sampler import whole_number
from dataprep_schemas.fields import DECLARED, Field

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dataprep.training.sampler import Numbers, Sampler
    from dataprep.training.sequence import ExampleSequence

Framework = Literal["torch", "numpy", "jax"]

_Begun: TypeAlias = "tuple[Numbers, Callable[[int], Any], list[Future[None]]]"
"""A batch that is being made: what of, what gives its images when it is, and who makes it."""

_PARTS: Final = 2  # of a batch, for each thread: the last ones to finish are small
_ASKED: Final = 32  # images at most, of a process at once


class Batch(tuple[Any, Any]):
    """A pair of images and labels.

    Attributes:
        numbers: of the examples.
        position: where they are, shape (batch, 2), epoch and position in it.
        fields: that were asked for, by name: the value of each example, as `Example.fields` has it.
    """

    numbers: Sequence[int]
    position: NDArray[np.int64]
    fields: Mapping[str, Sequence[Any]]


class Loader:
    """Batches of one rank; made by ``records.loader``.

    Looping over it is an epoch, or what is left of one. A batch's memory is used again when nobody
    has it, or a part of it, any more.

    Args:
        examples: which.
        sampler: in which order.
        size: and the rest: as ``records.loader`` has them.

    Attributes:
        sampler: that chooses the samples, and knows how many were received.
        batch_sampler: the same, as a ``DataLoader`` calls it.
        dataset: the examples, of all ranks together.
        shape: of one image, (height, width, channels).
    """

    def __init__(
        self,
        examples: ExampleSequence,
        sampler: Sampler,
        *,
        size: int | tuple[int, int] | None,
        crop: Literal["random", "center"] | None,
        flip: bool,
        transform: Callable[[Any], Any] | None,
        framework: Framework,
        threads: int | None,
        processes: bool,
        prefetch: int,
        fields: Sequence[str],
    ) -> None:
        if crop is not None and size is None:
            raise UsageError(f"crop={crop!r} needs a size: size=224, say")
        if crop not in (None, "random", "center"):
            raise UsageError(f"crop={crop!r} is none of random, center")
        if transform is not None and not callable(transform):
            raise UsageError(f"transform={transform!r:.40}: expected what can be called")
        self.sampler = self.batch_sampler = sampler
        self.dataset = self._examples = examples
        self._crop = Crop(_size(examples, size), crop, flip, scales=size is not None)
        self._transform = transform
        self._threads = usable_cores() if threads is None else whole_number("threads", threads, 1)
        self._prefetch = whole_number("prefetch", prefetch, 1)
        self._labels = examples.labels
        fields = [fields] if isinstance(fields, str) else fields
        self._fields = {name: examples.values(name) for name in fields}
        self.shape = (*self._crop.size, examples.info.channels)
        if framework not in _FRAMEWORKS:
            raise UsageError(f"framework={framework!r} is none of {', '.join(_FRAMEWORKS)}")
        self._memory = _FRAMEWORKS[framework]((sampler.batch_size, *self.shape))
        self._step = -(-sampler.batch_size // (_PARTS * self._threads))
        if processes:  # asking one takes as long for one image as for many
            enough = -(-sampler.batch_size * self._prefetch // (_PARTS * self._threads))
            self._step = min(enough, sampler.batch_size, _ASKED)
        self._processes, self._decoding = processes, 0
        self._decoders: SimpleQueue[Decoder | DecodingProcess] = SimpleQueue()

    def __len__(self) -> int:
        """How many batches a whole epoch has."""
        return len(self.sampler)

    def __repr__(self) -> str:
        """What is read, in which batches and order, and what one is made of."""
        crop = self._crop
        layout = self._memory.layout.format(self.sampler.batch_size, *self.shape)
        who = ("process", "processes") if self._processes else ("thread",)
        return (
            f"<loader of uint8 {layout}, crop={crop.kind!r}, flip={crop.flip}, "
            f"{counted(self._threads, *who)}, prefetch={self._prefetch}, by {self.sampler!r}>"
        )

    def __iter__(self) -> Iterator[Batch]:
        """What is left of the epoch.

        Raises:
            SinkError: an example is damaged, or no image of this size; names record and shard.
        """
        return self.sampler.track(self._batches())

    def state_dict(self, after: Batch | None = None) -> dict[str, Any]:
        """See `Sampler.state_dict`: what this loop has received."""
        return self.sampler.state_dict(after)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See `Sampler.load_state_dict`."""
        self.sampler.load_state_dict(state)

    def set_epoch(self, epoch: int) -> None:
        """See `Sampler.set_epoch`."""
        self.sampler.set_epoch(epoch)

    def _batches(self) -> Iterator[Batch]:
        self._start_decoders()
        pool = ThreadPoolExecutor(self._threads, thread_name_prefix="dataprep loader")
        under_way: deque[_Begun] = deque()
        try:
            for numbers in self.sampler:
                under_way.append(self._begin(pool, numbers))
                if len(under_way) > self._prefetch:
                    yield self._finish(under_way.popleft())
            while under_way:
                yield self._finish(under_way.popleft())
        finally:
            pool.shutdown(cancel_futures=True)

    def _start_decoders(self) -> None:
        """One for each thread, unless they are there; of a parent process they are its own."""
        if self._decoding == os.getpid():
            return
        self._decoding, self._decoders = os.getpid(), SimpleQueue()
        what = self._examples, self._crop
        for _ in range(self._threads):
            one = DecodingProcess(*what, self.shape, self._step) if self._processes else None
            self._decoders.put(one or Decoder(*what))

    def _begin(self, pool: ThreadPoolExecutor, numbers: Numbers) -> _Begun:
        count = len(numbers)
        places, given = self._memory.new()
        positions = np.asarray(numbers.positions, np.uint64)
        keys = key("crops", numbers.seed, numbers.epoch)
        drawn = uniforms(positions, keys, self._crop.draws)
        starts = range(0, count, self._step)
        parts = [slice(at, min(at + self._step, count)) for at in starts]
        futures = [
            pool.submit(self._fill, numbers[part], drawn[part], places[part]) for part in parts
        ]
        return numbers, given, futures

    def _fill(
        self, numbers: Sequence[int], drawn: NDArray[np.float64], places: NDArray[np.uint8]
    ) -> None:
        decoder = self._decoders.get()
        try:
            decoder.fill(numbers, drawn, places)
        finally:
            self._decoders.put(decoder)

    def _finish(self, begun: _Begun) -> Batch:
        numbers, given, futures = begun
        while futures:  # one that failed, and is kept, is held by its own traceback, with all files
            futures.pop(0).result()
        images = given(len(numbers))
        if self._transform is not None:
            images = self._transform(images)
        batch = Batch((images, self._memory.of_labels(self._labels[numbers])))
        batch.numbers = numbers
        batch.fields = {
            name: [_value(name, cell) for cell in cells.take(numbers).to_pylist()]
            for name, cells in self._fields.items()
        }
        batch.position = np.array([(numbers.epoch, at) for at in numbers.positions], np.int64)
        return batch


def _value(name: str, cell: Any) -> Any:
    """What a cell of the table of records says of a field."""
    rules = (DECLARED[name] if name in DECLARED else Field(name, "text")).rules
    return rules.none if cell is None else rules.of_cell(cell)


def required(package: str) -> Any:
    """A framework's module, which no dependency of ours brings.

    Raises:
        ImportError: it is not installed.
    """
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        instead = 'use records.loader with framework="numpy", which needs none'
        raise ImportError(f"{error}: install it, or {instead}") from error


def _size(examples: ExampleSequence, size: int | tuple[int, int] | None) -> tuple[int, int]:
    """Height and width of what a batch holds: what is asked for, or the size of all images."""
    if size is None:
        return examples.info.size or examples[0].array().shape[:2]
    sides = size if isinstance(size, (tuple, list)) else (size, size)
    if len(sides) != 2:
        raise UsageError(f"size={size!r:.40}: expected a side, or (height, width)")
    height, width = (whole_number("size", side, 1) for side in sides)
    try:
        require_size(width, height, MAX_PIXELS)
    except ImageError as error:
        raise UsageError(f"size={size}: {error}") from error
    return height, width


class _Lent:
    """Memory that goes back to where it came from when no array uses it any more."""

    def __init__(self, memory: NDArray[np.uint8], idle: list[NDArray[np.uint8]]) -> None:
        # An array of it keeps this object, as does an array of that, and a tensor made of either.
        self.__array_interface__ = memory.__array_interface__
        self._memory, self._idle = memory, idle

    def __del__(self) -> None:
        self._idle.append(self._memory)


class _Numpy:
    """Memory for batches of one shape, and what becomes of it."""

    layout = "arrays of shape ({}, {}, {}, {})"

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._shape = shape
        self._idle: list[NDArray[np.uint8]] = []

    def new(self) -> tuple[NDArray[np.uint8], Callable[[int], Any]]:
        """Room for a batch, and what gives so many of its images when it is full."""
        array = self._array()
        return array, lambda count: array[:count]

    def of_labels(self, labels: NDArray[np.int64]) -> Any:
        """Labels, likewise."""
        return labels

    def _array(self) -> NDArray[np.uint8]:
        memory = self._idle.pop() if self._idle else np.empty(self._shape, np.uint8)
        return np.asarray(_Lent(memory, self._idle))


class _Torch(_Numpy):
    layout = "tensors of shape ({0}, {3}, {1}, {2}), strides torch.channels_last"

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__(shape)
        self._torch = required("torch")
        self._pinned = self._torch.cuda.is_available()

    def new(self) -> tuple[NDArray[np.uint8], Callable[[int], Any]]:
        """Channels last in memory, as a view with the channels first."""
        if self._pinned:  # PyTorch knows when what is copied without blocking may be used again
            whole = self._torch.empty(self._shape, dtype=self._torch.uint8, pin_memory=True)
        else:
            whole = self._torch.from_numpy(self._array())
        return whole.numpy(), lambda count: whole[:count].permute(0, 3, 1, 2)

    def of_labels(self, labels: NDArray[np.int64]) -> Any:
        """A tensor."""
        return self._torch.from_numpy(labels)


class _Jax(_Numpy):
    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__(shape)
        self._jax = required("jax.numpy")

    def new(self) -> tuple[NDArray[np.uint8], Callable[[int], Any]]:
        """Copied: a device's memory is its own."""
        array = self._array()
        return array, lambda count: self._jax.array(array[:count])

    def of_labels(self, labels: NDArray[np.int64]) -> Any:
        """An array of JAX."""
        return self._jax.array(labels)


_FRAMEWORKS: Final[Mapping[str, type[_Numpy]]] = {"torch": _Torch, "numpy": _Numpy, "jax": _Jax}
