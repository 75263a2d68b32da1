"""Speed with and without start-up: a fixed cost shows in one figure and not in the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from benchmarks.measure import Usage
from benchmarks.setting import Setting

Ours = TypeVar("Ours")
Theirs = TypeVar("Theirs")


@dataclass(frozen=True)
class Speed:
    """Images a second of one program.

    Attributes:
        whole: of the whole command at its larger size, start-up included.
        steady: of each further image: the difference of two sizes over that of their times.
    """

    whole: float
    steady: float


def two_sizes(run: Callable[[int], Usage], small: int, large: int) -> Speed:
    """Measure a program at two sizes.

    Args:
        run: measures it on so many images.
        small: few images.
        large: many images, several times as many.
    """
    short, long = run(small).seconds, run(large).seconds
    steady = (large - small) / (long - short) if long > short else math.nan
    return Speed(whole=large / long, steady=steady)


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


def wholes(speeds: Sequence[Speed]) -> list[float]:
    """Of each, the whole command."""
    return [speed.whole for speed in speeds]


def steadies(speeds: Sequence[Speed]) -> list[float]:
    """Of each, the steady state."""
    return [speed.steady for speed in speeds]
