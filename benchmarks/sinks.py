"""Is every format written as fast as TFRecord?

The same tree into every installed format: passed through with the default check, with
``--resize 256``, and with ``--resize 256x256``, where the formats of pixels take part, which write
ten times the bytes and therefore have no target. All in rounds, each with TFRecord, and ``sync``.

Formats with one file a split get one shard, which has one writer. Of the others, shards are small
enough that there are several for every core, as in a real job, which has 1024.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from benchmarks import jobs
from benchmarks.results import Row, Target
from benchmarks.setting import CannotRunError, Setting
from benchmarks.speed import Speed, beside, rounds, two_sizes
from dataprep.errors import DataprepError
from dataprep.plugins import SINKS, installed, load_sink
from dataprep.sinks import Sink

BASELINE = "tfrecord"
IMAGES_PER_SHARD = 125

_TARGET = Target(">=", 0.9)
_PIXEL_OPTIONS = {"lmdb": {"datum": "raw"}}  # what makes formats of both kinds store pixels


@dataclass(frozen=True)
class _Format:
    """A format, and with which options.

    Attributes:
        label: what to call it in the table.
        options: for ``dataprep imagenet``.
        shard: images in each shard; None for the format's own default.
        pixels: whether it stores pixels.
    """

    label: str
    options: tuple[str, ...]
    shard: int | None
    pixels: bool


@dataclass(frozen=True)
class _Job:
    """What is done to the images, and on how many."""

    label: str
    options: tuple[str, ...]
    sizes: tuple[int, int]


def measure(setting: Setting) -> list[Row]:
    """Three jobs: encoded formats in two, formats of pixels in the third."""
    formats = _formats()
    if not any(one.label == BASELINE for one in formats):
        raise CannotRunError(f"sink {BASELINE} is not installed")
    encoded = [one for one in formats if not one.pixels]
    pixels = [one for one in formats if one.pixels or one.label == BASELINE]
    small = setting.size((800, 6_000), (100, 300))
    resized = setting.size((800, 4_000), (100, 300))
    arrays = setting.size((400, 2_000), (100, 300))
    return [
        *_compare(setting, _Job("passed through, default check", (), small), encoded),
        *_compare(setting, _Job("--resize 256", ("--resize", "256"), resized), encoded),
        *_compare(setting, _Job("--resize 256x256", ("--resize", "256x256"), arrays), pixels),
    ]


def _formats() -> list[_Format]:
    """TFRecord first; a format of both kinds twice."""
    found = []
    for name in sorted(installed(SINKS), key=lambda name: (name != BASELINE, name)):
        variants = [{}, _PIXEL_OPTIONS[name]] if name in _PIXEL_OPTIONS else [{}]
        found += [_format(name, options) for options in variants]
    return found


def _format(name: str, sink_options: dict[str, str]) -> _Format:
    try:
        sink = load_sink(name, sink_options)
    except DataprepError as error:
        raise CannotRunError(str(error)) from error
    given = [f"{option}={value}" for option, value in sink_options.items()]
    words = [word for one in given for word in ("--sink_option", one)]
    return _Format(
        label=" ".join([name, *given]),
        options=("--sink", name, *words),
        shard=_shard(sink),
        pixels=sink.pixels,
    )


def default_shard(name: str) -> int | None:
    """Images in each shard for a format: None for one shard, as it makes by default.

    Otherwise few enough that there are several shards for every core, as in a real job.
    """
    return _shard(load_sink(name))


def _shard(sink: Sink) -> int | None:
    return None if sink.usual_shards == 1 else IMAGES_PER_SHARD


def _compare(setting: Setting, job: _Job, formats: list[_Format]) -> list[Row]:
    programs: dict[str, Callable[[], Speed]] = {
        one.label: partial(_measure_format, setting, job, one) for one in formats
    }
    setting.say(f"sinks: {job.label}: warming up")
    for one in formats:
        jobs.imagenet(setting, job.sizes[0], *one.options, *job.options, shard=one.shard)
    speeds = rounds(setting, f"sinks: {job.label}", programs)
    rows = []
    for one in formats:
        if one.label != BASELINE:
            rows += beside(
                f"{job.label}: {one.label} against {BASELINE}",
                speeds[one.label],
                speeds[BASELINE],
                whole=f"{job.sizes[1]:,} images",
                target=None if one.pixels else _TARGET,
                whole_target=None if one.pixels else _TARGET,
                megabytes=one.pixels,
            )
    return rows


def _measure_format(setting: Setting, job: _Job, one: _Format) -> Speed:
    options = (*one.options, *job.options)
    return two_sizes(
        lambda images: jobs.imagenet(setting, images, *options, shard=one.shard), *job.sizes
    )
