"""The plug: what a format must be able to do. A sink never knows which data set it writes.

A third party subclasses `Sink`, gives it `suffixes`, `open` and `reader`, and names the class in
the entry-point group ``dataprep.sinks``. `dataprep.formats.testing` tests it. Two sinks may
share a name only if each reads what the other wrote.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from errno import EINVAL
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import ClassVar, Protocol, Self, TypeVar

from dataprep.errors import DataprepError, SinkError, UsageError
from dataprep.formats.example import DatasetInfo, Example
from dataprep_schemas.fields import KindName
from dataprep_schemas.manifest import Layout as Layout  # formats import them from here
from dataprep_schemas.state import ShardName as ShardName

_Read = TypeVar("_Read")
_Opened = TypeVar("_Opened", covariant=True)

# What a reference reader gives: image bytes and class indices.
Record = tuple[bytes, tuple[int, ...]]


def shard_path(shard: ShardName, layout: Layout, suffix: str) -> PurePosixPath:
    """The place of one of a shard's files, relative to the output directory.

    A shard that is its whole split is named after it, as ``im2rec`` and Caffe's scripts do:
    ``train.rec``. Of several, each has its number: ``train/train-00000-of-00004.rec``, without the
    directory if the layout is flat.
    """
    if shard.count == 1:
        return PurePosixPath(shard.split + suffix)
    name = f"{shard}{suffix}"
    return PurePosixPath(name) if layout == "flat" else PurePosixPath(shard.split, name)


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """What a finished file must be, for ever."""

    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class FinishedShard:
    """A published shard, for files that are made once a split.

    Attributes:
        paths: its files, in `Sink.paths` order, to be read.
        names: the same, relative to the output directory, with forward slashes.
        records: how many examples it holds.
    """

    paths: tuple[Path, ...]
    names: tuple[PurePosixPath, ...]
    records: int


class ShardWriter(ABC):
    """Appends examples to one shard; used by one thread.

    Args:
        info: what is true of every example.
        pixels: whether it stores pixels: `Sink.pixels`.
    """

    def __init__(self, info: DatasetInfo, *, pixels: bool = False) -> None:
        self.info = info
        self.pixels = pixels

    def write(self, example: Example) -> None:
        """Append one example, in writing order, having checked that it is of the data set.

        Raises:
            SinkError: it is not, or the format cannot hold it; the message says why.
            OSError: the disk is full, and the like.
        """
        try:
            self.append(self.info.to_store(example, pixels=self.pixels))
        except SinkError as error:
            raise SinkError(f"{example.key!r}: {error}") from error

    @abstractmethod
    def append(self, example: Example) -> None:
        """What every format does in its own way: store an example that was checked.

        Its labels are of the data set, and one if they must be; its attributes are valid; it is
        encoded, or pixels of the data set's size, as the format wants it.

        Raises:
            SinkError: the format cannot hold it; the message need not name it.
        """

    @abstractmethod
    def close(self) -> Sequence[WrittenFile]:
        """Finish the files, flush them to the disk, and describe them in `Sink.paths` order."""

    @abstractmethod
    def abandon(self) -> None:
        """Release the file handles and write nothing more; called instead of or after `close`."""


class ShardReader(ABC):
    """Reads one finished shard; used by one thread and one process at a time.

    Args:
        path: the data; for messages.
        info: what is known of the data set.
    """

    def __init__(self, path: Path, info: DatasetInfo) -> None:
        self.path = path
        self.info = info
        self.opened = ExitStack()  # what `close` is to close

    @contextmanager
    def opening(self, place: str) -> Iterator[None]:
        """Close what is `opened` if anything is raised, and tell that as `damage` does."""
        try:
            with damage(self.path, place):
                yield
        except BaseException:
            self.opened.close()
            raise

    def __getitem__(self, number: int) -> Example:
        """Example ``number``, 0-based.

        Raises:
            IndexError: there is no such example.
            SinkError: it is damaged; names the file and the record.
        """
        return self._checked(self.read, number)

    def __iter__(self) -> Iterator[Example]:
        """Every example in order, checking whatever the format lets one check."""
        for number in range(len(self)):
            yield self[number]

    def encoded(self, number: int) -> bytes:
        """`Example.encoded` of example ``number``, as `__getitem__` gives and raises it.

        Whatever protects the image is checked; what is said about it need not be read.
        """
        return self._checked(self.image, number)

    def _checked(self, read: Callable[[int], _Read], number: int) -> _Read:
        if not 0 <= number < len(self):
            raise IndexError(f"{self.path}: there is no record {number} of {len(self)}")
        try:
            return read(number)
        except Exception as error:
            raise _told(self.path, f"record {number}", error) from error

    def will_need(self, number: int) -> None:  # noqa: B027 - most can announce nothing
        """Announce that this example, which there is, will be read soon."""

    @abstractmethod
    def __len__(self) -> int:
        """How many examples the shard holds."""

    @abstractmethod
    def read(self, number: int) -> Example:
        """An example that there is, without reading those before it if the format allows.

        Whatever it raises is told as damage of the file: see `damage`.
        """

    def image(self, number: int) -> bytes:
        """The same without the rest, for formats that have it sooner so."""
        return self.read(number).encoded

    def close(self) -> None:
        """Release the file handles; harmless when repeated."""
        self.opened.close()

    def __enter__(self) -> Self:
        """The reader itself."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close."""
        self.close()


@contextmanager
def damage(path: Path, place: str) -> Iterator[None]:
    """Turn whatever reading a damaged file raises into one line that names it.

    What the system says of a file, such as that it is not there, is not damage.
    """
    try:
        yield
    except Exception as error:
        raise _told(path, place, error) from error


def _told(path: Path, place: str, error: Exception) -> SinkError:
    if isinstance(error, OSError) and error.errno not in (None, EINVAL):
        raise error  # h5py's own have no number; EINVAL is what a wild offset gives
    said = " ".join(str(error).split())
    if not isinstance(error, DataprepError):
        said = f"{type(error).__name__}: {said}"
    return SinkError(f"{path}: {place}: {said}; make the shard again")


class Sink(ABC):
    """A format.

    A sink is given paths, not handles, because some formats (LMDB, HDF5) must open their own
    files. The paths are temporary; publishing them under their final names is not its job. Equal
    examples in equal order must give equal bytes, on any machine, with the same library versions.

    Args:
        options: values for `OPTIONS`; the first choice of each is its default.

    Raises:
        UsageError: an option the format does not have, or a value that is none of its choices.
    """

    name: ClassVar[str]
    """What the command line calls it; also the name of its entry point."""

    summary: ClassVar[str] = ""
    """One line for ``dataprep sinks``: what the files are and who reads them."""

    OPTIONS: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Name and choices of every option; given as ``--sink_option NAME=VALUE``."""

    suffixes: ClassVar[tuple[str, ...]] = ()
    """Of the shard's files, data first: ``(".rec", ".idx")``; or override `paths`."""

    overhead: ClassVar[int] = 0
    """Bytes that the format adds to one image, roughly; for the free-space estimate."""

    usual_shards: ClassVar[int | None] = None
    """How many shards a split has at most unless the user says so: 1 where readers take one file;
    None where they take any number."""

    seeks: ClassVar[bool] = False
    """Whether files are not written from front to back. Such files are built on node-local
    scratch and copied when the output directory is on a network file system."""

    trusts_files: ClassVar[bool] = False
    """Whether the library that reads a file may crash or hang on a damaged one. Such files are read
    in this process only if their hash is known; others in a process of their own
    (`dataprep.formats.subprocess_reader`)."""

    value_bytes: ClassVar[int] = 1
    """Of formats that store pixels: bytes of one value, 1 for uint8, 4 for float32."""

    keeps: ClassVar[Collection[KindName]] = ()
    """The kinds of `Example.fields` that survive in it: see `dataprep_schemas.fields`."""

    libraries: ClassVar[tuple[str, ...]] = ()
    """The distributions that lay the files out, for `versions`."""

    reference: ClassVar[str] = ""
    """The reader behind `reference_records`, for messages: ``tf.data``; empty if there is none."""

    def __init__(self, **options: str) -> None:
        for option, value in options.items():
            choices = self.OPTIONS.get(option)
            if choices is None:
                known = ", ".join(self.OPTIONS) or "none"
                raise UsageError(f"sink {self.name} has no option {option!r}; it has: {known}")
            if value not in choices:
                raise UsageError(
                    f"sink {self.name}: {option}={value} is not one of {', '.join(choices)}"
                )
        self.options = {name: options.get(name, all_[0]) for name, all_ in self.OPTIONS.items()}

    def config(self) -> Mapping[str, str]:
        """The options that shape the bytes; kept in the manifest, enough to make it again."""
        return self.options

    def versions(self) -> Mapping[str, str]:
        """The libraries whose version can change the bytes, by name; kept in the manifest."""
        return {name: version(name) for name in self.libraries}

    @property
    def pixels(self) -> bool:
        """Whether it stores arrays of pixels, not encoded images.

        Then every example it gets has the format ``RAW``: uint8 pixels in (height, width,
        channel) order, all of one size, `DatasetInfo.size`.
        """
        return False

    def require(self) -> None:  # noqa: B027  # most need nothing more
        """Ask for what is needed to write it, before raw data is looked for.

        Raises:
            UsageError: it is not installed; the message names what is missing.
        """

    def check(self, info: DatasetInfo) -> None:
        """Refuse a data set that it cannot hold with these options, before anything is read.

        Raises:
            UsageError: why, and which option would help.
        """
        if self.pixels and info.size is None:
            raise UsageError(
                f"{self.name} of pixels needs images of one size: prepare them from the raw data "
                "with --resize WIDTHxHEIGHT or --center_crop SIDE, or store encoded images"
            )

    def most_images(self, info: DatasetInfo) -> int | None:
        """How many images one shard can hold at most; None if there is no limit."""
        return None

    def stores_classes(self, info: DatasetInfo) -> bool:
        """Whether shards say how many classes there are: then a data set has no new ones added.

        Formats that give an image several labels mostly store a number for each class.
        """
        return info.multilabel

    def paths(self, shard: ShardName, layout: Layout) -> Sequence[PurePosixPath]:
        """The shard's files relative to the output directory: the data first, then sidecars."""
        return [shard_path(shard, layout, suffix) for suffix in self.suffixes]

    def split_paths(self, split: str, count: int, layout: Layout) -> Sequence[PurePosixPath]:
        """Files made once a split, from its ``count`` finished shards; mostly none."""
        return ()

    @abstractmethod
    def open(self, paths: Sequence[Path], info: DatasetInfo) -> ShardWriter:
        """Start a shard in these files, which do not exist yet but whose directories do.

        Raises:
            UsageError: as `check`.
        """

    @abstractmethod
    def reader(self, paths: Sequence[Path], info: DatasetInfo) -> ShardReader:
        """Open a finished shard.

        Args:
            paths: its files in `paths` order; or the data file alone, then whatever sidecars
                would have said is worked out from it as far as it can be.
            info: what the data set says of itself; classes may be unknown.

        Raises:
            SinkError: the files are not this format's, or damaged; see `damage`.
        """

    def finish_split(
        self, paths: Sequence[Path], info: DatasetInfo, shards: Sequence[FinishedShard]
    ) -> Sequence[WrittenFile]:
        """Write the files of `split_paths`, at ``paths``, from finished shards."""
        return ()

    def reference_records(self, paths: Sequence[Path], info: DatasetInfo) -> Iterator[Record]:
        """The shard as the format's own reader gives it: (image bytes, class indices), in order.

        The image bytes are those of `Example.encoded`.

        Raises:
            UsageError: the reader is not installed; the message names the extra.
        """
        raise UsageError(f"sink {self.name} has no reference reader")


class _Opens(Protocol[_Opened]):
    def __call__(self, paths: Sequence[Path], info: DatasetInfo, /) -> _Opened: ...


class PlainSink(Sink):
    """A format whose shards are opened by two classes, each given the paths and the data set."""

    Writer: ClassVar[_Opens[ShardWriter]]
    Reader: ClassVar[_Opens[ShardReader]]

    def open(self, paths: Sequence[Path], info: DatasetInfo) -> ShardWriter:
        """Check the data set, and start a shard."""
        self.check(info)
        return self.Writer(paths, info)

    def reader(self, paths: Sequence[Path], info: DatasetInfo) -> ShardReader:
        """Open a shard."""
        return self.Reader(paths, info)
