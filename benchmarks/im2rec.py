"""MXNet's ``im2rec.py``, the usual tool for RecordIO, of the mxnet 1.9.1 wheel.

mxnet wants an old numpy, so it lives in an environment of its own. The list file is made outside
of the time; its start-up is within, as ours is.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks import jobs, raw_set
from benchmarks.measure import Usage, run
from benchmarks.setting import CannotRunError, Setting

VARIABLE = "DATAPREP_MXNET_PYTHON"
HOW_TO = (
    "python -m venv MX; MX/bin/pip install mxnet==1.9.1 numpy==1.23.5 opencv-python-headless"
    "==4.8.1.78 (CPython 3.8 to 3.11); then --mxnet-python MX/bin/python"
)
_FIND = "import importlib.util as u; print(u.find_spec('mxnet').submodule_search_locations[0])"


def find(setting: Setting) -> list[str | Path]:
    """How to start it, with as many processes as there are cores.

    Raises:
        CannotRunError: it is not here.
    """
    if setting.mxnet_python is None:
        raise CannotRunError(f"no --mxnet-python and no {VARIABLE}: {HOW_TO}")
    python = setting.mxnet_python
    script = Path(run([python, "-c", _FIND]).output.strip()) / "tools" / "im2rec.py"
    if not script.exists():
        raise CannotRunError(f"this mxnet has no tools/im2rec.py: {HOW_TO}")
    return [python, script, "--num-thread", str(setting.cores)]


def convert(setting: Setting, program: list[str | Path], images: int, *options: str) -> Usage:
    """Convert a tree, flush the files to disk, and delete them.

    Raises:
        CannotRunError: it left images out.
    """
    raw = raw_set.tree(setting, images)
    with jobs.fresh(setting.work / "im2rec") as out:
        out.mkdir()
        _write_list(raw, out / "train.lst")
        usage = run([*program, *options, out / "train", raw], flush=True)
        written = len((out / "train.idx").read_text().splitlines())
    if written != images:
        raise CannotRunError(f"im2rec wrote {written} of {images} images")
    return usage


def _write_list(raw: Path, path: Path) -> None:
    lines = [
        f"{number}\t0\t{image.relative_to(raw)}\n"
        for number, image in enumerate(raw_set.files(raw))
    ]
    path.write_text("".join(lines))
