"""A tiny ImageNet of fake image bytes in every layout, and tars as hostile as one likes."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, cast

import pytest

from dataprep.datasets import ImageNet, ScanUnit
from dataprep.datasets.imagenet.dataset import ClassArchive, ImageNetUnit
from dataprep.rows import Ignored, Row
from dataprep_schemas import imagenet_classes, imagenet_validation_synsets

# Not the first classes, so that counting only what is there would give other labels.
SYNSETS = tuple(imagenet_classes()[index][0] for index in (3, 500, 999))
MODIFIED = 1_339_200_000

Member = tuple[str, bytes] | tarfile.TarInfo
Form = Literal[0, 1, 2]  # as tarfile has them


def places_of(unit: ScanUnit) -> Sequence[ClassArchive]:
    return cast("ImageNetUnit", unit).places


class RawData:
    """Builds raw directories and tars, and scans them."""

    synsets = SYNSETS
    train: Mapping[str, Mapping[str, bytes]] = {
        synset: {
            f"{synset}_{number}.JPEG": f"{synset} image {number} ".encode() * (number % 7 + 1)
            for number in (2, 10, 1)
        }
        for synset in SYNSETS
    }
    validation: Mapping[str, bytes] = {
        f"ILSVRC2012_val_{number:08d}.JPEG": b"validation %d " % number * (number % 5 + 1)
        for number in (7, 49_999, 1, 50_000, 300)
    }

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()

    @staticmethod
    def tar(members: Iterable[Member], end: bool = True, form: Form = tarfile.GNU_FORMAT) -> bytes:
        """A tar archive; without its end it has no end-of-archive mark."""
        stream = io.BytesIO()
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                info, content = member, bytes(member.size if member.isreg() else 0)
            else:
                info, content = tarfile.TarInfo(member[0]), member[1]
                info.size, info.mtime = len(content), MODIFIED
            stream.write(info.tobuf(form, "utf-8", "surrogateescape"))
            stream.write(content + bytes(-len(content) % tarfile.BLOCKSIZE))
        if end:
            stream.write(bytes(1024))
            stream.write(bytes(-stream.tell() % tarfile.RECORDSIZE))
        return stream.getvalue()

    @staticmethod
    def special(name: str, kind: bytes, **fields: object) -> tarfile.TarInfo:
        """A header of any type, with any fields."""
        info = tarfile.TarInfo(name)
        info.type = kind
        for field, value in fields.items():
            setattr(info, field, value)
        return info

    def write(self, name: str, content: bytes) -> None:
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        os.utime(file, (MODIFIED, MODIFIED))

    def write_tar(self, name: str, members: Iterable[Member], end: bool = True) -> None:
        self.write(name, self.tar(members, end))

    def class_tar(self, synset: str) -> bytes:
        return self.tar(self.train[synset].items())

    def train_tree(self, synsets: Iterable[str] = SYNSETS) -> None:
        for synset in synsets:
            for name, content in self.train[synset].items():
                self.write(f"train/{synset}/{name}", content)

    def train_tars(self, synsets: Iterable[str] = SYNSETS) -> None:
        for synset in synsets:
            self.write(f"train/{synset}.tar", self.class_tar(synset))

    def train_archive(self, synsets: Iterable[str] = SYNSETS) -> None:
        members = [(f"{synset}.tar", self.class_tar(synset)) for synset in synsets]
        self.write_tar("ILSVRC2012_img_train.tar", reversed(members))

    def validation_flat(self, folder: str = "validation") -> None:
        for name, content in self.validation.items():
            self.write(f"{folder}/{name}", content)

    def validation_classes(self, folder: str = "validation") -> None:
        for name, content in self.validation.items():
            self.write(f"{folder}/{self.official(name)}/{name}", content)

    def validation_archive(self) -> None:
        self.write_tar("ILSVRC2012_img_val.tar", self.validation.items())

    @staticmethod
    def official(name: str) -> str:
        return imagenet_validation_synsets()[int(name[15:23]) - 1]

    def scan_class_tar(self, synset: str, content: bytes) -> tuple[list[Row], list[Ignored]]:
        """Scan a class archive of these bytes, on its own in train/."""
        self.write(f"train/{synset}.tar", content)
        return self.scan("train")

    def scan(self, *splits: str) -> tuple[list[Row], list[Ignored]]:
        """Every row and every ignored entry of these splits, by way of `find`."""
        found = ImageNet().find(self.path, splits or None)
        scanned = [ImageNet().scan(self.path, found, unit) for unit in found.units]
        rows = [row for part in scanned for rows in part.rows.values() for row in rows]
        return rows, [entry for part in scanned for entry in part.ignored]


@pytest.fixture
def raw(tmp_path: Path) -> RawData:
    return RawData(tmp_path / "raw")


@pytest.fixture(scope="session")
def make_raw() -> type[RawData]:
    """For tests that need a fresh directory for each example."""
    return RawData


@pytest.fixture(scope="session")
def imagenet() -> ImageNet:
    return ImageNet()
