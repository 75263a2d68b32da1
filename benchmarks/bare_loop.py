"""The other side of `scaling`: what an image cannot do without, and nothing else, in processes.

``python -m benchmarks.bare_loop WORK RAW OUT PROCESSES``, where WORK is

* ``header``: read a file, take SHA-256 and CRC-32C, write, in files of as many bytes as ImageNet's
  shards;
* ``bitstream``: the same, and check the bitstream as the default check does;
* ``resize``: decode, resize and encode in memory, with the library calls and defaults of
  ``dataprep imagenet --resize 256``.

Prints images a second of all processes together.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import random
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import google_crc32c

from benchmarks import raw_sets
from dataprep.images import Resize, jpeg, pixels
from dataprep.recipe import CHROMA

_SHARD = 140_000_000  # bytes
_BLOCK = 1 << 20  # bytes a write
_START_SECONDS = 60.0  # a process that died must not keep the others waiting
_QUALITY = 95


def main(kind: str, raw: Path, out: Path, processes: int) -> None:
    """Share a tree's images out evenly, and begin everywhere at the same moment."""
    files = raw_sets.files(raw)
    # A photograph that is repeated in its class would be decoded by a processor that knows it.
    random.Random(0).shuffle(files)
    out.mkdir()
    # Forked, so that what is in memory is in all without being read again.
    context = multiprocessing.get_context("fork")
    ready, rates = context.Barrier(processes), context.SimpleQueue()

    def work(number: int) -> None:
        mine = files[number::processes]
        if kind == "resize":
            job: Callable[[], None] = partial(_resize_all, [path.read_bytes() for path in mine])
        else:
            job = partial(_write, [str(path) for path in mine], f"{out}/{number}", kind)
        ready.wait(_START_SECONDS)
        start = time.perf_counter()
        job()
        rates.put(len(mine) / (time.perf_counter() - start))

    workers = [context.Process(target=work, args=(number,)) for number in range(processes)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if any(worker.exitcode for worker in workers):
        sys.exit("a process of the bare loop failed")
    print(sum(rates.get() for _ in workers))


def _write(files: list[str], prefix: str, kind: str) -> None:
    shard, written, pending = -1, _SHARD, 0
    pieces: list[bytes] = []
    digest = hashlib.sha256()
    for number, path in enumerate(files):
        if written >= _SHARD:
            if shard >= 0:
                os.fsync(shard)
                os.close(shard)
            shard = os.open(f"{prefix}-{number}", os.O_WRONLY | os.O_CREAT)
            written, digest = 0, hashlib.sha256()
        descriptor = os.open(path, os.O_RDONLY)
        data = os.read(descriptor, os.fstat(descriptor).st_size)
        os.close(descriptor)
        if kind == "bitstream":
            jpeg.fast_scan(data)
        digest.update(data)
        google_crc32c.value(data)
        pieces.append(data)
        pending += len(data)
        if pending >= _BLOCK or path is files[-1]:
            written += os.writev(shard, pieces)
            pieces, pending = [], 0
    os.fsync(shard)
    os.close(shard)


def _resize_all(images: list[bytes]) -> None:
    for data in images:
        is_grey = jpeg.read_frame(data).components == 1
        decoded = jpeg.fast_decode(data, "GRAY" if is_grey else "RGB")
        height, width = decoded.shape[:2]
        size = pixels.target_size(width, height, Resize(256))
        jpeg.encode(pixels.resized(decoded, size, "bicubic"), _QUALITY, CHROMA)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
