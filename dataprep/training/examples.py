"""What can be trained from: examples by number, in an order, in batches, for a framework."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Literal,
    SupportsIndex,
    TypedDict,
    Unpack,
    get_args,
    overload,
)

import numpy as np

from dataprep.errors import UsageError
from dataprep.formats.example import Example
from dataprep.training.order import InBlocks, InOrder, InProportion, Order, Shuffled, Weighted
from dataprep.training.sampler import Ahead, Leftover, Sampler, whole_number
from dataprep.training.sequence import ExampleSequence

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from dataprep.training.frameworks import Framework
    from dataprep.training.loader import Loader
    from dataprep.training.torch import TorchDataset

Shuffle = Literal["global", "blocks", "none"]

_TOGETHER: Final = 256  # numbers that are computed at once, as Grain asks for one after another


class OrderOptions(TypedDict, total=False):
    """What `TrainingExamples.sampler` takes, and the loader hands on to it."""

    seed: int
    rank: int | None
    world_size: int | None
    shuffle: Shuffle | None
    window: int
    uneven: Leftover | None
    weights: ArrayLike | None
    balance: Literal["class"] | None


class TrainingExamples(ExampleSequence):
    """Examples by number, and what makes batches of them."""

    def sampler(
        self,
        batch_size: int,
        *,
        seed: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
        shuffle: Shuffle | None = None,
        window: int = 16,
        uneven: Leftover | None = None,
        weights: ArrayLike | None = None,
        balance: Literal["class"] | None = None,
    ) -> Sampler:
        """A batch sampler for ``DataLoader``: the same samples for any ranks, resumed exactly.

        Args:
            batch_size: of one rank.
            seed: another one makes another order.
            rank: 0-based; None for that of ``torch.distributed``, or of RANK in the environment,
                asked for when a pass begins.
            world_size: how many ranks there are; likewise, WORLD_SIZE.
            shuffle: ``global``: any order of all examples, another in every epoch. ``blocks``: the
                shards in any order, mixed within windows, where reading at random is slow.
                ``none``: as they were written. None: that of ``validation``, ``test`` and the like,
                else ``global``.
            window: of ``blocks``: how many shards are mixed at a time.
            uneven: what to do with a rest that does not fill a batch of every rank. ``keep``:
                smaller batches, so that each example comes once, on one rank, whenever a pass
                begins; ranks differ by 1 example. ``drop``: leave it out. ``repeat``: smaller
                batches, of one size on all ranks, in which the first samples of the epoch come
                again if need be. None: ``keep`` where the split is to evaluate on, or the order is
                ``none``; else ``drop``.
            weights: how often each example is to come, in proportion, shape (n,): in each epoch of
                n samples, its share of n, rounded up or down.
            balance: ``class``: every class equally often, in every stretch of the sequence; of
                each class all examples come before any comes again. Classes without are left out.

        Raises:
            UsageError: these settings exclude each other, or cannot have these values.
        """
        if shuffle is None:
            ordered = self.held_out and weights is None and balance is None
            shuffle = "none" if ordered else "global"
        if uneven is None:
            uneven = "keep" if self.held_out or shuffle == "none" else "drop"
        return Sampler(
            self.order(seed, shuffle, window, weights, balance),
            batch_size,
            rank=rank,
            world_size=world_size,
            uneven=uneven,
            title=self.title,
            identity=self.identity(),
            shared=self.shared,
            announce=self._announced(shuffle, window),
        )

    def _announced(self, shuffle: Shuffle, window: int) -> Ahead | None:
        """What tells of shards ahead, where they are downloaded and it is known which come next."""
        if not self.remote or shuffle == "global":
            return None
        shards = window if shuffle == "blocks" else 2
        return shards * max(self.shard_sizes(), default=0), self.announce

    def order(
        self,
        seed: int,
        shuffle: Shuffle,
        window: int,
        weights: ArrayLike | None,
        balance: Literal["class"] | None,
    ) -> Order:
        """The order that the arguments of `sampler` ask for."""
        settings: dict[str, Any] = {"seed": seed, "shuffle": shuffle}
        if shuffle not in get_args(Shuffle):
            raise UsageError(f"shuffle={shuffle!r} is none of {', '.join(get_args(Shuffle))}")
        if weights is not None or balance is not None:
            if shuffle != "global" or (weights is not None and balance is not None):
                raise UsageError("weights and balance are orders of their own: give one alone")
            settings["shuffle"] = "weights" if balance is None else "balance"
        if weights is not None:
            shares = _weights(weights, len(self))
            settings["weights"] = hashlib.sha256(shares.astype("<f8").tobytes()).hexdigest()
            return Weighted(seed, settings, shares)
        if balance is not None:
            return self._balanced(seed, settings, balance)
        if shuffle == "blocks":
            window = whole_number("window", window, 1)
            return InBlocks(seed, {**settings, "window": window}, self.shard_sizes(), window)
        kind = Shuffled if shuffle == "global" else InOrder
        return kind(len(self), seed, settings)

    def _balanced(self, seed: int, settings: dict[str, Any], balance: str) -> Order:
        if balance != "class":
            raise UsageError(f"balance={balance!r}: expected class")
        if self.info.multilabel:
            raise UsageError("balance is for images of one label; of these, give weights")
        labels = self.labels
        sizes = np.bincount(labels)
        present: list[int] = sizes[sizes > 0].tolist()
        members = np.argsort(labels, kind="stable")
        return InProportion(seed, settings, members, present, [1] * len(present))

    def loader(
        self,
        batch_size: int,
        *,
        size: int | tuple[int, int] | None = None,
        crop: Literal["random", "center"] | None = None,
        flip: bool = False,
        transform: Callable[[Any], Any] | None = None,
        framework: Framework = "torch",
        threads: int | None = None,
        processes: bool = False,
        decode: Literal["cpu", "cuda"] = "cpu",
        prefetch: int = 4,
        fields: Sequence[str] = (),
        **order: Unpack[OrderOptions],
    ) -> Loader:
        """Batches of decoded images and labels, by threads or processes; resumed exactly.

        Args:
            batch_size: of one rank.
            size: the side of the images in a batch, or (height, width), in pixels; None if all are
                of one size, and stay so.
            crop: ``random``: a part of 8 to 100 % of the area, with sides 3:4 to 4:3, scaled to
                `size`. ``center``: the middle, 7/8 of the shorter side. None: the whole image.
            flip: mirror every second image, left to right.
            transform: takes a whole batch of images, such as torchvision's v2, and gives what is
                to come in its place.
            framework: what batches of uint8 are made of: ``torch``, shape (batch, channels, height,
                width), strides those of ``torch.channels_last``, pinned where there is CUDA;
                ``numpy`` or ``jax``, shape (batch, height, width, channels).
            threads: that decode; None for one for each core this process may use.
            processes: let each thread have a process that decodes for it, so that neither they nor
                the training loop wait for each other's Python: with more than about 4 threads.
            decode: ``cuda``: the current CUDA device decodes JPEGs, by torchvision's nvJPEG, and
                batches and labels lie there; not to the bit what the CPU makes of them.
            prefetch: batches that are made ahead.
            fields: what else is said of the images, as ``batch.fields[name]``, a value for each:
                ``captions``, or boxes, which are of the whole image; ``mask``: as one array of
                shape (batch, height, width), cut and mirrored with the images, 255 where nothing
                is said.
            order: as `sampler` takes it: ``seed``, ``rank``, ``world_size``, ``shuffle`` and so on.

        Crops and flips depend on the seed, the epoch and the position alone. Colour is RGB, or grey
        with one channel where all of the data set is grey. Of 16 bits the higher 8 are taken.

        Raises:
            UsageError: these settings exclude each other, or cannot have these values.
            ImportError: the framework is not installed.
        """
        from dataprep.training.loader import Loader

        return Loader(
            self,
            self.sampler(batch_size, **order),
            size=size,
            crop=crop,
            flip=flip,
            transform=transform,
            framework=framework,
            threads=threads,
            processes=processes,
            decode=decode,
            prefetch=prefetch,
            fields=fields,
        )

    def to_torch(
        self,
        transform: Callable[[Any], Any] | None = None,
        *,
        decode: bool = True,
        fields: Sequence[str] = (),
    ) -> TorchDataset:
        """A map-style `torch.utils.data.Dataset` of pairs of an image and its label.

        May be handed to the workers of a ``DataLoader``, which open the files for themselves. Its
        ``collate_fn`` stacks tensors without copying them twice.

        Args:
            transform: takes a Pillow image, e.g. of torchvision, upright, with the ``info`` of its
                file, and in ``info["sample"]`` seed, epoch and position, if a sampler of ours chose
                it, to seed from; None gives uint8 tensors, shape (channels, height, width), which
                a batch can hold only if all have one size.
            decode: False gives the bytes of the file as it is stored in place of the image.
            fields: what else of each example, as a dict behind the pair: ``key``, ``boxes``
                (torchvision's `BoundingBoxes`), ``mask`` (its `Mask`), names of attributes, or
                whatever an `Example` has; ``position``: where the sample is, epoch and position,
                if a sampler of ours chose it.

        Raises:
            ImportError: PyTorch is not installed; or torchvision, and boxes are asked for.
            UsageError: there is no such field.
        """
        from dataprep.training.frameworks import required

        required("torch")
        from dataprep.training.torch import TorchDataset

        return TorchDataset(self, transform, decode=decode, fields=fields)

    def to_tf(self, sampler: Sampler) -> Any:
        """A `tf.data.Dataset` of batches: encoded images, shape (batch,), and their labels.

        Map it with ``tf.io.decode_jpeg`` or the like; loop over ``sampler.track(dataset)``, so that
        the state of the sampler counts what was received.

        Raises:
            ImportError: TensorFlow is not installed.
        """
        from dataprep.training.frameworks import required

        tf = required("tensorflow")
        labels = self.labels

        # The numbers come from the sampler; the bytes are read by several threads of TensorFlow's.
        def read(chosen: Any) -> tuple[Any, Any]:
            return np.array(self.encoded(chosen.tolist()), object), labels[chosen]

        def batch(chosen: Any) -> tuple[Any, Any]:
            encoded, found = tf.numpy_function(read, [chosen], (tf.string, tf.int64))
            encoded.set_shape((None,))
            found.set_shape((None, *labels.shape[1:]))
            return encoded, found

        numbers = tf.TensorSpec((None,), tf.int64)
        chosen = tf.data.Dataset.from_generator(lambda: iter(sampler), output_signature=numbers)
        read_ahead = {"num_parallel_calls": tf.data.AUTOTUNE, "deterministic": True}
        return chosen.map(batch, **read_ahead).prefetch(tf.data.AUTOTUNE)

    def to_grain(self, sampler: Sampler) -> GrainSource:
        """A random-access source for Grain: what is left of this rank's samples in this epoch.

        ``grain.MapDataset.source(records.to_grain(sampler))``, neither shuffled nor sharded there,
        nor repeated, which gives this epoch's order again: call this for each epoch. Loop over
        ``sampler.track(...)`` of its batches, which have the sampler's size.
        """
        return GrainSource(self, sampler)


class GrainSource(Sequence[Example]):
    """What is left of a rank's samples in an epoch, by their place among them.

    Args:
        examples: of which.
        sampler: which of them, in which order; what it counts later changes nothing here.
    """

    def __init__(self, examples: ExampleSequence, sampler: Sampler) -> None:
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


def _weights(given: ArrayLike, count: int) -> NDArray[np.float64]:
    found = np.asarray(given, np.float64)
    if found.shape != (count,):
        raise UsageError(f"weights have the shape {found.shape}, expected ({count},)")
    if not (np.isfinite(found).all() and (found >= 0).all() and found.sum() > 0):
        raise UsageError("weights must be numbers of 0 or more, not all 0")
    return found
