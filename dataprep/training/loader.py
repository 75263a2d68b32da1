"""Batches of decoded images, made by threads in memory that is used again."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
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
from dataprep.training.device import DeviceDecoder, DeviceRefusal, by_nvjpeg, is_taken
from dataprep.training.frameworks import MEMORY, Framework
from dataprep.training.order import key, uniforms
from dataprep.training.sampler import whole_number
from dataprep_schemas.fields import DECLARED, MASK, Field, named

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dataprep.training.sampler import Numbers, Sampler
    from dataprep.training.sequence import ExampleSequence

_Given: TypeAlias = Callable[[int], Any]
_Begun: TypeAlias = "tuple[Numbers, tuple[_Given, _Given | None], list[Future[None]]]"
"""A batch that is being made: what of, what gives images and masks when it is, and who makes it."""

_PARTS: Final = 2  # of a batch, for each thread: the last ones to finish are small
_ASKED: Final = 32  # images at most, of a process at once


class Batch(tuple[Any, Any]):
    """A pair of images and labels.

    Attributes:
        numbers: of the examples.
        position: where they are, shape (batch, 2), epoch and position in it.
        fields: that were asked for, by name: the value of each example, as `Example.fields` has it;
            of ``mask`` uint8 of shape (batch, height, width), cut and mirrored like the images.
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
        decode: Literal["cpu", "cuda"],
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
        self._fields = {name: examples.values(name) for name in fields if name != MASK.name}
        self.shape = (*self._crop.size, examples.info.channels)
        if framework not in MEMORY:
            raise UsageError(f"framework={framework!r} is none of {', '.join(MEMORY)}")
        self._memory = MEMORY[framework]((sampler.batch_size, *self.shape))
        self._mask_memory = None
        if MASK.name in fields:
            if not named(examples.info.fields, MASK.kind):
                raise UsageError("there are no masks in these shards, and fields has mask")
            self._mask_memory = MEMORY[framework]((sampler.batch_size, *self._crop.size, 1))
        self._device: DeviceDecoder | None = None
        if decode == "cuda":
            if framework != "torch" or processes:
                raise UsageError("decode='cuda' is for framework='torch' without processes")
            channels = examples.info.channels
            self._device = DeviceDecoder(*by_nvjpeg(channels), self._crop, channels)
        elif decode != "cpu":
            raise UsageError(f"decode={decode!r} is none of cpu, cuda")
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
        feeder = ThreadPoolExecutor(1, thread_name_prefix="dataprep device")
        begin = self._begin if self._device is None else partial(self._begin_there, feeder)
        under_way: deque[_Begun] = deque()
        try:
            for numbers in self.sampler:
                under_way.append(begin(pool, numbers))
                if len(under_way) > self._prefetch:
                    yield self._finish(under_way.popleft())
            while under_way:
                yield self._finish(under_way.popleft())
        finally:
            pool.shutdown(cancel_futures=True)
            feeder.shutdown(cancel_futures=True)

    def _start_decoders(self) -> None:
        """One for each thread, unless they are there; of a parent process they are its own."""
        if self._decoding == os.getpid():
            return
        self._decoding, self._decoders = os.getpid(), SimpleQueue()
        what = self._examples, self._crop
        for _ in range(self._threads):
            one: Decoder | DecodingProcess = Decoder(*what)
            if self._processes:
                masks = self._mask_memory is not None
                one = DecodingProcess(*what, self.shape, self._step, masks=masks)
            self._decoders.put(one)

    def _begin(self, pool: ThreadPoolExecutor, numbers: Numbers) -> _Begun:
        places, given = self._memory.new()
        masks, masks_given = self._new_masks()
        drawn = self._drawn(numbers)
        futures = [
            pool.submit(self._fill, numbers[part], drawn[part], places[part], masks(part))
            for part in self._parts(len(numbers))
        ]
        return numbers, (given, masks_given), futures

    def _new_masks(self) -> tuple[Callable[[slice], NDArray[np.uint8] | None], _Given | None]:
        """Room for the masks of a batch, if they are wanted, and what gives them."""
        if self._mask_memory is None:
            return lambda _: None, None
        places, given = self._mask_memory.new()
        of_torch = self._mask_memory.channels_first
        return (
            lambda part: places[part, :, :, 0],
            lambda count: given(count)[:, 0] if of_torch else given(count)[..., 0],
        )

    def _begin_there(
        self, feeder: ThreadPoolExecutor, pool: ThreadPoolExecutor, numbers: Numbers
    ) -> _Begun:
        places, given = self._memory.new()
        masks, masks_given = self._new_masks()
        drawn = self._drawn(numbers)
        here = Decoder(self._examples, self._crop)
        read = [
            pool.submit(
                here.fill_unless, is_taken, numbers[part], drawn[part], places[part], masks(part)
            )
            for part in self._parts(len(numbers))
        ]

        def make() -> Callable[[], Any]:
            stored = [data for future in read for data in future.result()]
            images = given(len(numbers))
            assert self._device is not None  # noqa: S101  # or nobody asks
            try:
                return self._device.make(stored, drawn.tolist(), images)
            except DeviceRefusal:  # of which one, it does not say: a damaged one is told here
                here.fill(numbers, drawn, places[: len(numbers)])
                return self._device.make([None] * len(numbers), drawn.tolist(), images)

        made = feeder.submit(make)
        return numbers, (lambda _: made.result()(), masks_given), []

    def _drawn(self, numbers: Numbers) -> NDArray[np.float64]:
        positions = np.asarray(numbers.positions, np.uint64)
        keys = key("crops", numbers.seed, numbers.epoch)
        return uniforms(positions, keys, self._crop.draws)

    def _parts(self, count: int) -> list[slice]:
        starts = range(0, count, self._step)
        return [slice(at, min(at + self._step, count)) for at in starts]

    def _fill(
        self,
        numbers: Sequence[int],
        drawn: NDArray[np.float64],
        places: NDArray[np.uint8],
        masks: NDArray[np.uint8] | None,
    ) -> None:
        decoder = self._decoders.get()
        try:
            decoder.fill(numbers, drawn, places, masks)
        finally:
            self._decoders.put(decoder)

    def _finish(self, begun: _Begun) -> Batch:
        numbers, (given, masks_given), futures = begun
        while futures:  # one that failed, and is kept, is held by its own traceback, with all files
            futures.pop(0).result()
        images = given(len(numbers))
        if self._transform is not None:
            images = self._transform(images)
        labels = self._memory.of_labels(self._labels[numbers])
        if self._device is not None:
            labels = self._device.put(labels)
        batch = Batch((images, labels))
        masks = {}
        if masks_given is not None:
            masks[MASK.name] = masks_given(len(numbers))
            if self._device is not None:
                masks[MASK.name] = self._device.put(masks[MASK.name])
        batch.numbers = numbers
        batch.fields = masks | {
            name: [_value(name, cell) for cell in cells.take(numbers).to_pylist()]
            for name, cells in self._fields.items()
        }
        batch.position = np.array([(numbers.epoch, at) for at in numbers.positions], np.int64)
        return batch


def _value(name: str, cell: Any) -> Any:
    """What a cell of the table of records says of a field."""
    rules = (DECLARED[name] if name in DECLARED else Field(name, "text")).rules
    return rules.none if cell is None else rules.of_cell(cell)


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
