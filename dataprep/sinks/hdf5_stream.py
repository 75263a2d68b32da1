"""HDF5 files whose large dataset is contiguous and yet written from front to back.

HDF5 must know the size of a contiguous dataset when it is created, and a shard's is known only
at its end. So the images are written first, from byte 4096 on, by us; then HDF5 is asked to lay
out the file, with the images aligned to 4096 bytes, finds its own place for them to be right
there, and adds its header before and the small datasets behind. It writes through an object of
ours that notes what fails: HDF5 itself cannot give up a file on a full disk without losing its
head (a close that fails leaves the file open until the process ends).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from dataprep.errors import SinkError
from dataprep.sinks.hdf5_seal import add_seal

IMAGES_AT = 4096
"""Byte at which streamed images start; the superblock and the root group come before."""

_BUFFER = 1 << 20  # few large writes: what parallel file systems like


class NotingFile:
    """A new file for HDF5's driver for Python file objects; remembers the first failed write.

    After that, writes seem to succeed, so that HDF5 closes in order; `raise_failure` tells.
    HDF5 sees an empty file at first, whatever has been written past its view.

    Args:
        path: must not exist.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("x+b", buffering=0)
        self._position = 0
        self._end = 0  # of what HDF5 has written
        self._failure: OSError | None = None

    def write_at(self, position: int, data: bytes | memoryview) -> None:
        """Write without HDF5's knowledge; raises OSError at once."""
        self.raise_failure()
        rest = memoryview(data)
        while rest:
            written = os.pwrite(self._file.fileno(), rest, position)
            position += written
            rest = rest[written:]

    def raise_failure(self) -> None:
        """Raise the error that HDF5 was not told of, if there was one."""
        if self._failure is not None:
            raise OSError(self._failure.errno, self._failure.strerror) from self._failure

    def finish(self, start: int = 0, end: int = 0) -> None:
        """Seal the file, whose images are from byte ``start`` to ``end``, and close it."""
        self.raise_failure()
        add_seal(self._file.fileno(), start, end)
        self._file.close()

    def abandon(self) -> None:
        """Close; harmless when repeated."""
        self._file.close()

    # What h5py's driver calls.

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move; the end is that of what HDF5 has written."""
        self._position = self._end + offset if whence == os.SEEK_END else offset
        return self._position

    def tell(self) -> int:
        """Where the next transfer starts."""
        return self._position

    def read(self, size: int = -1) -> bytes:
        """Only there to be recognised as a file: HDF5 reads with `readinto`."""
        return os.pread(self._file.fileno(), size, self._position)

    def readinto(self, buffer: memoryview) -> int:
        """Fill ``buffer``, with zeros where the file has ended."""
        data = os.pread(self._file.fileno(), len(buffer), self._position)
        buffer[:] = data.ljust(len(buffer), b"\0")
        self._position += len(buffer)
        return len(buffer)

    def write(self, data: memoryview) -> int:
        """Write, or note why not."""
        size = len(data)
        if self._failure is None:
            try:
                self.write_at(self._position, data)
            except OSError as error:
                self._failure = error
        self._position += size
        self._end = max(self._end, self._position)
        return size

    def flush(self) -> None:
        """Nothing is held back."""

    def truncate(self, size: int) -> int:
        """Set the file's size, or note why not."""
        if self._failure is None:
            try:
                os.ftruncate(self._file.fileno(), size)
            except OSError as error:
                self._failure = error
        self._end = size
        return size


@contextmanager
def laid_out(disk: NotingFile) -> Iterator[h5py.File]:
    """HDF5's view of a file being made, in the oldest version of the format that can hold it.

    Raises:
        OSError: something could not be written.
    """
    options = {"alignment_threshold": _BUFFER, "alignment_interval": IMAGES_AT}
    try:
        with h5py.File(disk, "w", libver="earliest", **options) as file:
            yield file
    except Exception:
        disk.raise_failure()  # what HDF5 could not write it may not be able to read either
        raise
    disk.raise_failure()


class StreamedFile:
    """A new HDF5 file that starts with one large dataset, appended to before it exists.

    Args:
        path: must not exist.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._disk = NotingFile(path)
        self._pending: list[bytes] = []
        self._pending_size = 0
        self._written = 0

    @property
    def size(self) -> int:
        """How many bytes have been appended."""
        return self._written + self._pending_size

    def append(self, data: bytes) -> None:
        """Append to the large dataset."""
        self._pending.append(data)
        self._pending_size += len(data)
        if self._pending_size >= _BUFFER:
            self._flush()

    @contextmanager
    def finish(self, name: str, shape: tuple[int, ...], dtype: str) -> Iterator[h5py.File]:
        """Make what was appended the dataset ``name``; the rest of the file is the caller's.

        Args:
            name: of the dataset, in the root group.
            shape: its shape, as large as what was appended.
            dtype: its numpy type, byte order included.

        Raises:
            SinkError: HDF5 has another place for the data in mind.
            OSError: something could not be written.
        """
        if self._written:
            self._flush()
        with laid_out(self._disk) as file:
            dataset = create_contiguous(file, name, shape, dtype)
            if self._pending_size:
                # So little that nothing has been written yet: HDF5 may put it where it likes.
                dataset[...] = np.frombuffer(b"".join(self._pending), dtype).reshape(shape)
            start = dataset.id.get_offset() or 0
            if self._written and start != IMAGES_AT:
                raise SinkError(
                    f"{self._path}: HDF5 {h5py.version.hdf5_version} wants dataset {name} at byte "
                    f"{start}, not {IMAGES_AT}; use another version of h5py"
                )
            yield file
        self._disk.finish(start, start + self.size)

    def abandon(self) -> None:
        """Close; harmless when repeated and after `finish`."""
        self._pending.clear()
        self._disk.abandon()

    def _flush(self) -> None:
        data = b"".join(self._pending)
        self._pending.clear()
        self._pending_size = 0
        self._disk.write_at(IMAGES_AT + self._written, data)
        self._written += len(data)


def create_contiguous(
    file: h5py.File, name: str, shape: tuple[int, ...], dtype: str | np.dtype[Any]
) -> h5py.Dataset:
    """Reserve the place of a dataset now, and write nothing to it."""
    properties: Any = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_layout(h5py.h5d.CONTIGUOUS)
    properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    properties.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    properties.set_obj_track_times(False)
    kind = h5py.h5t.py_create(np.dtype(dtype), logical=True)
    space = h5py.h5s.create_simple(shape)
    return h5py.Dataset(h5py.h5d.create(file.id, name.encode(), kind, space, properties))
