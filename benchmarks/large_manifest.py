"""How long does a manifest of 300,000 shards take to open, in how much memory?

``python -m benchmarks.large_manifest SMALL WORK`` makes one below ``WORK`` (120 MB) with what else
the manifest of ``SMALL`` says, a finished set of TFRecords, and opens it beside ``json.loads`` and
SHA-256 of the same bytes: pairs, and the median of their ratios.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import resource
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from msgspec import structs

from dataprep.sealed.set import NAME, SealedSet
from dataprep.system.state_files import write_state
from dataprep_schemas.manifest import File, Shard
from dataprep_schemas.state import ShardName

_SHARDS = 300_000
_PAIRS = 7


def make(small: Path, out: Path) -> None:
    """Write the manifest of that many shards, of a file and its index each."""
    out.mkdir(parents=True, exist_ok=True)
    before = SealedSet.read(small).manifest
    name, split = next(iter(before.splits.items()))
    shards = []
    for number in range(_SHARDS):
        path = f"{name}/{ShardName(name, number, _SHARDS)}"
        data, index = (hashlib.sha256(f"{kind}{number}".encode()).hexdigest() for kind in "di")
        shards.append(Shard(4, (File(path, 440_000, data), File(f"index/{path}", 64, index))))
    whole = structs.replace(
        split,
        shards=tuple(shards),
        records=4 * _SHARDS,
        records_per_shard=(4, 4),
        rejected=0,
        images_found=4 * _SHARDS,
        bytes=sum(shard.bytes for shard in shards),
    )
    made = structs.replace(
        before,
        splits={name: whole},
        num_shards={name: _SHARDS},
        totals=structs.replace(before.totals, records=4 * _SHARDS),
    )
    write_state(out / NAME, made)


def _timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main() -> None:
    """Make the manifest where it is not there, and open it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("small", type=Path)
    parser.add_argument("work", type=Path)
    options = parser.parse_args()
    path = options.work / NAME
    if not path.exists():
        make(options.small, options.work)
    SealedSet.read(options.work)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    def bare() -> None:
        data = path.read_bytes()
        hashlib.sha256(data).digest()
        json.loads(data)

    def opened() -> None:
        path.touch()  # else it is known from before
        SealedSet.read(options.work)

    pairs = [(_timed(bare), _timed(opened)) for _ in range(_PAIRS)]
    measured = {
        "bytes": path.stat().st_size,
        "bare_seconds": round(statistics.median(bare for bare, _ in pairs), 2),
        "open_seconds": round(statistics.median(whole for _, whole in pairs), 2),
        "ratio": round(statistics.median(whole / bare for bare, whole in pairs), 2),
        "memory": memory,
    }
    print(json.dumps(measured))


if __name__ == "__main__":
    main()
