"""Is ``dataprep stage`` as fast as ``cp -r``, while it hashes, flushes and forgets its source?

2 GB in 20 shards, between two tmpfs and between two directories of the disk that the work
directory is on, in rounds: ``dataprep stage`` with and without hashing beside ``cp -r``, which is
given ``sha256sum`` on all cores, after it on the copy or beside it on the source. On disk, every
program begins with the source on disk only, and ``cp`` is given a final ``sync``, because
``dataprep stage`` makes everything durable.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks import jobs
from benchmarks.measure import Usage, run
from benchmarks.results import Row, Target
from benchmarks.setting import Setting
from benchmarks.speed import rounds
from dataprep.system.filesystems import filesystem_of

_SHARDS = 20
_MEMORY = Path("/dev/shm")
_TARGET = Target(">=", 0.9)
_PEAK = Target("<=", 200, " MB")
_LEFT = Target("<=", 5, " %")
_PIECE = 1 << 20

_STAGE = (sys.executable, "-m", "dataprep", "stage")
_HASHES = 'find "$0" -type f -print0 | xargs -0 -n 1 -P {cores} sha256sum'
_SHELL = {
    "cp -r": 'cp -r "$0" "$1"',
    "cp -r, then sha256sum": 'cp -r "$0" "$1" && set -- "$1" && ' + _HASHES.replace("$0", "$1"),
    "cp -r beside sha256sum": f'{_HASHES} & cp -r "$0" "$1" && wait $!',
}
_PLAIN, *_HASHED = _SHELL  # what staging without and with hashing is compared with


def measure(setting: Setting) -> list[Row]:
    """Both places."""
    rows = []
    kind = filesystem_of(setting.work)
    if kind in ("tmpfs", "ramfs"):
        rows.append(Row("stage, disk to disk", problem="the work directory is memory (--work)"))
    else:
        rows += _place(setting, setting.work / "stage", f"{kind} to {kind}", on_disk=True)
    if not _MEMORY.is_dir() or filesystem_of(_MEMORY) != "tmpfs":
        rows.append(Row("stage, tmpfs to tmpfs", problem=f"{_MEMORY} is no tmpfs here"))
        return rows
    with tempfile.TemporaryDirectory(prefix="dataprep-benchmarks-", dir=_MEMORY) as place:
        return rows + _place(setting, Path(place), "tmpfs to tmpfs", on_disk=False)


def _place(setting: Setting, place: Path, name: str, *, on_disk: bool) -> list[Row]:
    size = setting.size(100_000_000, 1_000_000)
    what = f"stage {_SHARDS * size / 1e9:g} GB in {_SHARDS} shards, {name}"
    place.mkdir(exist_ok=True)
    if shutil.disk_usage(place).free < 3 * _SHARDS * size:
        return [Row(what, problem="too little free space")]
    source = place / "source"
    with jobs.fresh(source):
        _write_shards(source, size)
        left: list[float] = []

        def stage(*options: str) -> Usage:
            with _copying(source, place / "copy", on_disk) as copy:
                usage = run([*_STAGE, source, "--to", copy, *options])
                left.append(100 * _resident(source))
                return usage

        def shell(command: str, flush: bool) -> Usage:
            script = command.replace("{cores}", str(setting.cores))
            with _copying(source, place / "copy", on_disk) as copy:
                return run(["sh", "-c", script, source, copy], flush=flush)

        programs: dict[str, Callable[[], Usage]] = {
            "copy": partial(stage),
            "--verify none": partial(stage, "--verify", "none"),
        }
        for peer, command in _SHELL.items():
            programs[peer] = partial(shell, command, on_disk)
        measured = rounds(setting, what, programs)
    ours = [*measured["copy"], *measured["--verify none"]]
    sync = ", sync" if on_disk else ""
    rows = [
        *(_row(f"{what}: against {peer}{sync}", measured, "copy", peer) for peer in _HASHED),
        _row(f"{what}, --verify none: against {_PLAIN}{sync}", measured, "--verify none", _PLAIN),
        _figure(f"{what}: largest process", [usage.peak_bytes / 1e6 for usage in ours], _PEAK),
    ]
    if on_disk:
        rows.append(_figure(f"{what}: of the source left in the page cache", left, _LEFT))
    return rows


def _row(what: str, measured: dict[str, list[Usage]], ours: str, theirs: str) -> Row:
    pairs = list(zip(measured[ours], measured[theirs], strict=True))
    return Row(
        what,
        _text(measured[ours]),
        _text(measured[theirs]),
        tuple(their.seconds / our.seconds for our, their in pairs),
        target=_TARGET,
    )


def _text(usages: Sequence[Usage]) -> str:
    wall = median(usage.seconds for usage in usages)
    return f"{wall:.2f} s, {median(usage.cpu_seconds for usage in usages):.2f} CPU-s"


def _figure(what: str, values: Sequence[float], target: Target) -> Row:
    text = f"{max(values):.0f}{target.unit}"
    return Row(what, text, values=(max(values),), is_ratio=False, target=target)


@contextmanager
def _copying(source: Path, copy: Path, on_disk: bool) -> Iterator[Path]:
    """A place for a copy, and a source that nobody has just read, if it is on disk."""
    if on_disk:
        os.sync()
        for path in source.iterdir():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    with jobs.fresh(copy):
        yield copy


def _write_shards(source: Path, size: int) -> None:
    source.mkdir()
    noise = random.Random(0)
    for number in range(_SHARDS):
        with (source / f"train-{number:05}-of-{_SHARDS:05}").open("wb") as file:
            for _ in range(size // _PIECE):
                file.write(noise.randbytes(_PIECE))
            file.write(noise.randbytes(size % _PIECE))


def _resident(source: Path) -> float:
    """The share of the pages of all files that are in the page cache."""
    found = pages = 0
    libc = ctypes.CDLL(None)
    for path in source.iterdir():
        size = path.stat().st_size
        flags = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
        with path.open("r+b") as file, mmap.mmap(file.fileno(), size) as mapping:
            anchor = ctypes.c_char.from_buffer(mapping)  # writable, or there is no address
            libc.mincore(ctypes.c_void_p(ctypes.addressof(anchor)), ctypes.c_size_t(size), flags)
            del anchor
        found += sum(flag & 1 for flag in flags)
        pages += len(flags)
    return found / pages
