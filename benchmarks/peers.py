"""Is preparing faster than with the tools that people would take instead?

Whole jobs, each a program with its start-up, on all cores where the tool can, with `sync` at the
end (`peer_loops`; of im2rec, all but listing the files). Our ``--check header`` decodes as little
as the others do. What they check was tried by hand: docs/performance.md says how.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import truediv
from pathlib import Path
from statistics import median

from benchmarks import raw_sets
from benchmarks.measure import CannotRunError, Setting, Speed, Usage, fresh, rounds, run, two_sizes
from benchmarks.tables import Row, Sheet, Target, beside, compared, number, spread

_QUIET = {"DISABLE_VERSION_CHECK": "1", "HF_HUB_OFFLINE": "1"}  # nothing asks the network
_HEADER, _CHECKED = "dataprep webdataset, --check header", "dataprep webdataset"
_RECORDIO, _IM2REC = "dataprep recordio", "im2rec.py"
_SHARD_WRITER = "webdataset ShardWriter, one a core"
_THEIRS = {  # environment and loop
    _SHARD_WRITER: ("webdataset", "webdataset"),
    "MosaicML MDSWriter, one a core": ("mds", "mds"),
    "LitData optimize": ("litdata", "litdata"),
    "Hugging Face to_parquet": ("datasets", "parquet"),
    "TFDS, one process": ("tfds", "tfds"),
    _IM2REC: ("mxnet", ""),
}


_Tool = Callable[[Path, Path, int], Sequence[str | Path]]
"""Its command, which converts a tree to files below a directory, of a shorter side."""


def measure(setting: Setting) -> list[Row | Sheet]:
    """Passing images through, resizing them, and im2rec without its start-up."""
    theirs, missing = _theirs(setting)
    resized = {_CHECKED: _ours("webdataset"), _RECORDIO: _ours("recordio")}
    passed = {_HEADER: _ours("webdataset", "header"), _CHECKED: _ours("webdataset")}
    for sink in ("tfrecord", "recordio"):
        passed[f"dataprep {sink}, --check header"] = _ours(sink, "header")
    return [
        *_compare(setting, 0, passed | theirs, (_HEADER, _CHECKED), Target(">=", 0.8)),
        *_compare(setting, 256, resized | theirs, (_CHECKED,), Target(">=", 1.6)),
        *_steady(setting, resized | theirs),
        *missing,
    ]


def _compare(
    setting: Setting, size: int, tools: Mapping[str, _Tool], ours: Sequence[str], target: Target
) -> list[Row | Sheet]:
    """All with their ratios to some of ours, whose first has a target against ShardWriter."""
    images = setting.size(14_400, 300)
    what = f"{'--resize 256' if size else 'passed through'}, {images:,} images"
    programs = {name: partial(_run, setting, tool, images, size) for name, tool in tools.items()}
    few = [] if size else [partial(_run, setting, tool, 300, size) for tool in tools.values()]
    jobs = rounds(setting, f"peers: {what}", programs, warm_up=few)
    rates = {name: [images / job.seconds for job in jobs[name]] for name in tools}
    lines = [
        (what, "images/s", "largest process", *(f"{name.partition(' ')[2]} / it" for name in ours))
    ]
    for name in tools:
        memory = median(job.peak_bytes for job in jobs[name]) / 2**20
        figures = (number(rates[name]), f"{memory:,.0f} MiB")
        ratios = [spread([*map(truediv, rates[one], rates[name])]) for one in ours]
        lines.append((name, *figures, *ratios))
    first = partial(compared, f"{what}: {ours[0]} against {_SHARD_WRITER}", rates[ours[0]])
    judged = [first(rates[name], target=target) for name in rates if name == _SHARD_WRITER]
    return [Sheet(lines), *judged]


def _steady(setting: Setting, tools: Mapping[str, _Tool]) -> list[Row]:
    """Each further image that is resized to RecordIO, in five pairs or more."""
    if _IM2REC not in tools:
        return []
    sizes = setting.size((1_000, 4_000), (100, 300))

    def speed(name: str) -> Speed:
        return two_sizes(lambda images: _run(setting, tools[name], images, 256), *sizes)

    pairs = replace(setting, repeat=max(setting.repeat, setting.size(5, 1)))
    speeds = rounds(pairs, "peers: pairs", {it: partial(speed, it) for it in (_RECORDIO, _IM2REC)})
    what, whole = f"--resize 256: {_RECORDIO} against {_IM2REC}", f"{sizes[1]:,} images"
    return beside(what, *speeds.values(), whole=whole, target=Target(">=", 1.8))


def _run(setting: Setting, tool: _Tool, images: int, size: int) -> Usage:
    raw = raw_sets.tree(setting, images)
    with fresh(setting.work / "out") as out:
        out.mkdir()
        return run(tool(raw, out, size), flush=True, environment=_QUIET)


def _ours(sink: str, check: str = "bitstream") -> _Tool:
    def command(raw: Path, out: Path, size: int) -> Sequence[str | Path]:
        shards = str(max(len(raw_sets.files(raw)) // 1000, 1))
        place = ("--raw", raw, "--out", out, "--num_shards", shards, "--splits", "train")
        options = ("--resize", str(size)) if size else ("--check", check)
        return sys.executable, "-m", "dataprep", "imagenet", "--sink", sink, *place, *options

    return command


def _theirs(setting: Setting) -> tuple[dict[str, _Tool], list[Row]]:
    """All whose environments are there, and the others."""
    found: dict[str, _Tool] = {}
    missing = []
    for name, (environment, loop) in _THEIRS.items():
        try:
            found[name] = partial(_words, setting, setting.peer(environment), loop)
        except CannotRunError as error:
            missing.append(Row(f"peers: {name}", problem=str(error)))
    return found, missing


def _words(
    setting: Setting, python: Path, loop: str, raw: Path, out: Path, size: int
) -> Sequence[str | Path]:
    if loop:
        words = (loop, raw, out, str(size), str(setting.cores))
        return python, "-m", "benchmarks.peer_loops", *words
    script = next(python.parents[1].glob("lib/*/site-packages/mxnet/tools/im2rec.py"))
    listed = enumerate(path.relative_to(raw) for path in raw_sets.files(raw))
    (out / "train.lst").write_text("".join(f"{at}\t0\t{path}\n" for at, path in listed))
    options = ("--resize", str(size)) if size else ("--pass-through",)
    return python, script, "--num-thread", str(setting.cores), *options, out / "train", raw
