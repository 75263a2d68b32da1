"""How fast do trainers read what was written, beside plain files and others' own loaders?

400 photographs of 256x256, repeated under other names, as plain files and in every format; and
2,000 as they are, of which loaders take random parts. A loader is a program of its own (`loaders`)
with two threads or workers, and all take turns, an epoch each, in every round. Then each goes on in
the middle of an epoch.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle, islice
from pathlib import Path

import dataprep
from benchmarks import formats, raw_sets
from benchmarks.measure import (
    ROOT,
    CannotRunError,
    CommandFailedError,
    Program,
    Setting,
    program,
    rounds,
    run,
)
from benchmarks.tables import Row, Target, compared, figure
from dataprep.plugins import SINKS, installed

_FILES = "plain files, Pillow"
_OURS, _CROPS = "tfrecord", "random parts: tfrecord"
_FORMATS = ("tfrecord", "recordio", "webdataset", "hdf5", "arrayrecord", "parquet")
_IN_ORDER = ("parquet", "webdataset's loader", "webdataset's loader, libjpeg-turbo")
_RESUMED = (_OURS, _FILES, "MosaicML Streaming", "LitData", "Grain")
_STAND_INS = ROOT / "examples" / "dataprep-mds" / "tests" / "stand_ins"  # of torchvision, for mds
ENVIRONMENT = {"PYTHONPATH": str(_STAND_INS), "HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1"}

# Ours, theirs, and what the ratio is to be.
_PAIRS: Sequence[tuple[str, str, float | None]] = (
    (_OURS, "two threads that only decode", 0.65),
    (_OURS, _FILES, 2.0),
    (_OURS, "plain files, libjpeg-turbo", None),
    (_OURS, "LitData, libjpeg-turbo", 1.5),
    (_OURS, "LitData", None),
    (_OURS, "MosaicML Streaming, libjpeg-turbo", 1.0),
    (_OURS, "MosaicML Streaming", None),
    (_OURS, "Hugging Face datasets, libjpeg-turbo", 1.0),
    (_OURS, "SPDL", 1.0),
    ("arrayrecord", "Grain, libjpeg-turbo", 1.0),
    ("parquet", "webdataset's loader", None),
    ("webdataset", "webdataset's loader, libjpeg-turbo", 1.0),
    *((name, _OURS, None) for name in _FORMATS[1:]),
    ("DataLoader with our sampler", "DataLoader with PyTorch's order", 0.98),
    ("DataLoader with our sampler", "LitData, libjpeg-turbo", 1.0),
    (_CROPS, "random parts: plain files, Pillow", 1.5),
    (_CROPS, "random parts: SPDL", 1.0),
)


@dataclass(frozen=True)
class _Loader:
    """A program of `loaders`.

    Attributes:
        kind: what it calls the loader.
        data: the directory that it reads, below the work directory.
        needs: the module without which it cannot run.
        tool: whose environment of `make peers` it runs in; empty for this one.
    """

    kind: str
    data: str
    needs: str = "torch"
    tool: str = ""

    def python(self, setting: Setting) -> Path:
        return setting.peers / self.tool / "bin" / "python" if self.tool else Path(sys.executable)


@dataclass(frozen=True)
class _Epoch:
    """Images a second; MiB that the process, and its largest worker, have for themselves."""

    speed: float
    process: float
    worker: float


def measure(setting: Setting) -> list[Row]:
    """Every format and loader in turns; and how they go on in the middle of an epoch."""
    loaders, missing = _find(setting)
    if _FILES not in loaders:
        raise CannotRunError("no PyTorch here: pip install torch")
    for data in dict.fromkeys(["small", *(loader.data for loader in loaders.values())]):
        _prepare(setting, data)
    return [*_compare(setting, loaders), *missing]


def _known() -> dict[str, _Loader]:
    known = {name: _Loader("dataprep", name) for name in _FORMATS if name in installed(SINKS)}
    known |= {
        "two threads that only decode": _Loader("limit", _OURS),
        "DataLoader with our sampler": _Loader("sampler", _OURS),
        "DataLoader with PyTorch's order": _Loader("dataset", _OURS),
        _CROPS: _Loader("crops-dataprep", "original"),
        "random parts: plain files, Pillow": _Loader("crops-files", "photographs-as-they-are"),
        "random parts: SPDL": _Loader("crops-spdl", "photographs-as-they-are", "spdl.io", "spdl"),
        "SPDL": _Loader("spdl", "small", "spdl.io", "spdl"),
    }
    for name, loader in {
        _FILES: _Loader("files", "small"),
        "webdataset's loader": _Loader("webdataset", "webdataset", "webdataset"),
        "Grain": _Loader("grain", "arrayrecord", "grain"),
        "Hugging Face datasets": _Loader("huggingface", "parquet", "datasets"),
        "LitData": _Loader("litdata", "small", "litdata", "litdata"),
        "MosaicML Streaming": _Loader("mosaicml", "small", "streaming", "mds"),
    }.items():
        known[name] = loader
        turbo = f"{name.removesuffix(', Pillow')}, libjpeg-turbo"
        known[turbo] = replace(loader, kind=f"{loader.kind}+turbo")
    return known


def _find(setting: Setting) -> tuple[dict[str, _Loader], list[Row]]:
    """All that can run here."""
    found, missing = {}, []
    here: dict[tuple[Path, str], bool] = {}
    for name, loader in _known().items():
        asked = loader.python(setting), loader.needs
        if asked not in here:
            here[asked] = imports(*asked)
        if here[asked]:
            found[name] = loader
        else:
            why = "make peers" if loader.tool else f"pip install {loader.needs}"
            missing.append(Row(f"reading: {name}", problem=f"{loader.needs} is not here: {why}"))
    return found, missing


def imports(python: Path, needs: str) -> bool:
    """Whether an interpreter has what a loader needs."""
    try:
        # SPDL finds out that it has no FFmpeg when it is used.
        probe = "; spdl.io.lib._libspdl.Demuxer" if needs == "spdl.io" else ""
        code = f"import {needs}, torch, simplejpeg{probe}"
        run([python, "-c", code], environment=ENVIRONMENT)
    except (CommandFailedError, FileNotFoundError):
        return False
    return True


def _prepare(setting: Setting, data: str) -> None:
    """The plain files, or what `dataprep imagenet` makes of them, unless they are there."""
    small = setting.work / "small"
    original = setting.work / "photographs-as-they-are"
    if data in ("original", original.name):
        if not original.exists():
            original.symlink_to(raw_sets.tree(setting, _images(setting, crops=True)))
        if data == "original":
            imagenet_set(setting, original, data, "--num_shards", "8")
    elif data != "small":
        shards = "1" if formats.find(data).one_file else "8"
        imagenet_set(setting, small, data, "--sink", data, "--num_shards", shards)
    elif not small.exists():
        photographs = raw_sets.tree(setting, setting.size(400, 40))
        imagenet_set(setting, photographs, "photographs", "--resize", "256x256")
        plain_files(setting.work / "photographs", _images(setting)).rename(small)


def plain_files(made: Path, images: int) -> Path:
    """So many examples of a data set, repeated if need be, each in a file."""
    files = made.with_name(f"{made.name}-files")
    if not files.exists():
        partly = files.with_name(f"{files.name}.partial")
        with dataprep.open(made) as examples:
            for number, example in enumerate(islice(cycle(examples), images)):
                path = partly / "train" / example.synset / f"{example.synset}_{number}.JPEG"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(example.encoded)
        partly.replace(files)
    return files


def _images(setting: Setting, *, crops: bool = False) -> int:
    return setting.size(2_000, 100) if crops else setting.size(4_800, 200)


def imagenet_set(setting: Setting, raw: Path, name: str, *options: str) -> Path:
    """What `dataprep imagenet` makes of a tree, unless it is there."""
    out = setting.work / name
    if not (out / "manifest.json").exists():
        setting.say(f"reading: making {name}")
        words = ("--raw_data_dir", raw, "--local_scratch_dir", out, "--splits", "train")
        run([sys.executable, "-m", "dataprep", "imagenet", *words, *options], flush=True)
    return out


def _compare(setting: Setting, loaders: Mapping[str, _Loader]) -> list[Row]:
    rows: list[Row] = []
    with ExitStack() as stack:
        programs = {}
        for name, loader in loaders.items():
            setting.say(f"reading: starting {name}")
            is_random = name not in _IN_ORDER
            programs[name] = stack.enter_context(_program(setting, loader, is_random))
        epochs = rounds(
            setting,
            "reading",
            {
                name: partial(_epoch, setting, loaders[name], started)
                for name, started in programs.items()
            },
        )
        speeds = {name: [epoch.speed for epoch in found] for name, found in epochs.items()}
        for ours, theirs, target in _PAIRS:
            if ours in speeds and theirs in speeds:
                wanted = None if target is None else Target(">=", target)
                both = speeds[ours], speeds[theirs]
                rows.append(compared(f"{ours} against {theirs}", *both, target=wanted))
        for name in (_OURS, *_RESUMED[1:], "SPDL"):
            if name in epochs:
                rows.append(
                    figure(
                        f"own memory of process and workers: {name}",
                        [it.process + 2 * it.worker for it in epochs[name]],
                        "MiB",
                    )
                )
    for name in _RESUMED:
        if name in loaders:
            with _program(setting, loaders[name], None) as started:
                found = [float(started.ask(resume=True)["seconds"]) for _ in range(3)]
            rows.append(figure(f"from a state of mid-epoch to the next batch: {name}", found, "s"))
    return rows


@contextmanager
def _program(setting: Setting, loader: _Loader, is_random: bool | None) -> Iterator[Program]:
    """A loader that has run an epoch to warm up; or, without an order, none."""
    where = setting.work / loader.data
    command = (loader.python(setting), "-m", "benchmarks.loaders", loader.kind, where)
    with program(setting, loader.kind, command, ENVIRONMENT) as started:
        if is_random is not None:
            started.ask(random=is_random)
        yield started


def _epoch(setting: Setting, loader: _Loader, started: Program) -> _Epoch:
    answer = started.ask()
    if answer["images"] not in (_images(setting), _images(setting, crops=True)):
        raise CommandFailedError(f"{loader.kind} gave {answer['images']} images")
    sizes = (answer[name] / (1 << 20) for name in ("process", "worker"))
    return _Epoch(answer["images"] / answer["seconds"], *sizes)
