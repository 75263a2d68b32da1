"""Speed with and without start-up: a fixed cost shows in one figure and not in the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

from benchmarks.measure import Usage
from benchmarks.results import Row, Target
from benchmarks.setting import Setting

Ours = TypeVar("Ours")
Theirs = TypeVar("Theirs")
Value = TypeVar("Value")


@dataclass(frozen=True)
class Speed:
    """What one program does a second.

    Attributes:
        whole: images a second of the whole command at its larger size, start-up included.
        steady: of each further image: the difference of two sizes over that of their times.
        whole_per_cpu: images a second of processor time, of the whole command.
        steady_per_cpu: the same of each further image.
        bytes_per_image: what each further image adds to the output.
    """

    whole: float
    steady: float
    whole_per_cpu: float
    steady_per_cpu: float
    bytes_per_image: float


def two_sizes(run: Callable[[int], Usage], small: int, large: int) -> Speed:
    """Measure a program at two sizes.

    Args:
        run: measures it on so many images.
        small: few images.
        large: many images, several times as many.
    """
    short, long = run(small), run(large)
    further = large - small
    return Speed(
        whole=large / long.seconds,
        steady=_rate(further, long.seconds - short.seconds),
        whole_per_cpu=_rate(large, long.cpu_seconds),
        steady_per_cpu=_rate(further, long.cpu_seconds - short.cpu_seconds),
        bytes_per_image=(long.written_bytes - short.written_bytes) / further,
    )


def _rate(images: int, seconds: float) -> float:
    return images / seconds if seconds > 0 else math.nan


def alternate(
    setting: Setting,
    name: str,
    ours: Callable[[], Ours],
    theirs: Callable[[], Theirs],
    *,
    warm_up: Sequence[Callable[[], object]],
) -> list[tuple[Ours, Theirs]]:
    """Measure both sides in turn, ours, theirs, ours, theirs, so that slow drift cancels.

    Args:
        setting: how often.
        name: for progress.
        ours: measures dataprep once.
        theirs: measures the other side once.
        warm_up: called before, so that no side reads its libraries from a cold disk.
    """
    setting.say(f"{name}: warming up")
    for program in warm_up:
        program()
    pairs = []
    for number in range(1, setting.repeat + 1):
        setting.say(f"{name}: pair {number} of {setting.repeat}")
        pairs.append((ours(), theirs()))
    return pairs


def rounds(
    setting: Setting, name: str, programs: Mapping[str, Callable[[], Value]]
) -> dict[str, list[Value]]:
    """Measure several programs in rounds: each once a round, and each round starts elsewhere.

    So what drifts while a round lasts is not always to the same program's advantage.

    Args:
        setting: how many rounds.
        name: for progress.
        programs: measures each of them once.

    Returns:
        What was measured of each, a value a round, in the order of the rounds.
    """
    order = list(programs)
    measured: dict[str, list[Value]] = {program: [] for program in order}
    for number in range(setting.repeat):
        first = number * len(order) // setting.repeat
        for program in order[first:] + order[:first]:
            setting.say(f"{name}: round {number + 1} of {setting.repeat}: {program}")
            measured[program].append(programs[program]())
    return measured


def wholes(speeds: Sequence[Speed]) -> list[float]:
    """Of each, the whole command."""
    return [speed.whole for speed in speeds]


def steadies(speeds: Sequence[Speed]) -> list[float]:
    """Of each, the steady state."""
    return [speed.steady for speed in speeds]


def beside(
    what: str,
    ours: Sequence[Speed],
    theirs: Sequence[Speed],
    *,
    whole: str,
    target: Target | None = None,
    whole_target: Target | None = None,
    megabytes: bool = False,
) -> list[Row]:
    """Two rows, steady and whole command, with images a CPU-second.

    Args:
        what: what is compared.
        ours: dataprep's speeds, one a round.
        theirs: the other side's, in the same order.
        whole: what the whole command is, such as ``4,000 images``.
        target: what the ratio of the steady speeds should be.
        whole_target: what that of the whole commands should be.
        megabytes: say, too, how many are written a second.
    """
    pairs = list(zip(ours, theirs, strict=True))
    return [
        Row(
            f"{what}; steady",
            _steady_text(ours, megabytes),
            _steady_text(theirs, megabytes),
            tuple(our.steady / their.steady for our, their in pairs),
            target=target,
        ),
        Row(
            f"{what}; whole command, {whole}",
            _text(wholes(ours), [speed.whole_per_cpu for speed in ours]),
            _text(wholes(theirs), [speed.whole_per_cpu for speed in theirs]),
            tuple(our.whole / their.whole for our, their in pairs),
            target=whole_target,
        ),
    ]


def _steady_text(speeds: Sequence[Speed], megabytes: bool) -> str:
    text = _text(steadies(speeds), [speed.steady_per_cpu for speed in speeds])
    if megabytes:
        rate = median(speed.steady * speed.bytes_per_image / 1e6 for speed in speeds)
        text += ", ? MB/s" if math.isnan(rate) else f", {rate:,.0f} MB/s"
    return text


def _text(rates: Sequence[float], per_cpu: Sequence[float]) -> str:
    wall, processor = (
        "?" if math.isnan(median(values)) else f"{median(values):,.0f}"
        for values in (rates, per_cpu)
    )
    return f"{wall} images/s, {processor} a CPU-second"
