"""Writes an ImageNet training archive of full count and tiny members, in seconds."""

from __future__ import annotations

import tarfile
from pathlib import Path

from dataprep.synthesize.imagenet import TRAIN_TAR
from dataprep_schemas import imagenet_classes

_CONTENT = b"\xff\xd8 tiny \xff\xd9"
_MODIFIED = 1_339_200_000
_CHECKSUM = slice(148, 156)  # where a ustar header has its own checksum, as POSIX lays it out
_NAME = 100  # bytes a ustar header has for the name, at its start
_END = b"\0" * (2 * tarfile.BLOCKSIZE)


def write(raw: Path, classes: int, images: int) -> None:
    """Make the raw directory with ILSVRC2012_img_train.tar, unless it is there.

    Args:
        raw: the directory; it appears only when it is complete.
        classes: how many nested archives.
        images: how many members in all of them, spread evenly.
    """
    if raw.exists():
        return
    partial = raw.with_name(f"{raw.name}.partial")
    partial.mkdir(exist_ok=True)
    with open(partial / TRAIN_TAR, "wb") as file:
        for number, (synset, _) in enumerate(imagenet_classes()[:classes]):
            inner = _class_archive(synset, images // classes + (number < images % classes))
            file.write(_header(f"{synset}.tar", len(inner)))
            file.write(inner)
        file.write(_end(file.tell()))
    partial.replace(raw)


def _class_archive(synset: str, images: int) -> bytes:
    # tarfile makes one header; the others differ in name and checksum, which is a sum of bytes.
    blank = bytearray(_header("", len(_CONTENT)))
    blank[_CHECKSUM] = b" " * 8
    base, head, tail = sum(blank), bytes(blank[_NAME:148]), bytes(blank[156:])
    tail += _CONTENT.ljust(tarfile.BLOCKSIZE, b"\0")
    archive = bytearray()
    for number in range(images):
        name = b"%s_%d.JPEG" % (synset.encode(), number)
        archive += name.ljust(_NAME, b"\0") + head + b"%06o\0 " % (base + sum(name)) + tail
    return bytes(archive + _end(len(archive)))


def _header(name: str, size: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.mtime = size, _MODIFIED
    return info.tobuf(tarfile.USTAR_FORMAT)


def _end(length: int) -> bytes:
    return _END + b"\0" * (-(length + len(_END)) % tarfile.RECORDSIZE)
