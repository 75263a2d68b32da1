"""A trainer fed by a loader and, in turn, by one made batch: ``feeding OPTIONS``, a JSON object.

Each line on standard input is ``{"kind": …, "directory": …, "workers": …, "rank": …, "ranks": …}``,
which makes a loader (`loaders`), or ``{}``, which trains some seconds on a batch that is there
already, and some on what the loader brings; standard output says, of each,

* ``speed``: images a second. An epoch's first steps are left out: of long epochs they are nothing;
* ``waits``: the share of the time that the trainer waits for its next batch;
* ``step``: milliseconds that the trainer's own Python takes for a step, without waiting for the
  device. What it takes longer when it is fed it waits for the GIL, or for a core;
* ``gil``: microseconds that a thread waits for the GIL, the mean and the largest of a hundred,
  which another thread asks for a thousand times a second: how late it wakes up from its sleep, less
  what the kernel says that it was ready and had no core (``schedstat``). What the kernel takes to
  wake it, 10 to 60 us, is in it, so compare with the made batch; it sees what is longer than that.

A ``device`` of ``sleep:MS`` only sleeps for so long in each step: what a GPU leaves of the cores.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import repeat
from pathlib import Path
from statistics import fmean, quantiles
from typing import Any, Self

from benchmarks.loaders import Epoch, Wish, loader

_SIDE, _CLASSES = 224, 1000
_AHEAD = 2  # steps that a device may be behind
_WARM = 8  # steps
_PULSE_NS = 1_000_000
_SET_TIMER_SLACK = 29  # of prctl


def main(options: dict[str, Any]) -> None:
    """Do as the lines say until there are no more."""
    trainer, seconds = _trainer(options), options["seconds"]
    fed: Iterator[tuple[int, Any]] = iter(())
    made = zip(repeat(sys.maxsize), repeat(trainer.made()))
    _measured(trainer, made, 0, 0)
    for line in sys.stdin:
        answer = {}
        if asked := json.loads(line):
            fed, kind, directory = iter(()), asked.pop("kind"), Path(asked.pop("directory"))
            wish = Wish(batch=options["batch"], **asked)
            fed = trainer.copied(_endless(loader(kind, directory, wish), wish.batch))
            skipped = _WARM + 2 * wish.workers  # what the workers have in hand
        else:
            answer = {
                "made": _measured(trainer, made, 0, seconds),
                "fed": _measured(trainer, fed, skipped, seconds),
            }
        print(json.dumps(answer), flush=True)


def _endless(epoch: Epoch, batch: int) -> Iterator[tuple[int, Any]]:
    """Whole batches, each with its place in its epoch."""
    while True:
        for at, (images, labels) in enumerate(epoch()):
            if len(labels) == batch:
                yield at, (images, labels)


def _measured(
    trainer: _Sleeper, batches: Iterator[tuple[int, Any]], skipped: int, seconds: float
) -> dict[str, Any]:
    """Train for so long; what goes before does not count."""
    for _ in range(max(_WARM, skipped)):
        trainer.step(*next(batches)[1])
    trainer.finish()
    waited = python = device = 0.0
    steps = 0
    with _Pulse() as pulse:
        while waited + python + device < seconds:
            start = time.perf_counter()
            at, batch = next(batches)
            got = time.perf_counter()
            trainer.step(*batch)
            stepped = time.perf_counter()
            trainer.keep_up()
            if at >= skipped:
                waited, python = waited + got - start, python + stepped - got
                device += time.perf_counter() - stepped
                steps += 1
        start = time.perf_counter()
        trainer.finish()
        device += time.perf_counter() - start
    total = waited + python + device
    if not steps:
        return {}
    speed = steps * trainer.batch / total
    return {"speed": speed, "waits": waited / total, "step": 1e3 * python / steps, **pulse.told()}


class _Pulse(threading.Thread):
    """Asks for the GIL, over and over, as the trainer does."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._waits: list[float] = []
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.join()

    def told(self) -> dict[str, Any]:
        """Mean, and the largest of a hundred."""
        waits = self._waits or [0.0]
        return {"gil": (fmean(waits), quantiles([*waits, waits[-1]], n=100)[-1])}

    def run(self) -> None:
        """Sleep, and see how late it is."""
        ctypes.CDLL(None).prctl(_SET_TIMER_SLACK, 1, 0, 0, 0)  # else it is 50 us late by itself
        place = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
        file = os.open(place if place.exists() else os.devnull, os.O_RDONLY)

        def without_core() -> int:
            words = os.pread(file, 100, 0).split()
            return int(words[1]) if words else 0

        while not self._ended.is_set():
            before = without_core()
            due = time.perf_counter_ns() + _PULSE_NS
            time.sleep(_PULSE_NS / 1e9)
            late = time.perf_counter_ns() - due
            self._waits.append(max(late - (without_core() - before), 0) / 1e3)
        os.close(file)


class _Sleeper:
    """A device that takes some time for a step, and no core of the host."""

    def __init__(self, batch: int, milliseconds: float) -> None:
        self.batch, self._seconds = batch, milliseconds / 1e3

    def made(self) -> Any:
        """A batch that is where it is needed."""
        return None, None

    def step(self, _images: Any, _labels: Any) -> None:
        """Begin it; what the trainer does in Python."""
        time.sleep(self._seconds)

    def keep_up(self) -> None:
        """Wait until the device is only a few steps behind."""

    def finish(self) -> None:
        """Wait until it has done all."""

    def copied(self, batches: Iterator[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
        """Batches where they are needed."""
        return batches


class _Trainer(_Sleeper):
    """A network, cross entropy and SGD; on CUDA with bf16, channels last."""

    def __init__(self, options: dict[str, Any]) -> None:
        import torch

        super().__init__(options["batch"], 0)
        self._torch, self._name = torch, options["device"]
        cuda = self._name.startswith("cuda")
        torch.backends.cudnn.benchmark = True
        network = (_tiny if options["model"] == "tiny" else _resnet50)(torch.nn)
        network = network.to(self._name, memory_format=torch.channels_last)
        self._sgd = torch.optim.SGD(network.parameters(), 0.01, 0.9)
        self._ready: deque[Any] = deque()
        self._cuda = torch.cuda if cuda else None

        def loss_of(images: Any, labels: Any) -> Any:
            with torch.autocast(self._name.partition(":")[0], torch.bfloat16, enabled=cuda):
                found = network((images.to(torch.float32) - 118) / 58)
                return torch.nn.functional.cross_entropy(found, labels)

        self._loss: Callable[[Any, Any], Any] = loss_of
        if options["compile"]:
            self._loss = torch.compile(loss_of)

    def made(self) -> Any:
        torch, shape = self._torch, (self.batch, 3, _SIDE, _SIDE)
        images = torch.randint(0, 256, shape, dtype=torch.uint8, device=self._name)
        labels = torch.arange(self.batch, device=self._name) % _CLASSES
        return images.contiguous(memory_format=torch.channels_last), labels

    def step(self, images: Any, labels: Any) -> None:
        self._loss(images, labels).backward()
        self._sgd.step()
        self._sgd.zero_grad()

    def keep_up(self) -> None:
        if self._cuda:
            self._ready.append(self._cuda.Event())
            self._ready[-1].record()
            if len(self._ready) > _AHEAD:
                self._ready.popleft().synchronize()

    def finish(self) -> None:
        if self._cuda:
            self._cuda.synchronize()

    def copied(self, batches: Iterator[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
        """Copied beside the step before, on a stream of its own."""
        if not self._cuda:
            yield from ((at, tuple(map(self._tensor, batch))) for at, batch in batches)
            return
        beside = self._cuda.Stream()
        following: list[tuple[int, Any]] = []
        for at, batch in batches:
            with self._cuda.stream(beside):
                there = [self._tensor(it).to(self._name, non_blocking=True) for it in batch]
            following.append((at, there))
            if len(following) > 1:
                now = self._cuda.current_stream()
                now.wait_stream(beside)
                for one in following[0][1]:
                    one.record_stream(now)
                yield following.pop(0)

    def _tensor(self, values: Any) -> Any:
        """Of images channels first, as a view; of labels, 64-bit."""
        found = self._torch.as_tensor(values)
        if found.ndim == 4:
            return found if found.shape[1] == 3 else found.permute(0, 3, 1, 2)
        return found.long()


def _trainer(options: dict[str, Any]) -> _Sleeper:
    kind, _, value = options["device"].partition(":")
    if kind == "sleep":
        return _Sleeper(options["batch"], float(value))
    return _Trainer(options)


def _tiny(nn: Any) -> Any:
    layers = (nn.Conv2d(3, 8, 7, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return nn.Sequential(*layers, nn.Linear(8, _CLASSES))


def _resnet50(nn: Any) -> Any:
    """The layers of torchvision's, which is not everywhere."""

    def convolved(inputs: int, outputs: int, side: int, stride: int = 1) -> Iterable[Any]:
        options = {"padding": side // 2, "bias": False}
        return nn.Conv2d(inputs, outputs, side, stride, **options), nn.BatchNorm2d(outputs)

    class Bottleneck(nn.Module):  # type: ignore[misc,name-defined,unused-ignore]
        def __init__(self, inputs: int, width: int, stride: int) -> None:
            super().__init__()
            parts = [*convolved(inputs, width, 1), nn.ReLU(inplace=True)]
            parts += [*convolved(width, width, 3, stride), nn.ReLU(inplace=True)]
            self.body = nn.Sequential(*parts, *convolved(width, 4 * width, 1))
            short = convolved(inputs, 4 * width, 1, stride) if inputs != 4 * width else ()
            self.short, self.relu = nn.Sequential(*short), nn.ReLU(inplace=True)

        def forward(self, images: Any) -> Any:
            return self.relu(self.body(images) + self.short(images))

    layers = [*convolved(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for at in range(blocks):
            layers.append(Bottleneck(inputs, width, 1 if at else stride))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, _CLASSES))


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main(json.loads(sys.argv[1]))
