"""Is resizing faster than MXNet's im2rec, the usual tool for it?

``dataprep imagenet --resize 256`` against ``im2rec.py --resize 256 --num-thread CORES`` of the
mxnet 1.9.1 wheel, both at quality 95, on the same tree, with ``sync``. mxnet wants an old numpy,
so it lives in an environment of its own. The list file is made outside of the time.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks import jobs, raw_set
from benchmarks.measure import Usage, run
from benchmarks.results import Row, Target, compared
from benchmarks.setting import CannotRunError, Setting
from benchmarks.speed import alternate, steadies, two_sizes, wholes

VARIABLE = "DATAPREP_MXNET_PYTHON"
HOW_TO = (
    "python -m venv MX; MX/bin/pip install mxnet==1.9.1 numpy==1.23.5 opencv-python-headless"
    "==4.8.1.78 (CPython 3.8 to 3.11); then --mxnet-python MX/bin/python"
)
_FIND = "import importlib.util as u; print(u.find_spec('mxnet').submodule_search_locations[0])"


def measure(setting: Setting) -> list[Row]:
    """Both sides at two sizes each."""
    if setting.mxnet_python is None:
        raise CannotRunError(f"no --mxnet-python and no {VARIABLE}: {HOW_TO}")
    python = setting.mxnet_python
    script = Path(run([python, "-c", _FIND]).output.strip()) / "tools" / "im2rec.py"
    if not script.exists():
        raise CannotRunError(f"this mxnet has no tools/im2rec.py: {HOW_TO}")
    small, large = setting.size((1_000, 8_000), (100, 400))

    def theirs(images: int) -> Usage:
        raw = raw_set.tree(setting, images)
        with jobs.fresh(setting.work / "im2rec") as out:
            out.mkdir()
            _write_list(raw, out / "train.lst")
            options = ["--resize", "256", "--num-thread", str(setting.cores)]
            usage = run([python, script, *options, out / "train", raw], flush=True)
            written = len((out / "train.idx").read_text().splitlines())
        if written != images:
            raise CannotRunError(f"im2rec wrote {written} of {images} images")
        return usage

    def ours(images: int) -> Usage:
        return jobs.imagenet(setting, images, "--resize", "256")

    pairs = alternate(
        setting,
        "im2rec",
        lambda: two_sizes(ours, small, large),
        lambda: two_sizes(theirs, small, large),
        warm_up=[lambda: ours(small), lambda: theirs(small)],
    )
    our_speeds, their_speeds = zip(*pairs, strict=True)
    what = f"--resize 256, against im2rec.py --num-thread {setting.cores}, both with sync"
    return [
        compared(
            f"{what}; steady",
            steadies(our_speeds),
            steadies(their_speeds),
            target=Target(">=", 1.3),
        ),
        compared(
            f"{what}; whole command, {large:,} images", wholes(our_speeds), wholes(their_speeds)
        ),
    ]


def _write_list(raw: Path, path: Path) -> None:
    lines = [
        f"{number}\t0\t{image.relative_to(raw)}\n"
        for number, image in enumerate(raw_set.files(raw))
    ]
    path.write_text("".join(lines))
