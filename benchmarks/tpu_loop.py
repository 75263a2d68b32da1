"""How much faster than the TPU script's loop is preparing with the default check?

The loop is one process by design and dataprep uses every core, so the ratio grows with the cores.
The loop has no start-up in its time (see tpu_script), so it is measured on fewer images; ours is
measured with its start-up and without.
"""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec

from benchmarks import jobs, raw_set
from benchmarks.measure import Usage, run
from benchmarks.results import Row, Target, compared
from benchmarks.setting import CannotRunError, Setting
from benchmarks.speed import alternate, steadies, two_sizes, wholes

_TARGET = Target(">=", 6)


def measure(setting: Setting) -> list[Row]:
    """Ours at two sizes, the loop on a part of the smaller tree."""
    if find_spec("tensorflow") is None:
        raise CannotRunError("no TensorFlow here: pip install 'dataprep[tensorflow]'")
    small, large = setting.size((4_000, 32_000), (100, 400))
    count = setting.size(2_000, 50)

    def ours(images: int) -> Usage:
        return jobs.imagenet(setting, images)

    def theirs() -> float:
        raw = raw_set.tree(setting, small)
        with jobs.fresh(setting.work / "loop") as out:
            script = [sys.executable, "-m", "benchmarks.tpu_script"]
            usage = run([*script, str(raw), str(out), str(count), "2"], flush=True)
        said = json.loads(usage.output.splitlines()[-1])
        return float(said["images"] / said["seconds"])

    pairs = alternate(
        setting,
        "tpu_loop",
        lambda: two_sizes(ours, small, large),
        theirs,
        warm_up=[lambda: ours(small), theirs],
    )
    our_speeds, their_speeds = zip(*pairs, strict=True)
    what = f"default check on {setting.cores} cores, against the TPU script's loop"
    return [
        compared(f"{what}; steady", steadies(our_speeds), their_speeds, target=_TARGET),
        compared(
            f"{what}; whole command, {large:,} images",
            wholes(our_speeds),
            their_speeds,
            target=_TARGET,
        ),
    ]
