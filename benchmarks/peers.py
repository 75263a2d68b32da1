"""Is preparing faster than with the tools that people would take instead?

Whole jobs, each a program with its start-up, on all cores where the tool can, with `sync` at the
end (`peer_loops`; of im2rec, all but listing the files). Our ``--check header`` decodes as little
as the others do. What they check was tried by hand: docs/performance.md says how.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
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
_FIGURES = ("images/s", "a CPU-second", "largest process", "output")
_CHECKS = ("bitstreams", "hashes", "resumes")
_PILLOW = "if resized"  # which refuses what is broken
_THEIRS = {  # environment, loop, and what it checks
    _SHARD_WRITER: ("webdataset", "webdataset", _PILLOW, "no", "no"),
    "MosaicML MDSWriter, one a core": ("mds", "mds", _PILLOW, "yes", "no"),
    "LitData optimize": ("litdata", "litdata", _PILLOW, "no", "if asked"),
    "Hugging Face to_parquet": ("datasets", "parquet", _PILLOW, "no", "its cache"),
    "Hugging Face save_to_disk": ("datasets", "disk", _PILLOW, "no", "its cache"),
    "TFDS, one process": ("tfds", "tfds", _PILLOW, "no", "no"),
    _IM2REC: ("mxnet", "", "no", "no", "no"),
}


@dataclass(frozen=True)
class _Tool:
    """What makes a file format.

    Attributes:
        command: converts a tree to files below a directory, bringing the shorter side to a size.
        checks: whether it finds broken bitstreams, keeps hashes of files, and resumes if killed.
    """

    command: Callable[[Path, Path, int], Sequence[str | Path]]
    checks: Sequence[str]


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
    lines = [(what, *_FIGURES, *_CHECKS, *(f"{name.partition(' ')[2]} / it" for name in ours))]
    for name, tool in tools.items():
        per_cpu = number([images / job.cpu_seconds for job in jobs[name]])
        memory = median(job.peak_bytes for job in jobs[name]) / 2**20
        output = median(job.written for job in jobs[name]) / 1e9
        figures = (number(rates[name]), per_cpu, f"{memory:,.0f} MiB", f"{output:.2f} GB")
        ratios = [spread([*map(truediv, rates[one], rates[name])]) for one in ours]
        lines.append((name, *figures, *tool.checks, *ratios))
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
        usage = run(tool.command(raw, out, size), flush=True, environment=_QUIET)
        written = sum(path.stat().st_size for path in raw_sets.contents(out))
        return replace(usage, written=written)


def _ours(sink: str, check: str = "bitstream") -> _Tool:
    def command(raw: Path, out: Path, size: int) -> Sequence[str | Path]:
        shards = str(max(len(raw_sets.files(raw)) // 1000, 1))
        place = ("--raw", raw, "--out", out, "--num_shards", shards, "--splits", "train")
        options = ("--resize", str(size)) if size else ("--check", check)
        return sys.executable, "-m", "dataprep", "imagenet", "--sink", sink, *place, *options

    return _Tool(command, ("yes" if check == "bitstream" else "truncation", "yes", "yes"))


def _theirs(setting: Setting) -> tuple[dict[str, _Tool], list[Row]]:
    """All whose environments are there, and the others."""
    found, missing = {}, []
    for name, (environment, loop, *checks) in _THEIRS.items():
        try:
            command = partial(_words, setting, setting.peer(environment), loop)
            found[name] = _Tool(command, checks)
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
