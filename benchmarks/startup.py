"""Is asking for help instant, and is nothing imported before it is needed?

Wall time of ``dataprep --help``, and which of the large libraries are loaded: by it, and by a
small job, which needs Beam and numpy but never TensorFlow.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import median

from benchmarks import jobs, raw_set
from benchmarks.measure import run
from benchmarks.results import Row, Target
from benchmarks.setting import Setting

_LARGE = (
    *("apache_beam", "duckdb", "google.protobuf", "grpc", "numpy", "PIL", "pyarrow", "simplejpeg"),
    "tensorflow",
)
_PROBE = f"""
import json, sys
from dataprep.cli import main
code = main(sys.argv[1:])
print("\\n" + json.dumps([name for name in {_LARGE!r} if name in sys.modules]))
sys.exit(code)
"""


def measure(setting: Setting) -> list[Row]:
    """The help several times, then the probes."""
    setting.say("startup: dataprep --help")
    script = Path(sys.executable).with_name("dataprep")
    program = [script] if script.exists() else [sys.executable, "-m", "dataprep"]
    count = setting.size(10, 3)
    run([*program, "--help"])  # compiles what is not compiled yet
    seconds = tuple(run([*program, "--help"]).seconds for _ in range(count))
    setting.say("startup: a job of a few images")
    raw = raw_set.tree(setting, 20)
    with jobs.fresh(setting.work / "out") as out:
        by_job = _loaded(
            *("imagenet", "--raw_data_dir", str(raw), "--local_scratch_dir", str(out)),
            *("--splits", "train"),
        )
    return [
        Row(
            f"dataprep --help, median of {count}",
            f"{median(seconds):.2f} s",
            values=seconds,
            is_ratio=False,
            target=Target("<=", 0.5, " s"),
        ),
        _imports("dataprep --help: large libraries loaded", _loaded("--help"), set(_LARGE)),
        _imports("dataprep imagenet: large libraries loaded", by_job, {"tensorflow"}),
    ]


def _loaded(*words: str) -> list[str]:
    output = run([sys.executable, "-c", _PROBE, *words]).output
    names: list[str] = json.loads(output.splitlines()[-1])
    return names


def _imports(what: str, loaded: list[str], unwanted: set[str]) -> Row:
    too_many = float(len(unwanted.intersection(loaded)))
    text = "none" if len(unwanted) > 1 else f"no {next(iter(unwanted))}"
    return Row(
        what,
        ", ".join(loaded) or "none",
        values=(too_many,),
        is_ratio=False,
        target=Target("<=", 0, text=text),
    )
