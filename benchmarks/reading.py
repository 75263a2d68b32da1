"""How fast do trainers read what was written, beside plain files and others' own loaders?

400 photographs of 256x256, repeated under other names: as plain files, which torchvision's
``ImageFolder`` would read, and in every format. A loader is a program of its own with two workers,
and all take turns, an epoch each, in every round. Cold is with all of its files dropped from the
page cache; what a program has mapped stays there, which is to its advantage.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import Any

import dataprep
from benchmarks import raw_set
from benchmarks.loops import MDS_HOW_TO
from benchmarks.measure import CommandFailedError, run
from benchmarks.results import Row, Target, compared
from benchmarks.setting import ROOT, CannotRunError, Setting
from benchmarks.sinks import default_shard
from benchmarks.speed import rounds
from dataprep.plugins import SINKS, installed

_FILES = "plain files"
_FORMATS = ("tfrecord", "recordio", "webdataset", "hdf5", "lmdb-torch", "parquet", "arrayrecord")
_AS_FAST = {"tfrecord", "recordio", "webdataset", "hdf5"}  # those that have a target
_DECODED, _BYTES = Target(">=", 1.3), Target(">=", 0.8)
_STAND_INS = ROOT / "examples" / "dataprep-mds" / "tests" / "stand_ins"  # of torchvision, for mds
_MIB = 1 << 20


@dataclass(frozen=True)
class _Loader:
    """A program of `reading_script`.

    Attributes:
        kind: what it calls the loader.
        data: the directory that it reads, below the work directory.
        copy: what it makes of that for itself, likewise; empty if nothing.
        rival: our loader beside it; empty for ours.
        needs: the module without which it cannot run.
        python: its interpreter.
    """

    kind: str
    data: str
    copy: str = ""
    rival: str = ""
    needs: str = "torch"
    python: Path = Path(sys.executable)


@dataclass(frozen=True)
class _Epoch:
    """Images a second, and bytes of the largest worker."""

    speed: float
    worker: int


def measure(setting: Setting) -> list[Row]:
    """Every format against plain files, and its own or a similar loader's against ours."""
    if find_spec("torch") is None:
        raise CannotRunError("no PyTorch here: pip install torch")
    loaders, missing = _find(setting)
    for loader in loaders.values():
        _prepare(setting, loader.data)
    rows: list[Row] = []
    for decoded in (True, False):
        for random in (True, False):
            rows += _compare(setting, loaders, decoded, random)
    return [*rows, *missing]


def _find(setting: Setting) -> tuple[dict[str, _Loader], list[Row]]:
    """All that can run here, plain files first."""
    mds = setting.mds_python
    found = {_FILES: _Loader("files", "small")}
    found |= {name: _Loader("dataprep", name) for name in _FORMATS if name in installed(SINKS)}
    peers = {
        "webdataset's loader": _Loader("webdataset", "webdataset", "", "webdataset", "webdataset"),
        "Grain": _Loader("grain", "arrayrecord", "", "arrayrecord", "grain"),
        "Hugging Face datasets": _Loader(
            *("huggingface", "parquet", "huggingface-cache", "parquet", "datasets")
        ),
        "LitData": _Loader("litdata", "small", "litdata", "tfrecord", "litdata"),
        "MosaicML Streaming": _Loader(
            *("mosaicml", "small", "mds", "tfrecord", "streaming"), mds or Path(sys.executable)
        ),
    }
    missing = []
    for name, peer in peers.items():
        try:
            run([peer.python, "-c", f"import {peer.needs}"], environment=_environment())
            found[name] = peer
        except (CommandFailedError, OSError):
            why = MDS_HOW_TO if peer.kind == "mosaicml" else f"pip install {peer.needs}"
            missing.append(Row(f"reading: {name}", problem=f"{peer.needs} is not here: {why}"))
    return found, missing


def _environment() -> dict[str, str]:
    return {"PYTHONPATH": str(_STAND_INS), "HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1"}


def _prepare(setting: Setting, data: str) -> None:
    """The plain files, or what `dataprep imagenet` makes of them, unless they are there."""
    images = setting.size(4_800, 200)
    small = setting.work / "small"
    if data != "small":
        shards = () if default_shard(data) is None else ("--num_shards", "train=8")
        _imagenet(setting, small, data, "--sink", data, *shards)
    elif not small.exists():
        photographs = raw_set.tree(setting, setting.size(400, 40))
        _imagenet(setting, photographs, "photographs", "--resize", "256x256")
        with dataprep.open(setting.work / "photographs") as examples:
            made = list(examples)
        partial_ = small.with_name("small.partial")
        for number, example in enumerate(islice(cycle(made), images)):
            path = partial_ / "train" / example.synset / f"{example.synset}_{number}.JPEG"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(example.encoded)
        partial_.replace(small)


def _imagenet(setting: Setting, raw: Path, name: str, *options: str) -> None:
    out = setting.work / name
    if not (out / "manifest.json").exists():
        setting.say(f"reading: making {name}")
        words = ["--raw_data_dir", raw, "--local_scratch_dir", out, "--splits", "train"]
        run([sys.executable, "-m", "dataprep", "imagenet", *words, *options], flush=True)


def _compare(
    setting: Setting, loaders: Mapping[str, _Loader], decoded: bool, random: bool
) -> list[Row]:
    mode = f"{'decoded' if decoded else 'bytes only'}, {'random' if random else 'in sequence'}"
    setting.say(f"reading: {mode}: warming up")
    measured: dict[str, dict[str, list[_Epoch]]] = {}
    with ExitStack() as stack:
        programs, rows = {}, []
        for name, loader in loaders.items():
            if random and (loader.kind == "webdataset" or name == "parquet"):
                continue  # it has no random access, or reads a row group for a row
            try:
                program = stack.enter_context(_program(setting, loader, decoded, random))
            except CommandFailedError as error:
                setting.say(f"{name}: {error}\n{error.output}")
                rows.append(Row(f"{mode}: {name}", problem=str(error)))
            else:
                programs[name] = program
        for state in ("warm", "cold"):
            measured[state] = rounds(
                setting,
                f"reading: {mode}, {state}",
                {
                    name: partial(_epoch, setting, loaders[name], program, state == "cold")
                    for name, program in programs.items()
                },
            )
    for state, epochs in measured.items():
        speeds = {name: [epoch.speed for epoch in found] for name, found in epochs.items()}
        for name in programs:
            rival = loaders[name].rival
            if rival in programs:
                what = f"{mode}, {state}: {rival} against {name}"
                rows.append(compared(what, speeds[rival], speeds[name]))
            elif name != _FILES:
                target = (_DECODED if decoded else _BYTES) if state == "warm" else None
                if name not in _AS_FAST or (decoded and not random):
                    target = None
                what = f"{mode}, {state}: {name} against {_FILES}"
                rows.append(compared(what, speeds[name], speeds[_FILES], target=target))
    if decoded and random:
        rows += [
            _memory(name, found) for name, found in measured["warm"].items() if found[0].worker
        ]
    return rows


def _memory(name: str, epochs: Sequence[_Epoch]) -> Row:
    """What one has for itself alone."""
    worker = median(epoch.worker for epoch in epochs) / _MIB
    return Row(
        f"memory of a worker's own after an epoch, decoded, random: {name}", f"{worker:.0f} MiB"
    )


@contextmanager
def _program(
    setting: Setting, loader: _Loader, decoded: bool, random: bool
) -> Iterator[subprocess.Popen[str]]:
    words = [loader.python, "-m", "benchmarks.reading_script", loader.kind]
    with (
        (setting.work / f"{loader.kind}.log").open("w") as log,
        subprocess.Popen(
            [*words, setting.work / loader.data],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd=ROOT,
            env={**os.environ, **_environment()},
        ) as process,
    ):
        try:
            _ask(setting, loader, process, {"decoded": decoded, "random": random})
            yield process
            assert process.stdin is not None
            process.stdin.close()
            process.wait()
        finally:
            process.terminate()


def _ask(
    setting: Setting, loader: _Loader, process: subprocess.Popen[str], asked: Mapping[str, bool]
) -> dict[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(asked) + "\n")
    process.stdin.flush()
    said = process.stdout.readline()
    if not said.startswith("{"):
        log = (setting.work / f"{loader.kind}.log").read_text()[-2000:]
        raise CommandFailedError(f"the loader {loader.kind} failed", log + said)
    answer: dict[str, Any] = json.loads(said)
    if answer["images"] != setting.size(4_800, 200):
        raise CommandFailedError(f"{loader.kind} gave {answer['images']} images", "")
    return answer


def _epoch(setting: Setting, loader: _Loader, process: subprocess.Popen[str], cold: bool) -> _Epoch:
    if cold:
        for folder in filter(None, (loader.data, loader.copy)):
            _drop(setting.work / folder)
    answer = _ask(setting, loader, process, {})
    return _Epoch(answer["images"] / answer["seconds"], answer["worker"])


def _drop(directory: Path) -> None:
    """Have the system forget the contents of all files."""
    for path in directory.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)
