"""The scripts as they should be: ``python -m tests.staging.hooks.goldens`` writes them anew.

Look at the difference before it is committed.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dataprep.staging.hooks import SCHEDULERS, render
from dataprep.staging.request import StageRequest

DIRECTORY = Path(__file__).parent / "golden"

_PLAIN = StageRequest(Path("/lustre/project/imagenet"))
_EVERYTHING = StageRequest(
    Path("/lustre/my project/it's"),
    splits=("train", "validation"),
    share="node",
)


def goldens() -> dict[str, str]:
    """The text of every script, by file name."""
    texts = {f"{name}.sh": render(name, _PLAIN) for name in SCHEDULERS}
    texts |= {f"{name}-epilog.sh": render(name, None) for name in SCHEDULERS}
    texts["pbs-broadcast.sh"] = render("pbs", replace(_PLAIN, broadcast="mpi"))
    everything = render("slurm", _EVERYTHING, to="${TMPDIR}/my data/$USER", nodes=1536, keep=True)
    return texts | {"slurm-everything.sh": everything}


if __name__ == "__main__":
    for name, text in goldens().items():
        (DIRECTORY / name).write_text(text, encoding="utf-8")
