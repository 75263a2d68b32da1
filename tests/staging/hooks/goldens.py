"""The scripts as they should be: ``python -m tests.staging.hooks.goldens`` writes them anew.

Look at the difference before it is committed.
"""

from __future__ import annotations

from pathlib import Path

from dataprep.staging.hooks import SCHEDULERS, Hook, render

DIRECTORY = Path(__file__).parent / "golden"

_PLAIN = Hook(Path("/lustre/project/imagenet"))
_EVERYTHING = Hook(
    Path("/lustre/my project/it's"),
    to="${TMPDIR}/my data/$USER",
    splits=("train", "validation"),
    share=True,
    replicas=2,
    whole=("validation",),
    nodes=1536,
    keep=True,
)


def goldens() -> dict[str, str]:
    """The text of every script, by file name."""
    texts = {f"{name}.sh": render(name, _PLAIN) for name in SCHEDULERS}
    texts |= {f"{name}-epilog.sh": render(name, _PLAIN, epilog=True) for name in SCHEDULERS}
    broadcast = Hook(Path("/lustre/project/imagenet"), broadcast=True)
    texts["pbs-broadcast.sh"] = render("pbs", broadcast)
    return texts | {"slurm-everything.sh": render("slurm", _EVERYTHING)}


if __name__ == "__main__":
    for name, text in goldens().items():
        (DIRECTORY / name).write_text(text, encoding="utf-8")
