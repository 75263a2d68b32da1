"""Is ``dataprep stage`` as fast as ``cp -r``, while it hashes, flushes and forgets its source?

2 GB in 20 shards, between two directories of the disk that the work directory is on, and between
two tmpfs; and 30,000 files of 1 kB on that disk. In rounds: ``dataprep stage`` with and without
hashing beside ``cp -r``, which is given ``sha256sum`` on all cores, after it on the copy or beside
it on the source. On disk, every program begins with the source on disk only, and ``cp`` is given a
final ``sync``, because ``dataprep stage`` makes everything durable.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks import raw_sets
from benchmarks.measure import Setting, Usage, fresh, rounds, run
from benchmarks.tables import Row, Target, faster, figure
from dataprep.system.filesystems import filesystem_of

_MEMORY = Path("/dev/shm")
_PEAK = Target("<=", 200, " MB")
_STAGE = (sys.executable, "-m", "dataprep", "stage")
_HASHES = 'find "{it}" -type f -print0 | xargs -0 -n {some} -P {cores} sha256sum'
_SHELL = {
    "cp -r": 'cp -r "$0" "$1"',
    "cp -r, then sha256sum": f'cp -r "$0" "$1" && {_HASHES.replace("{it}", "$1")}',
    "cp -r beside sha256sum": f'{_HASHES.replace("{it}", "$0")} & cp -r "$0" "$1" && wait $!',
}
_PLAIN, *_HASHED = _SHELL  # what staging without and with hashing is compared with


@dataclass(frozen=True)
class _Case:
    """So many files of so many bytes, from and to one directory; at least so fast as ``cp``."""

    place: Path
    files: int
    size: int
    target: Target


def measure(setting: Setting) -> list[Row]:
    """Shards on disk and in memory, then small files on disk."""
    disk = setting.work / "stage"
    disk.mkdir(exist_ok=True)
    size, few, many = 100_000_000, 20, 30_000
    if setting.quick:
        size, many = 1_000_000, 300
    with tempfile.TemporaryDirectory(prefix="dataprep-benchmarks-", dir=_MEMORY) as memory:
        cases = [
            _Case(disk, few, size, Target(">=", 0.9)),
            _Case(Path(memory), few, size, Target(">=", 0.9)),
            _Case(disk, many, 1_000, Target(">=", 0.77)),
        ]
        return [row for case in cases for row in _measure(setting, case)]


def _measure(setting: Setting, case: _Case) -> list[Row]:
    kind = filesystem_of(case.place)
    on_disk = kind not in ("tmpfs", "ramfs")
    what = f"stage {case.files:,} files of {case.size:,} bytes, {kind} to {kind}"
    if shutil.disk_usage(case.place).free < 3 * case.files * case.size:
        return [Row(what, problem="too little free space")]
    source = case.place / "source"
    with fresh(source):
        source.mkdir()
        noise = random.Random(0)
        for number in range(case.files):
            name = f"train-{number:05}-of-{case.files:05}"
            (source / name).write_bytes(noise.randbytes(case.size))

        def stage(*options: str) -> Usage:
            with _copying(source, on_disk) as copy:
                return run([*_STAGE, source, "--to", copy, *options])

        def shell(command: str) -> Usage:
            # A process for each large file, and for some hundred small ones.
            script = command.format(cores=setting.cores, some=max(case.files // 100, 1))
            with _copying(source, on_disk) as copy:
                return run(["sh", "-ec", script, source, copy], flush=on_disk)

        programs: dict[str, Callable[[], Usage]] = {
            "stage": stage,
            "--verify none": partial(stage, "--verify", "none"),
        }
        programs |= {peer: partial(shell, command) for peer, command in _SHELL.items()}
        measured = rounds(setting, what, programs)
    ours, unverified = measured["stage"], measured["--verify none"]
    sync = ", sync" if on_disk else ""
    peaks = [usage.peak_bytes / 1e6 for usage in [*ours, *unverified]]
    hashed = [
        faster(f"{what}: against {peer}{sync}", ours, measured[peer], case.target)
        for peer in _HASHED
    ]
    bare = f"{what}, --verify none: against {_PLAIN}{sync}"
    return [
        *hashed,
        faster(bare, unverified, measured[_PLAIN], case.target),
        figure(f"{what}: largest process", peaks, "MB", _PEAK),
    ]


@contextmanager
def _copying(source: Path, on_disk: bool) -> Iterator[Path]:
    """A place for a copy, and a source that nobody has just read, if it is on disk."""
    if on_disk:
        run(["sync"])
        raw_sets.forget(source)
    with fresh(source.with_name("copy")) as copy:
        yield copy
