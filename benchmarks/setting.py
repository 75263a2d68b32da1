"""What every benchmark is given: where to work, on which images, how often."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

ROOT = Path(__file__).resolve().parents[1]
"""Where ``python -m benchmarks.…`` works from, for the programs that benchmarks start."""

Value = TypeVar("Value")


class CannotRunError(Exception):
    """A benchmark lacks something that this machine does not have; the text says what to do."""


@dataclass(frozen=True)
class Setting:
    """How to run the benchmarks.

    Attributes:
        work: an existing directory for inputs, which are kept between benchmarks, and outputs.
        images: a directory of class directories with JPEG files; None for made-up images.
        repeat: how many pairs of measurements.
        quick: tiny sizes, to see that everything runs; the figures then mean nothing.
        mxnet_python: an interpreter with mxnet 1.9.1.
        mds_python: an interpreter with mosaicml-streaming.
    """

    work: Path
    images: Path | None
    repeat: int
    quick: bool
    mxnet_python: Path | None
    mds_python: Path | None

    @property
    def cores(self) -> int:
        """Cores this process may use, which is also what dataprep uses by default."""
        return len(os.sched_getaffinity(0))

    def size(self, full: Value, quick: Value) -> Value:
        """The one of two sizes that this run wants."""
        return quick if self.quick else full

    def say(self, text: str) -> None:
        """Progress, apart from the table."""
        print(text, file=sys.stderr, flush=True)
