"""The other side of passing: read a file, take SHA-256 and CRC-32C, write; and nothing else.

What a shard of images that pass through cannot do without, one thread a process, files of as many
bytes as ImageNet's shards. With ``scan``, every image's bitstream is checked as the default check
does. Prints images a second of processor time and of wall time, of all processes together.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import sys
import time
from pathlib import Path

import google_crc32c

from benchmarks import raw_set
from dataprep.images import codecs

_SHARD = 140_000_000  # bytes
_BLOCK = 1 << 20  # bytes a write
_START_SECONDS = 60.0  # a process that died must not keep the others waiting


def main(raw: Path, out: Path, processes: int, *, scan: bool) -> None:
    """Write a tree's images, shared out evenly."""
    files = raw_set.files(raw)
    out.mkdir()
    # Forked, so that all begin at the same moment.
    context = multiprocessing.get_context("fork")
    ready, rates = context.Barrier(processes), context.SimpleQueue()

    def work(number: int) -> None:
        mine = [str(path) for path in files[number::processes]]
        ready.wait(_START_SECONDS)
        start, processor = time.perf_counter(), time.process_time()
        _write(mine, f"{out}/{number}", scan=scan)
        spent = time.process_time() - processor, time.perf_counter() - start
        rates.put([len(mine) / seconds for seconds in spent])

    workers = [context.Process(target=work, args=(number,)) for number in range(processes)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if any(worker.exitcode for worker in workers):
        sys.exit("a process of the bare loop failed")
    per_cpu, wall = zip(*(rates.get() for _ in workers), strict=True)
    print(json.dumps({"per_cpu": sum(per_cpu), "wall": sum(wall)}))


def _write(files: list[str], prefix: str, *, scan: bool) -> None:
    shard, written, pending = -1, _SHARD, 0
    pieces: list[bytes] = []
    digest = hashlib.sha256()
    for number, path in enumerate(files):
        if written >= _SHARD:
            if shard >= 0:
                os.close(shard)
            shard = os.open(f"{prefix}-{number}", os.O_WRONLY | os.O_CREAT)
            written, digest = 0, hashlib.sha256()
        descriptor = os.open(path, os.O_RDONLY)
        data = os.read(descriptor, os.fstat(descriptor).st_size)
        os.close(descriptor)
        if scan:
            codecs.fast_scan(data)
        digest.update(data)
        google_crc32c.value(data)
        pieces.append(data)
        pending += len(data)
        if pending >= _BLOCK or path is files[-1]:
            written += os.writev(shard, pieces)
            pieces, pending = [], 0
    os.close(shard)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), scan=sys.argv[4:] == ["scan"])
