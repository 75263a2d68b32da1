"""Does an accelerator wait for its batches? A network trained on made data, and by each loader.

``--device cuda``, or ``cpu``; ``sleep:MS`` takes so long for a step and does nothing, to see what
threads do to the training thread where there is no GPU. Each loader brings random parts of 224
pixels of photographs as they are, and of those whose shorter side is 256. `feeding` says what is
measured, and how: with made batches and the loader's in turn, in each round.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from operator import truediv
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import raw_sets, reading
from benchmarks.measure import CannotRunError, CommandFailedError, Setting, program
from benchmarks.tables import Row, Sheet, number, spread

_OURS = ("records.loader", "records.loader, processes")
# What `loaders` calls it, the module that it needs, and the environment of `make peers`.
_FEEDERS = {
    _OURS[0]: ("crops-dataprep", "torch", ""),
    _OURS[1]: ("crops-processes", "torch", ""),
    "DataLoader, Pillow": ("crops-files", "torch", ""),
    "DataLoader, libjpeg-turbo": ("crops-files+turbo", "torch", ""),
    "LitData, libjpeg-turbo": ("crops-litdata+turbo", "litdata", "litdata"),
    "DALI": ("crops-dali", "nvidia.dali.plugin.pytorch", "dali"),
    "SPDL": ("crops-spdl", "spdl.io", "spdl"),
}
_HEADINGS = (
    *("feeder", "images", "threads", "made, images/s", "fed, images/s", "of made"),
    *("waits for a batch", "a step's Python, made, fed", "GIL, made, fed (99 %)"),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """What only this question asks for."""
    group = parser.add_argument_group("of feed")
    group.add_argument("--device", default="", help="cuda, cpu or sleep:MS [default: what is here]")
    group.add_argument("--model", default="resnet50", choices=("resnet50", "tiny"))
    group.add_argument("--compile", action="store_true", help="by torch.compile")
    group.add_argument("--batch", type=int, default=256, help="of one rank [default: 256]")
    group.add_argument("--ranks", type=int, default=1, help="processes at once [default: 1]")
    group.add_argument("--seconds", type=float, default=10, help="of each measurement")
    group.add_argument("--threads", type=int, nargs="+", help="of a rank [default: 1 2 4 8 16]")
    group.add_argument("--feeders", nargs="+", default=[*_FEEDERS], metavar="FEEDER")


def measure(setting: Setting) -> list[Row | Sheet]:
    """Every loader with each number of threads."""
    asked = setting.training
    if not reading.imports(Path(sys.executable), "torch"):
        raise CannotRunError("no PyTorch here: pip install torch")
    options = {name: getattr(asked, name) for name in ("model", "compile", "batch", "seconds")}
    options |= setting.size({}, {"model": "tiny", "batch": 8, "seconds": 0.3})
    lines: list[tuple[str, ...]] = [_HEADINGS]
    missing = []
    for name in asked.feeders:
        try:
            lines += _feeder(setting, name, options)
        except CannotRunError as error:
            missing.append(Row(f"feed: {name}", problem=str(error)))
        except CommandFailedError as error:
            if name in _OURS:
                raise
            setting.say(error.output)
            missing.append(Row(f"feed: {name}", problem=str(error)))
    return [Sheet(lines), *missing]


def _feeder(setting: Setting, name: str, options: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """A line of each kind of images and number of threads."""
    kind, needs, tool = _FEEDERS[name]
    pythons = [Path(sys.executable), setting.peers / tool / "bin" / "python"]
    python = next((one for one in pythons if reading.imports(one, needs)), None)
    if python is None:
        raise CannotRunError(f"{needs} is not here: {'make peers' if tool else 'pip install it'}")
    ranks, device = setting.training.ranks, setting.training.device or _found_device()
    most = max(setting.cores // ranks, 1)
    threads = setting.training.threads or [it for it in (1, 2, 4, 8, 16) if it <= most]
    with ExitStack() as stack:
        trainers = []
        for rank in range(ranks):
            place = f":{rank % _gpus()}" if device == "cuda" else ""
            told = json.dumps({**options, "device": device + place})
            command = (python, "-m", "benchmarks.feeding", told)
            made = program(setting, f"feed-{kind}-{rank}", command, reading.ENVIRONMENT)
            trainers.append(stack.enter_context(made))
        images = min(setting.size(100, 14) * options["batch"] * ranks, setting.size(25_600, 10**9))
        for what, directory in _sets(setting, images, records=name in _OURS).items():
            for workers in threads[: setting.size(None, 1)]:
                setting.say(f"feed: {name}, {what}, {workers} threads")
                asked = {"kind": kind, "directory": str(directory), "workers": workers}
                _all(trainers, [{**asked, "rank": rank, "ranks": ranks} for rank in range(ranks)])
                rounds = [_all(trainers, [{}] * ranks) for _ in range(setting.repeat)]
                of = f"{workers} x {ranks} ranks" if ranks > 1 else str(workers)
                yield (name, what, of, *_cells(rounds))


def _all(trainers: Sequence[Any], lines: Sequence[dict[str, Any]]) -> list[Any]:
    """Have all ranks do something at once."""
    for trainer, line in zip(trainers, lines, strict=True):
        trainer.tell(line)
    return [trainer.answer() for trainer in trainers]


def _cells(rounds: Sequence[Sequence[dict[str, Any]]]) -> tuple[str, ...]:
    """The medians of all rounds; of speeds, of all ranks together."""

    def speeds(side: str) -> list[float]:
        return [sum(rank[side].get("speed", math.nan) for rank in ranks) for ranks in rounds]

    def values(side: str, name: str, at: int | None = None) -> float:
        found = [rank[side].get(name) for ranks in rounds for rank in ranks if rank[side]]
        return median(it if at is None else it[at] for it in found) if found else math.nan

    made, fed = speeds("made"), speeds("fed")
    gil = [values(side, "gil", at) for side, at in (("made", 0), ("fed", 0), ("fed", 1))]
    return (
        number(made),
        number(fed),
        spread([*map(truediv, fed, made)]),
        f"{values('fed', 'waits'):.1%}",
        f"{values('made', 'step'):.2f}, {values('fed', 'step'):.2f} ms",
        "{:.0f}, {:.0f} ({:.0f}) us".format(*gil),
    )


def _sets(setting: Setting, images: int, *, records: bool) -> dict[str, Path]:
    """As they are, and of 256 pixels; as records, or as plain files."""
    files = raw_sets.tree(setting, images)
    shards = ("--num_shards", "8")
    small = reading.imagenet_set(setting, files, f"resized-{images}", "--resize", "256", *shards)
    if records:
        whole = reading.imagenet_set(setting, files, f"as-they-are-{images}", *shards)
        return {"originals": whole, "256 px": small}
    return {"originals": files, "256 px": reading.plain_files(small, images)}


def _found_device() -> str:
    return "cuda" if _gpus() else "cpu"


def _gpus() -> int:
    import torch

    return int(torch.cuda.device_count()) if torch.cuda.is_available() else 0
