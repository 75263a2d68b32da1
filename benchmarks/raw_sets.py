"""Raw data of any size: repeated photographs, tiny images in nested tars, long lists.

What an earlier benchmark made is used again; a set appears only when it is complete.
"""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Callable, Iterable
from itertools import cycle, islice
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from benchmarks.measure import CannotRunError, Setting
from dataprep.synthesize.imagenet import TRAIN_TAR, synthesize_imagenet
from dataprep_schemas import imagenet_classes

_DRAWN = (40, 10)  # classes, images of each: as many as the sample of real images has
_CHUNK = 1 << 20
_TINY = b"\xff\xd8 tiny \xff\xd9"
_CLASSES = 21_841  # as many as ImageNet-22K has
_ROWS = 1 << 16  # of a listing, written at once


def tree(setting: Setting, images: int) -> Path:
    """A raw directory with ``train/<synset>/*.JPEG``, in the page cache.

    Files are copies, not links, so that reading them costs what reading a real tree costs.
    """

    def fill(directory: Path) -> None:
        for number, (synset, original) in enumerate(islice(cycle(_originals(setting)), images)):
            _copy(original, directory / "train" / synset / f"{synset}_{number}.JPEG")

    return made(setting, f"raw-{images}", fill)


def files(directory: Path) -> list[Path]:
    """The images of a tree, sorted."""
    return sorted(directory.glob("train/*/*.JPEG"))


def nested_tars(setting: Setting, classes: int, images: int) -> Path:
    """A raw directory with an ILSVRC2012_img_train.tar of tiny members.

    Args:
        setting: where.
        classes: how many nested archives.
        images: how many members in all of them, spread evenly.
    """

    def fill(directory: Path) -> None:
        with open(directory / TRAIN_TAR, "wb") as file:
            for number, (synset, _) in enumerate(imagenet_classes()[:classes]):
                inner = _class_archive(synset, images // classes + (number < images % classes))
                file.write(_tar_header(f"{synset}.tar", len(inner)) + inner)
            file.write(bytes(2 * tarfile.BLOCKSIZE))

    return made(setting, f"nested-{images}", fill)


def listing(setting: Setting, rows: int) -> Path:
    """A directory with ``listing.csv`` of so many images of ImageNet-22K, which are not there.

    Their sizes are listed, so nothing looks for the files. The rows are shuffled: that is the
    hardest input for what sorts them.
    """

    def fill(directory: Path) -> None:
        order = np.random.default_rng(0).permutation(rows).astype(np.int32)
        with (directory / "listing.csv").open("w") as file:
            file.write("path,label,size\n")
            for start in range(0, rows, _ROWS):
                file.write("".join(map(_listed, order[start : start + _ROWS].tolist())))

    return made(setting, f"listing-{rows}", fill)


def made(setting: Setting, name: str, fill: Callable[[Path], None]) -> Path:
    """The directory of that name, filled if it is not there; its files in the page cache."""
    directory = setting.work / name
    if not directory.exists():
        setting.say(f"making {name}")
        partial = directory.with_name(f"{name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        fill(partial)
        partial.replace(directory)
        os.sync()
    for path in contents(directory):
        with path.open("rb", buffering=0) as file:
            while file.read(_CHUNK):
                pass
    return directory


def contents(directory: Path) -> Iterable[Path]:
    """All files below a directory."""
    return (path for path in directory.rglob("*") if path.is_file())


def forget(directory: Path) -> None:
    """Have the system drop all files of a directory from the page cache."""
    for path in contents(directory):
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _copy(original: Path, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(original, path)


def _originals(setting: Setting) -> list[tuple[str, Path]]:
    """Class and file of every ordinary image; what needs repair no other tool here could read."""
    source = setting.images
    if source is None:
        drawn = setting.work / "drawn"
        if not drawn.exists():
            classes, each = _DRAWN
            synthesize_imagenet(
                drawn, classes=classes, images_per_class=each, validation_images=1, layout="tree"
            )
        source = drawn / "train"
    synsets = [synset for synset, _ in imagenet_classes()]
    found = [
        (folder.name if folder.name in synsets else synsets[number % len(synsets)], path)
        for number, folder in enumerate(sorted(filter(Path.is_dir, source.iterdir())))
        for path in sorted(folder.iterdir())
        if _is_ordinary(path)
    ]
    if not found:
        raise CannotRunError(f"--images: no JPEG files in class directories of {source.name}")
    return found


def _is_ordinary(path: Path) -> bool:
    try:
        with Image.open(path) as image:
            return image.format == "JPEG" and image.mode in ("L", "RGB")
    except (UnidentifiedImageError, OSError):
        return False


def _class_archive(synset: str, images: int) -> bytes:
    """Made of one header: others differ in the name and the checksum, which is a sum of bytes."""
    blank = bytearray(_tar_header("", len(_TINY)))
    blank[148:156] = b" " * 8  # as POSIX has the checksum counted
    base, head, tail = sum(blank), bytes(blank[100:148]), bytes(blank[156:])
    tail += _TINY.ljust(tarfile.BLOCKSIZE, b"\0")
    archive = bytearray()
    for number in range(images):
        name = b"%s_%d.JPEG" % (synset.encode(), number)
        archive += name.ljust(100, b"\0") + head + b"%06o\0 " % (base + sum(name)) + tail
    return bytes(archive + bytes(2 * tarfile.BLOCKSIZE))


def _tar_header(name: str, size: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.mtime = size, 1_339_200_000
    return info.tobuf(tarfile.USTAR_FORMAT)


def _listed(number: int) -> str:
    """A line of a listing: the class in turn, and a size below 500 that looks like chance."""
    synset = f"n{4_475 + number % _CLASSES * 601:08d}"  # of eight digits, as real ones
    size = 100 + number * 2_654_435_761 % (1 << 32) % 400
    return f"{synset}/{synset}_{number // _CLASSES}.JPEG,{synset},{size}\n"
