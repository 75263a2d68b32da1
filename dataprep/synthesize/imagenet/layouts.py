"""The two ways in which ImageNet lies on disk: the original tars, or unpacked.

A writer gets the images one at a time and keeps none of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, Literal

from dataprep.synthesize.tar_members import NamedFile, end_tar, tar_header, write_tar
from dataprep_schemas import imagenet_validation_synsets

Layout = Literal["tar", "tree"]

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
_ALL_NAMES = frozenset(name for names in FINAL_NAMES.values() for name in names)


def is_imagenet_name(name: str) -> bool:
    """Whether ImageNet has such a file or folder, in either layout."""
    return name in _ALL_NAMES


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
            write_tar(stream, files)

    def training(self, classes: Iterable[tuple[str, Iterable[NamedFile]]]) -> None:
        """Write the training images."""
        with (self._directory / TRAIN_TAR).open("wb") as stream:
            for synset, files in classes:
                _write_nested(stream, f"{synset}.tar", files)
            end_tar(stream, 0)


def _write_nested(stream: BinaryIO, name: str, files: Iterable[NamedFile]) -> None:
    """Write a tar as a member, in place.

    Its size is known only at the end; then its header is written over the blank one, so
    that neither memory nor a second file has to hold the class.
    """
    header = stream.tell()
    stream.write(tar_header(name, 0))
    begin = stream.tell()
    write_tar(stream, files)
    end = stream.tell()
    stream.seek(header)
    stream.write(tar_header(name, end - begin))
    stream.seek(end)
