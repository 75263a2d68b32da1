"""The two ways in which ImageNet lies on disk: the original tars, or unpacked.

A writer gets the images one at a time and keeps none of them.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, Literal

from dataprep_schemas import imagenet_validation_synsets

Layout = Literal["tar", "tree"]
NamedFile = tuple[str, bytes]

TRAIN_TAR = "ILSVRC2012_img_train.tar"
VALIDATION_TAR = "ILSVRC2012_img_val.tar"
TRAIN_FOLDER = "train"
VALIDATION_FOLDER = "validation"
LABELS_FILE = "synset_labels.txt"

# In the order in which they get their final names: without the training images, which come
# last, nothing takes the directory for a complete one.
FINAL_NAMES: dict[Layout, tuple[str, ...]] = {
    "tar": (VALIDATION_TAR, TRAIN_TAR),
    "tree": (LABELS_FILE, VALIDATION_FOLDER, TRAIN_FOLDER),
}

_MODIFIED = 1_339_200_000  # June 2012; any constant keeps the tars equal from run to run
_TAR_END = b"\0" * (2 * tarfile.BLOCKSIZE)


class TreeWriter:
    """Writes ``train/<synset>/*``, ``validation/*`` and ``synset_labels.txt``.

    Args:
        directory: an existing directory that has none of these.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def validation(self, files: Iterable[NamedFile]) -> None:
        """Write the validation images, and the labels of all 50,000 official ones."""
        self._fill(self._directory / VALIDATION_FOLDER, files)
        labels = "".join(f"{synset}\n" for synset in imagenet_validation_synsets())
        (self._directory / LABELS_FILE).write_text(labels, encoding="ascii")

    def training(self, classes: Iterable[tuple[str, Iterable[NamedFile]]]) -> None:
        """Write the training images, a directory per class."""
        for synset, files in classes:
            self._fill(self._directory / TRAIN_FOLDER / synset, files)

    def _fill(self, folder: Path, files: Iterable[NamedFile]) -> None:
        folder.mkdir(parents=True)
        for name, content in files:
            (folder / name).write_bytes(content)


class TarWriter:
    """Writes ``ILSVRC2012_img_train.tar``, a tar of one tar per class, and the flat val tar.

    Args:
        directory: an existing directory that has none of these.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def validation(self, files: Iterable[NamedFile]) -> None:
        """Write the validation images."""
        with (self._directory / VALIDATION_TAR).open("wb") as stream:
            _write_members(stream, files)

    def training(self, classes: Iterable[tuple[str, Iterable[NamedFile]]]) -> None:
        """Write the training images."""
        with (self._directory / TRAIN_TAR).open("wb") as stream:
            for synset, files in classes:
                _write_nested(stream, f"{synset}.tar", files)
            _finish(stream, 0)


def _write_nested(stream: BinaryIO, name: str, files: Iterable[NamedFile]) -> None:
    """Write a tar as a member, in place.

    Its size is known only at the end; then its header is written over the blank one, so
    that neither memory nor a second file has to hold the class.
    """
    header = stream.tell()
    stream.write(_header(name, 0))
    begin = stream.tell()
    _write_members(stream, files)
    end = stream.tell()
    stream.seek(header)
    stream.write(_header(name, end - begin))
    stream.seek(end)


def _write_members(stream: BinaryIO, files: Iterable[NamedFile]) -> None:
    begin = stream.tell()
    for name, content in files:
        stream.write(_header(name, len(content)))
        stream.write(content)
        stream.write(b"\0" * (-len(content) % tarfile.BLOCKSIZE))
    _finish(stream, begin)


def _finish(stream: BinaryIO, begin: int) -> None:
    """End the tar that began there, padded to whole records as ``tar`` does."""
    stream.write(_TAR_END)
    stream.write(b"\0" * ((begin - stream.tell()) % tarfile.RECORDSIZE))


def _header(name: str, size: int) -> bytes:
    member = tarfile.TarInfo(name)
    member.size, member.mtime, member.mode = size, _MODIFIED, 0o644
    return member.tobuf(tarfile.GNU_FORMAT)
