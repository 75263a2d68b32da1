"""Two other writers in the loops that their users write, in one process and a program of its own.

``webdataset``: `ShardWriter` as its documentation uses it: ``.jpg``, ``.cls`` and ``.json``, 1000
samples a shard. ``mds``: MosaicML's `MDSWriter` as its script for ImageNet uses it: opens every
image with Pillow, which reads the header, then reads the file; shards of 64 MiB, hashed with SHA-1
and xxHash. The image's column is ``bytes``: what ``jpeg`` takes differs between versions.

With a size, Pillow brings the shorter side to it as torchvision's ``Resize`` does, and encodes
with quality 95. Needs Pillow and the writer's library, and nothing of dataprep.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path

from PIL import Image

_SAMPLES = 1000  # a tar
_SHARD_BYTES = 1 << 26
_HASHES = ["sha1", "xxh64"]
_COLUMNS = {"i": "int", "x": "bytes", "y": "int"}

Write = Callable[[Sequence[Path], dict[str, int], Path, int], None]


def main(writer: str, raw: Path, out: Path, count: int, size: int) -> None:
    """Convert the first ``count`` images of a tree; size 0 passes them through."""
    paths = sorted(raw.glob("train/*/*.JPEG"))[:count]
    labels = {path.name: label for label, path in enumerate(sorted((raw / "train").iterdir()))}
    write = {"webdataset": _webdataset, "mds": _mds}[writer]()
    start, processor = time.perf_counter(), time.process_time()
    write(paths, labels, out, size)
    os.sync()
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - processor
    print(json.dumps({"images": len(paths), "seconds": seconds, "cpu_seconds": cpu_seconds}))


def _webdataset() -> Write:
    import webdataset

    def write(paths: Sequence[Path], labels: dict[str, int], out: Path, size: int) -> None:
        out.mkdir()
        pattern = str(out / "train-%06d.tar")
        with webdataset.ShardWriter(pattern, maxcount=_SAMPLES, verbose=0) as sink:
            for path in paths:
                synset = path.parent.name
                sample = {
                    "__key__": path.stem,
                    "jpg": _resized(path, size) if size else path.read_bytes(),
                    "cls": labels[synset],
                    "json": {"synset": synset, "filename": path.name},
                }
                sink.write(sample)

    return write


def _mds() -> Write:
    from streaming.base import MDSWriter

    def write(paths: Sequence[Path], labels: dict[str, int], out: Path, size: int) -> None:
        with MDSWriter(
            out=str(out), columns=_COLUMNS, hashes=_HASHES, size_limit=_SHARD_BYTES
        ) as sink:
            for number, path in enumerate(paths):
                data = _resized(path, size) if size else _recognized(path)
                sink.write({"i": number, "x": data, "y": labels[path.parent.name]})

    return write


def _recognized(path: Path) -> bytes:
    with Image.open(path):
        return path.read_bytes()


def _resized(path: Path, size: int) -> bytes:
    with Image.open(path) as image:
        factor = size / min(image.size)
        shape = round(image.width * factor), round(image.height * factor)
        smaller = image.convert("RGB").resize(shape, Image.Resampling.BILINEAR)
    encoded = BytesIO()
    smaller.save(encoded, "JPEG", quality=95)
    return encoded.getvalue()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
