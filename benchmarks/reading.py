"""How fast do trainers read what was written, beside plain files and others' own loaders?

400 photographs of 256x256, repeated under other names: as plain files, which torchvision's
``ImageFolder`` would read, and in every format. A loader is a program of its own (`loaders`) with
two workers, and all take turns, an epoch each, in every round. Cold is with all of its files
dropped from the page cache; what a program has mapped stays there, which is to its advantage.
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
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import Any

import dataprep
from benchmarks import formats, raw_sets
from benchmarks.measure import ROOT, CannotRunError, CommandFailedError, Setting, rounds, run
from benchmarks.tables import Row, Target, compared, figure
from dataprep.plugins import SINKS, installed

_FILES = "plain files"
_FORMATS = ("tfrecord", "recordio", "webdataset", "hdf5", "lmdb-torch", "parquet", "arrayrecord")
_AS_FAST = {"tfrecord", "recordio", "webdataset", "hdf5"}  # those that have a target
_TARGET = Target(">=", 1.3)  # at random, warm
_ORDERS = ("random", "in sequence")
_STAND_INS = ROOT / "examples" / "dataprep-mds" / "tests" / "stand_ins"  # of torchvision, for mds
_ENVIRONMENT = {"PYTHONPATH": str(_STAND_INS), "HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1"}


@dataclass(frozen=True)
class _Loader:
    """A program of `loaders`.

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
    """Images a second, and MiB that the largest worker has for itself."""

    speed: float
    worker: float


def measure(setting: Setting) -> list[Row]:
    """Every format against plain files, and its own or a similar loader's against ours."""
    loaders, missing = _find(setting)
    if _FILES not in loaders:
        raise CannotRunError("no PyTorch here: pip install torch")
    for loader in loaders.values():
        _prepare(setting, loader.data)
    return [row for order in _ORDERS for row in _compare(setting, loaders, order)] + missing


def _find(setting: Setting) -> tuple[dict[str, _Loader], list[Row]]:
    """All that can run here, plain files first."""
    mds = setting.peers / "mds" / "bin" / "python"
    known = {_FILES: _Loader("files", "small")}
    known |= {name: _Loader("dataprep", name) for name in _FORMATS if name in installed(SINKS)}
    known |= {
        "webdataset's loader": _Loader("webdataset", "webdataset", "", "webdataset", "webdataset"),
        "Grain": _Loader("grain", "arrayrecord", "", "arrayrecord", "grain"),
        "Hugging Face datasets": _Loader(
            *("huggingface", "parquet", "huggingface-cache", "parquet", "datasets")
        ),
        "LitData": _Loader("litdata", "small", "litdata", "tfrecord", "litdata"),
        "MosaicML Streaming": _Loader("mosaicml", "small", "mds", "tfrecord", "streaming", mds),
    }
    found, missing = {}, []
    for name, loader in known.items():
        try:
            run([loader.python, "-c", f"import {loader.needs}"], environment=_ENVIRONMENT)
            found[name] = loader
        except (CommandFailedError, FileNotFoundError):
            why = "make peers" if loader.kind == "mosaicml" else f"pip install {loader.needs}"
            missing.append(Row(f"reading: {name}", problem=f"{loader.needs} is not here: {why}"))
    return found, missing


def _prepare(setting: Setting, data: str) -> None:
    """The plain files, or what `dataprep imagenet` makes of them, unless they are there."""
    small = setting.work / "small"
    if data != "small":
        shards = "1" if formats.find(data).one_file else "8"
        _imagenet(setting, small, data, "--sink", data, "--num_shards", shards)
    elif not small.exists():
        photographs = raw_sets.tree(setting, setting.size(400, 40))
        _imagenet(setting, photographs, "photographs", "--resize", "256x256")
        with dataprep.open(setting.work / "photographs") as examples:
            made = list(examples)
        partly = small.with_name("small.partial")
        for number, example in enumerate(islice(cycle(made), _images(setting))):
            path = partly / "train" / example.synset / f"{example.synset}_{number}.JPEG"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(example.encoded)
        partly.replace(small)


def _images(setting: Setting) -> int:
    return setting.size(4_800, 200)


def _imagenet(setting: Setting, raw: Path, name: str, *options: str) -> None:
    out = setting.work / name
    if not (out / "manifest.json").exists():
        setting.say(f"reading: making {name}")
        words = ("--raw_data_dir", raw, "--local_scratch_dir", out, "--splits", "train")
        run([sys.executable, "-m", "dataprep", "imagenet", *words, *options], flush=True)


def _compare(setting: Setting, loaders: Mapping[str, _Loader], order: str) -> list[Row]:
    is_random = order == "random"
    rows: list[Row] = []
    with ExitStack() as stack:
        programs = {}
        for name, loader in loaders.items():
            if is_random and (loader.kind == "webdataset" or name == "parquet"):
                continue  # it has no random access, or reads a row group for a row
            setting.say(f"reading: {order}: starting {name}")
            programs[name] = stack.enter_context(_program(setting, loader, is_random))
        for state in ("warm", "cold"):
            epochs = rounds(
                setting,
                f"reading: {order}, {state}",
                {
                    name: partial(_epoch, setting, loaders[name], program, state == "cold")
                    for name, program in programs.items()
                },
            )
            rows += _rows(loaders, f"{order}, {state}", epochs)
            if state == "warm" and is_random:
                rows += [
                    figure(f"{order}: a worker's own memory: {name}", worker, "MiB")
                    for name, found in epochs.items()
                    if median(worker := [epoch.worker for epoch in found])
                ]
    return rows


def _rows(
    loaders: Mapping[str, _Loader], what: str, epochs: Mapping[str, Sequence[_Epoch]]
) -> list[Row]:
    speeds = {name: [epoch.speed for epoch in found] for name, found in epochs.items()}
    rows = []
    for name in speeds:
        rival = loaders[name].rival
        if rival in speeds:
            rows.append(compared(f"{what}: {rival} against {name}", speeds[rival], speeds[name]))
        elif name != _FILES:
            target = _TARGET if what == "random, warm" and name in _AS_FAST else None
            both = speeds[name], speeds[_FILES]
            rows.append(compared(f"{what}: {name} against {_FILES}", *both, target=target))
    return rows


@contextmanager
def _program(setting: Setting, loader: _Loader, is_random: bool) -> Iterator[subprocess.Popen[str]]:
    """A loader that has run an epoch to warm up."""
    words = [loader.python, "-m", "benchmarks.loaders", loader.kind, setting.work / loader.data]
    with (
        (setting.work / f"{loader.kind}.log").open("w") as log,
        subprocess.Popen(
            [str(word) for word in words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd=ROOT,
            env={**os.environ, **_ENVIRONMENT},
        ) as process,
    ):
        try:
            _ask(setting, loader, process, random=is_random)
            yield process
        finally:
            process.terminate()


def _ask(
    setting: Setting, loader: _Loader, process: subprocess.Popen[str], **asked: bool
) -> dict[str, Any]:
    """Have it run an epoch."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(asked) + "\n")
    process.stdin.flush()
    said = process.stdout.readline()
    if not said.startswith("{"):
        log = (setting.work / f"{loader.kind}.log").read_text()[-2000:]
        raise CommandFailedError(f"the loader {loader.kind} failed", log + said)
    answer: dict[str, Any] = json.loads(said)
    if answer["images"] != _images(setting):
        raise CommandFailedError(f"{loader.kind} gave {answer['images']} images")
    return answer


def _epoch(setting: Setting, loader: _Loader, process: subprocess.Popen[str], cold: bool) -> _Epoch:
    if cold:
        for folder in filter(None, (loader.data, loader.copy)):
            raw_sets.forget(setting.work / folder)
    answer = _ask(setting, loader, process)
    return _Epoch(answer["images"] / answer["seconds"], answer["worker"] / (1 << 20))
