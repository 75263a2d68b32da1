"""Starts other writers' usual loops, which tell their own time: ``tpu_script``, ``loop_script``.

Their time holds the loop, closing the files and a ``sync``. Starting Python, importing libraries
and listing the tree are outside of it, in the writers' favour: what they are compared with
includes all that.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from benchmarks import jobs, raw_set
from benchmarks.measure import CommandFailedError, Usage, run
from benchmarks.setting import CannotRunError, Setting

MDS_VARIABLE = "DATAPREP_MDS_PYTHON"
MDS_HOW_TO = "python -m venv MDS; MDS/bin/pip install mosaicml-streaming; then --mds-python"


def check_tensorflow() -> None:
    """Find out whether the TPU script's loop can run.

    Raises:
        CannotRunError: it cannot.
    """
    if find_spec("tensorflow") is None:
        raise CannotRunError("no TensorFlow here: pip install tensorflow-cpu")


def check_webdataset() -> None:
    """Find out whether webdataset's loop can run; raises as `check_tensorflow` does."""
    if find_spec("webdataset") is None:
        raise CannotRunError("no webdataset here: pip install webdataset")


def check_mds(setting: Setting) -> Path:
    """The interpreter that has MosaicML's writer; raises as `check_tensorflow` does."""
    python = setting.mds_python
    if python is None:
        raise CannotRunError(f"no --mds-python and no {MDS_VARIABLE}: {MDS_HOW_TO}")
    try:
        run([python, "-c", "from streaming.base import MDSWriter"])
    except (CommandFailedError, OSError) as error:
        raise CannotRunError(f"--mds-python cannot import MDSWriter: {MDS_HOW_TO}") from error
    return python


def tpu(setting: Setting, images: int, *, shards: int) -> Usage:
    """The TPU script's loop over a tree."""
    return _run(setting, [sys.executable, "-m", "benchmarks.tpu_script"], images, shards)


def webdataset(setting: Setting, images: int, *, size: int) -> Usage:
    """`ShardWriter`'s loop; size 0 passes images through."""
    loop = [sys.executable, "-m", "benchmarks.loop_script", "webdataset"]
    return _run(setting, loop, images, size)


def mds(setting: Setting, python: Path, images: int, *, size: int) -> Usage:
    """`MDSWriter`'s loop; size 0 passes images through."""
    return _run(setting, [python, "-m", "benchmarks.loop_script", "mds"], images, size)


def _run(setting: Setting, loop: Sequence[str | Path], images: int, last: int) -> Usage:
    raw = raw_set.tree(setting, images)
    with jobs.fresh(setting.work / "loop") as out:
        usage = run([*loop, raw, out, str(images), str(last)], flush=True)
    said = json.loads(usage.output.splitlines()[-1])
    if said["images"] != images:
        raise CommandFailedError(f"{said['images']:,} of {images:,} images were written", "")
    return replace(usage, seconds=said["seconds"], cpu_seconds=said["cpu_seconds"])
