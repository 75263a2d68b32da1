"""Is every format written as fast as TFRecord?

The same tree into every installed format: passed through with the default check, with
``--resize 256``, and with ``--resize 256x256``, where the formats of pixels take part, which write
six or more times the bytes and therefore have no target. All in rounds, each with TFRecord.

Formats with one file a split get one shard, which has one writer. Of the others, shards are small
enough that there are several for every core, as in a real job, which has 1024.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks import raw_sets
from benchmarks.measure import Setting, Speed, Usage, prepared, rounds, two_sizes
from benchmarks.tables import Row, Target, beside
from dataprep.plugins import SINKS, installed, load_sink

_BASELINE = "tfrecord"
_SHARD = 125  # images
_TARGET = Target(">=", 0.9)
_BOTH_KINDS = {"lmdb": {"datum": "raw"}}  # what makes formats of both kinds store pixels


@dataclass(frozen=True)
class Format:
    """A format, and how to ask ``dataprep imagenet`` for it.

    Attributes:
        label: what to call it in the table.
        options: of the command.
        pixels: whether it stores pixels.
        one_file: whether a split is one file by default.
    """

    label: str
    options: tuple[str, ...]
    pixels: bool
    one_file: bool

    def prepare(self, setting: Setting, options: Sequence[str], images: int) -> Usage:
        """Prepare a tree of so many images."""
        shards = 1 if self.one_file else max(images // _SHARD, 1)
        words = ("--splits", "train", "--num_shards", str(shards), *self.options, *options)
        return prepared(setting, raw_sets.tree(setting, images), *words)

    def speed(self, setting: Setting, options: Sequence[str], sizes: tuple[int, int]) -> Speed:
        """How fast that is, from two sizes."""
        return two_sizes(partial(self.prepare, setting, options), *sizes)


def find(name: str, **sink_options: str) -> Format:
    """A format by the name of its sink."""
    sink = load_sink(name, sink_options)
    given = [f"{option}={value}" for option, value in sink_options.items()]
    words = [word for one in given for word in ("--sink_option", one)]
    label = " ".join([name, *given])
    return Format(label, ("--sink", name, *words), sink.pixels, sink.usual_shards == 1)


def measure(setting: Setting) -> list[Row]:
    """Three jobs: encoded formats in two, formats of pixels in the third."""
    baseline = find(_BASELINE)
    others = [find(name) for name in sorted(installed(SINKS)) if name != _BASELINE]
    encoded = [one for one in others if not one.pixels]
    pixels = [one for one in others if one.pixels]
    pixels += [find(name, **options) for name, options in _BOTH_KINDS.items()]
    rows = []
    for label, sizes, formats in (
        ("passed through, default check", (800, 6_000), encoded),
        ("--resize 256", (800, 4_000), encoded),
        ("--resize 256x256", (400, 2_000), pixels),
    ):
        options = label.split() if label.startswith("--") else ()
        both = setting.size(sizes, (100, 300))
        measured = rounds(
            setting,
            f"formats: {label}",
            {one.label: partial(one.speed, setting, options, both) for one in (baseline, *formats)},
            warm_up=[partial(one.prepare, setting, options, both[0]) for one in formats],
        )
        for one in formats:
            rows += beside(
                f"{label}: {one.label} against {_BASELINE}",
                *(measured[one.label], measured[_BASELINE]),
                whole=f"{both[1]:,} images",
                target=None if one.pixels else _TARGET,
                whole_target=None if one.pixels else _TARGET,
            )
    return rows
