"""Is preparing faster than with the tool that others use for the same kind of file?

``recordio`` against MXNet's ``im2rec.py``, ``webdataset`` against `webdataset.ShardWriter`, and
``tfrecord`` against the TPU script's loop and, for want of a common format, MosaicML's `MDSWriter`.
Same tree, with ``sync``, as rounds of all of them. Where images pass through, these tools but the
TPU script do not decode them, so ours is measured with ``--check header``, which does not either,
and with its default check. ``--resize 256`` is at quality 95 on both sides.

``im2rec.py`` uses every core as we do; the others are loops in one process by design, so images a
CPU-second tell what the cores do not. Our time and im2rec's include start-up, that of the loops
does not (see loops).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks import im2rec, jobs, loops
from benchmarks.measure import Usage
from benchmarks.results import Row, Target
from benchmarks.setting import CannotRunError, Setting
from benchmarks.sinks import default_shard
from benchmarks.speed import Speed, beside, rounds, two_sizes

_IM2REC_TARGET = Target(">=", 1.8)  # of resizing
_TPU_SHARDS = 2  # the TPU script writes one after another


@dataclass(frozen=True)
class _Peer:
    """Another tool.

    Attributes:
        name: what to call it.
        sink: our format beside it.
        run: converts so many images; brings their shorter side to 256 if told so.
        resizes: whether it can do that.
        single: whether it is one process, whatever the cores.
        target: what our steady speed over its should be where images are resized.
    """

    name: str
    sink: str
    run: Callable[[int, bool], Usage]
    resizes: bool = True
    single: bool = True
    target: Target | None = None


@dataclass(frozen=True)
class _Job:
    """What is done to the images, and on how many.

    Attributes:
        resize: whether the others resize.
        variants: our options for the same, by what to call them; each is compared.
        sizes: small and large.
        loop_sizes: the same for the peers that are single processes.
    """

    resize: bool
    variants: Mapping[str, tuple[str, ...]]
    sizes: tuple[int, int]
    loop_sizes: tuple[int, int]


def measure(setting: Setting) -> list[Row]:
    """All that are here, first passing images through, then resizing."""
    sizes = setting.size((800, 4_000), (100, 300))
    few = setting.size((400, 1_200), (100, 300))  # slow, and without start-up in their time
    passing = {
        "passed through, --check header": ("--check", "header"),
        "passed through, default check": (),
    }
    resizing = {"--resize 256": ("--resize", "256")}
    peers, missing = _find(setting)
    return [
        *_compare(setting, _Job(False, passing, sizes, sizes), peers),
        *_compare(
            setting, _Job(True, resizing, sizes, few), [peer for peer in peers if peer.resizes]
        ),
        *missing,
    ]


def _find(setting: Setting) -> tuple[list[_Peer], list[Row]]:
    peers, missing = [], []
    for name, make in _PEERS.items():
        try:
            peers.append(make(setting))
        except CannotRunError as error:
            missing.append(Row(f"peers: {name}", problem=str(error)))
    return peers, missing


def _im2rec(setting: Setting) -> _Peer:
    program = im2rec.find(setting)

    def convert(images: int, resize: bool) -> Usage:
        options = ("--resize", "256") if resize else ("--pass-through",)
        return im2rec.convert(setting, program, images, *options)

    name = f"im2rec.py --num-thread {setting.cores}"
    return _Peer(name, "recordio", convert, single=False, target=_IM2REC_TARGET)


def _webdataset(setting: Setting) -> _Peer:
    loops.check_webdataset()

    def convert(images: int, resize: bool) -> Usage:
        return loops.webdataset(setting, images, size=256 if resize else 0)

    return _Peer("webdataset.ShardWriter", "webdataset", convert)


def _tpu(setting: Setting) -> _Peer:
    loops.check_tensorflow()

    def convert(images: int, _: bool) -> Usage:
        return loops.tpu(setting, images, shards=_TPU_SHARDS)

    return _Peer("the TPU script's loop", "tfrecord", convert, resizes=False)


def _mds(setting: Setting) -> _Peer:
    python = loops.check_mds(setting)

    def convert(images: int, resize: bool) -> Usage:
        return loops.mds(setting, python, images, size=256 if resize else 0)

    return _Peer("MDSWriter", "tfrecord", convert)


_PEERS: dict[str, Callable[[Setting], _Peer]] = {
    "im2rec.py": _im2rec,
    "webdataset.ShardWriter": _webdataset,
    "the TPU script's loop": _tpu,
    "MDSWriter": _mds,
}


def _compare(setting: Setting, job: _Job, peers: Sequence[_Peer]) -> list[Row]:
    """Every peer beside our format, in each of our variants."""
    name = f"peers: {'--resize 256' if job.resize else 'passed through'}"
    setting.say(f"{name}: warming up")
    programs: dict[str, Callable[[], Speed]] = {}
    for peer in peers:
        sizes = job.loop_sizes if peer.single else job.sizes
        peer.run(sizes[0], job.resize)
        programs[peer.name] = partial(_theirs, peer, job.resize, sizes)
        for variant, options in job.variants.items():
            ours = f"{peer.sink}, {variant}"
            if ours not in programs:
                _prepare(setting, peer.sink, options, job.sizes[0])
                programs[ours] = partial(_ours, setting, peer.sink, options, job.sizes)
    speeds = rounds(setting, name, programs)
    rows = []
    for peer in peers:
        for variant in job.variants:
            rows += beside(
                f"{peer.sink}, {variant}, against {peer.name}",
                speeds[f"{peer.sink}, {variant}"],
                speeds[peer.name],
                whole=_whole(job, peer),
                target=peer.target if job.resize else None,
            )
    return rows


def _whole(job: _Job, peer: _Peer) -> str:
    """What the row of whole commands compares: a loop's time has no start-up in it."""
    text = f"{job.sizes[1]:,} images"
    return f"{text}; theirs {job.loop_sizes[1]:,} without start-up" if peer.single else text


def _theirs(peer: _Peer, resize: bool, sizes: tuple[int, int]) -> Speed:
    return two_sizes(lambda images: peer.run(images, resize), *sizes)


def _ours(setting: Setting, sink: str, options: tuple[str, ...], sizes: tuple[int, int]) -> Speed:
    return two_sizes(lambda images: _prepare(setting, sink, options, images), *sizes)


def _prepare(setting: Setting, sink: str, options: tuple[str, ...], images: int) -> Usage:
    return jobs.imagenet(setting, images, "--sink", sink, *options, shard=default_shard(sink))
