"""Is preparing faster than with the tool that others use for the same kind of file?

``recordio`` against MXNet's ``im2rec.py``, ``webdataset`` against `webdataset.ShardWriter`, and
``tfrecord`` against the TPU script's loop and, for want of a common format, MosaicML's `MDSWriter`.
Where images pass through, these tools but the TPU script do not decode them, so ours is measured
with ``--check header``, which does not either, and with its default check. ``--resize 256`` is at
quality 95 on both sides.

``im2rec.py`` uses every core as we do; the others are loops in one process by design, so images a
CPU-second tell what the cores do not. Our time and im2rec's include start-up, that of the loops
does not (`peer_loops`).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from benchmarks import formats, raw_sets
from benchmarks.measure import (
    CannotRunError,
    CommandFailedError,
    Setting,
    Speed,
    Usage,
    fresh,
    rounds,
    run,
    two_sizes,
)
from benchmarks.tables import Row, Target, beside

MDS_HOW_TO = "python -m venv MDS; MDS/bin/pip install mosaicml-streaming; then --mds-python"
_MXNET_HOW_TO = (
    "python -m venv MX; MX/bin/pip install mxnet==1.9.1 numpy==1.23.5 opencv-python-headless"
    "==4.8.1.78 (CPython 3.8 to 3.11); then --mxnet-python MX/bin/python"
)
_FIND_IM2REC = (
    "import cv2, importlib.util as u; print(u.find_spec('mxnet').submodule_search_locations[0])"
)
_CHECKS = {
    "passed through, --check header": ("--check", "header"),
    "passed through, default check": (),
}
_RESIZE = {"--resize 256": ("--resize", "256")}
_IM2REC_TARGET = Target(">=", 1.8)  # of resizing


@dataclass(frozen=True)
class _Peer:
    """Another tool.

    Attributes:
        name: what to call it.
        sink: our format beside it.
        convert: converts so many images; brings their shorter side to 256 if told so.
        is_loop: whether it is one process, whatever the cores, without start-up in its time.
    """

    name: str
    sink: str
    convert: Callable[[int, bool], Usage]
    is_loop: bool = True


def measure(setting: Setting) -> list[Row]:
    """All that are here, first passing images through, then resizing."""
    peers, missing = [], []
    for name, find in _PEERS.items():
        try:
            peers.append(find(setting))
        except CannotRunError as error:
            missing.append(Row(f"peers: {name}", problem=str(error)))
    resizing = [peer for peer in peers if peer.name != "the TPU script's loop"]
    return [
        *_compare(setting, peers, _CHECKS, resize=False),
        *_compare(setting, resizing, _RESIZE, resize=True),
        *missing,
    ]


def _compare(
    setting: Setting,
    peers: Sequence[_Peer],
    variants: Mapping[str, tuple[str, ...]],
    *,
    resize: bool,
) -> list[Row]:
    """Every peer beside our format, in each of our variants."""
    sizes = setting.size((800, 4_000), (100, 300))
    # A loop is slow at resizing, and has no start-up in its time.
    few = setting.size((400, 1_200), (100, 300)) if resize else sizes
    programs: dict[str, Callable[[], Speed]] = {}
    warm_up: list[Callable[[], Usage]] = []
    for peer in peers:
        theirs = few if peer.is_loop else sizes
        programs[peer.name] = partial(two_sizes, partial(_converted, peer, resize), *theirs)
        warm_up.append(partial(peer.convert, theirs[0], resize))
        for variant, options in variants.items():
            ours = formats.find(peer.sink)
            programs[f"{peer.sink}, {variant}"] = partial(ours.speed, setting, options, sizes)
            warm_up.append(partial(ours.prepare, setting, options, sizes[0]))
    speeds = rounds(setting, f"peers: {next(iter(variants))}", programs, warm_up=warm_up)
    rows = []
    for peer in peers:
        whole = f"{sizes[1]:,} images"
        if peer.is_loop:
            whole += f"; theirs {few[1]:,} without start-up"
        for variant in variants:
            rows += beside(
                f"{peer.sink}, {variant}, against {peer.name}",
                speeds[f"{peer.sink}, {variant}"],
                speeds[peer.name],
                whole=whole,
                target=_IM2REC_TARGET if resize and not peer.is_loop else None,
            )
    return rows


def _converted(peer: _Peer, resize: bool, images: int) -> Usage:
    return peer.convert(images, resize)


def _im2rec(setting: Setting) -> _Peer:
    python = setting.mxnet_python
    if python is None:
        raise CannotRunError(f"no --mxnet-python: {_MXNET_HOW_TO}")
    try:
        package = run([python, "-c", _FIND_IM2REC]).lines[-1][1]
    except CommandFailedError as error:
        raise CannotRunError(f"--mxnet-python has no mxnet or OpenCV: {_MXNET_HOW_TO}") from error
    script = Path(package) / "tools" / "im2rec.py"

    def convert(images: int, resize: bool) -> Usage:
        raw = raw_sets.tree(setting, images)
        with fresh(setting.work / "im2rec") as out:
            out.mkdir()
            listed = enumerate(path.relative_to(raw) for path in raw_sets.files(raw))
            (out / "train.lst").write_text("".join(f"{at}\t0\t{path}\n" for at, path in listed))
            options = ("--resize", "256") if resize else ("--pass-through",)
            threads = ("--num-thread", str(setting.cores))
            usage = run([python, script, *threads, *options, out / "train", raw], flush=True)
            written = len((out / "train.idx").read_text().splitlines())
        if written != images:
            raise CannotRunError(f"im2rec wrote {written} of {images} images")
        return usage

    return _Peer(f"im2rec.py --num-thread {setting.cores}", "recordio", convert, is_loop=False)


def _webdataset(setting: Setting) -> _Peer:
    if find_spec("webdataset") is None:
        raise CannotRunError("no webdataset here: pip install webdataset")
    loop = partial(_loop, setting, Path(sys.executable), "webdataset")
    return _Peer("webdataset.ShardWriter", "webdataset", loop)


def _tpu(setting: Setting) -> _Peer:
    if find_spec("tensorflow") is None:
        raise CannotRunError("no TensorFlow here: pip install tensorflow-cpu")
    loop = partial(_loop, setting, Path(sys.executable), "tpu")
    return _Peer("the TPU script's loop", "tfrecord", loop)


def _mds(setting: Setting) -> _Peer:
    python = setting.mds_python
    if python is None:
        raise CannotRunError(f"no --mds-python: {MDS_HOW_TO}")
    return _Peer("MDSWriter", "tfrecord", partial(_loop, setting, python, "mds"))


_PEERS: dict[str, Callable[[Setting], _Peer]] = {
    "im2rec.py": _im2rec,
    "webdataset.ShardWriter": _webdataset,
    "the TPU script's loop": _tpu,
    "MDSWriter": _mds,
}


def _loop(setting: Setting, python: Path, writer: str, images: int, resize: bool) -> Usage:
    """One of `peer_loops`, with the time that it says itself."""
    raw, size = raw_sets.tree(setting, images), "256" if resize else "0"
    with fresh(setting.work / "loop") as out:
        words = ("-m", "benchmarks.peer_loops", writer, raw, out, size)
        usage = run([python, *words], flush=True)
    said = json.loads(usage.lines[-1][1])
    if said["images"] != images:
        raise CommandFailedError(f"{said['images']:,} of {images:,} images were written")
    return replace(usage, seconds=said["seconds"], cpu_seconds=said["cpu_seconds"])
