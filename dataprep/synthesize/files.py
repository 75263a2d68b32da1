"""What made-up sets of every kind need: seeds, damage, threads, tars, a safe directory."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, TypeAlias, TypeVar, get_args

from PIL import Image

from dataprep.errors import DatasetError, UsageError
from dataprep.system.job_limits import usable_cores
from dataprep.system.messages import some_of

NamedFile: TypeAlias = tuple[str, bytes]
Defect: TypeAlias = Literal["truncated", "garbage", "empty", "html"]
DEFECTS: tuple[Defect, ...] = get_args(Defect)

Item = TypeVar("Item")

_MODIFIED = 1_339_200_000  # June 2012; any constant keeps the tars equal from run to run
_AHEAD = 8  # images a thread that may be drawn and not yet written
_GARBAGE_BYTES = 30_000
# No image format starts like this, so that chance cannot make one.
_GARBAGE_START = b"\xde\xad\xbe\xef"
_HTML = b"<!DOCTYPE html>\n<html><body><h1>404 Not Found</h1></body></html>\n"


@dataclass(frozen=True)
class Written:
    """What was written: how many image files, and their bytes."""

    images: int
    image_bytes: int


def keyed_seed(*key: str | int) -> int:
    """A 128-bit seed from a key; equal on every machine, unlike ``hash()``."""
    text = "/".join(map(str, key)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=16).digest(), "big")


def require(name: str, value: int, least: int, most: int) -> None:
    """Refuse a number that is out of range.

    Raises:
        UsageError: it is.
    """
    if not least <= value <= most:
        raise UsageError(f"--{name}: {value} is not between {least} and {most}")


def spoil(encoded: bytes, defect: Defect) -> bytes:
    """What is found in the place of a good image file after a broken download or a full disk."""
    if defect == "truncated":
        return encoded[: len(encoded) * 3 // 5]
    if defect == "garbage":
        return _GARBAGE_START + hashlib.shake_128(encoded).digest(_GARBAGE_BYTES)
    return _HTML if defect == "html" else b""


def saved(image: Image.Image, container: str, **options: int | str) -> bytes:
    """Encode a picture by Pillow."""
    buffer = io.BytesIO()
    image.save(buffer, container, **options)
    return buffer.getvalue()


def drawn(
    draw: Callable[[Item], bytes], items: Sequence[Item], sizes: list[int]
) -> Generator[bytes]:
    """Make files of items in as many threads as there are cores to use, in their order.

    To be closed: whatever throws it away may be one of those threads, which cannot await itself.

    Args:
        sizes: gets each file's number of bytes.
    """
    threads = usable_cores()
    ahead = _AHEAD * threads  # all at once would hold every file that the disk has not come to
    with ThreadPoolExecutor(threads, thread_name_prefix="synthesize") as executor:
        for start in range(0, len(items), ahead):
            for content in executor.map(draw, items[start : start + ahead]):
                sizes.append(len(content))
                yield content


def write_tar(stream: IO[bytes], files: Iterable[NamedFile]) -> None:
    """Write a whole tar of named contents, equal from run to run; none is kept in memory."""
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, content in files:
            archive.addfile(tar_member(name, len(content)), io.BytesIO(content))


def tar_member(name: str, size: int) -> tarfile.TarInfo:
    """The header of a regular file of so many bytes."""
    member = tarfile.TarInfo(name)
    member.size, member.mtime, member.mode = size, _MODIFIED, 0o644
    return member


def write_folder(folder: Path, files: Iterable[NamedFile]) -> None:
    """Write named contents to a folder; made if missing."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files:
        (folder / name).write_bytes(content)


@contextmanager
def writing_to(directory: Path) -> Iterator[None]:
    """Make a directory to write to, and word the system's refusals.

    Raises:
        DatasetError: the directory holds something, or cannot be written.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if found := [path.name for path in directory.iterdir()]:
            raise DatasetError(
                f"{directory} is not empty: it holds {some_of(found)}; choose another directory, "
                "or remove it first"
            )
        yield
    except OSError as error:
        raise DatasetError(
            f"cannot write to {directory}: {error.strerror or error}; "
            "choose a directory that is writable and has room enough"
        ) from error
