"""What batches are made of: examples by number."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex

from dataprep.formats.example import DatasetInfo, Example

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray


class ExampleSequence(Sequence[Example]):
    """Examples by number, whatever they are read from.

    Attributes:
        info: what is true of every example.
        pixels: whether they are stored as pixels, not as encoded images.
    """

    info: DatasetInfo
    pixels: bool

    @property
    def classes(self) -> Sequence[tuple[str, str]]:
        """(identifier, name) of every class; the position is the 0-based class index."""
        return self.info.classes

    @property
    @abstractmethod
    def labels(self) -> NDArray[np.int64]:
        """The label of every example, in order, without reading an image.

        Shape (n,) of 0-based class indices; where an example may have any number of labels, shape
        (n, classes) of zeros and ones, and of -1 where `uncertain_labels`, an attribute, says that
        nobody knows. Read from the table of records each time.

        Raises:
            DatasetError: the table cannot be read, or has labels that are none.
        """

    @abstractmethod
    def values(self, name: str) -> pa.Array:
        """A field of every example, in order, likewise; null if it has none.

        Fields are there whatever the format keeps: ``values("captions")`` are lists of texts.

        Raises:
            UsageError: the data set has no such field.
            DatasetError: the table cannot be read.
        """

    @abstractmethod
    def __getitems__(self, numbers: Sequence[SupportsIndex], /) -> list[Example]:
        """The examples with these numbers, in that order, read in the order of the files.

        What a ``DataLoader`` of PyTorch asks for of a batch.

        Raises:
            IndexError: there is no such example.
            SinkError: one is damaged.
        """

    @abstractmethod
    def encoded(self, numbers: Sequence[SupportsIndex]) -> list[bytes]:
        """`Example.encoded` of the examples with these numbers, sooner than the examples.

        Whatever protects an image in its format is checked; what is said about it need not be read.

        Raises:
            IndexError: there is no such example.
            SinkError: one is damaged.
        """

    @abstractmethod
    def place_of(self, number: int) -> str:
        """The shard of an example and its record there, for messages."""

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """What these examples are, for the state of a sampler: names and hashes."""

    @property
    @abstractmethod
    def title(self) -> str:
        """How many examples of what, in a few words."""

    @property
    def held_out(self) -> bool:
        """Whether they are there to evaluate on: each once, in order, unless asked otherwise."""
        return False

    @property
    @abstractmethod
    def shared(self) -> bool:
        """Whether this is a node's part, so that other nodes have other examples."""

    @property
    def remote(self) -> bool:
        """Whether shards are downloaded as they are read, so that it helps to `announce` them."""
        return False

    def announce(self, numbers: Sequence[int]) -> None:
        """Have the shards of examples fetched, since they will be read."""

    @abstractmethod
    def shard_sizes(self) -> list[int]:
        """How many of these examples each shard has, in order."""
