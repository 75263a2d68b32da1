"""``dataprep doctor``: what it says of a job, of storage and of limits, and what it keeps."""

from __future__ import annotations

import json
import re
import resource
from pathlib import Path

import pytest

import dataprep
from dataprep.system.filesystems import filesystem_of
from tests.conftest import Cli, Result
from tests.staging.conftest import outside

__all__ = ["outside"]

pytestmark = pytest.mark.usefixtures("outside")


def told(result: Result, topic: str) -> list[str]:
    assert (result.code, result.err) == (0, ""), result
    return [line for line in result.out.splitlines() if line.startswith(topic)]


def test_it_says_what_a_report_needs_and_nothing_else_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm = {"JOB_ID": "7", "JOB_NODELIST": "n[0-2]", "NNODES": "3", "NODEID": "2", "PROCID": "2"}
    monkeypatch.setenv("DATAPREP_RENDEZVOUS_SECRET", "hush")
    monkeypatch.setenv("DATAPREP_SCRATCH", str(tmp_path / "absent"))
    for name, value in {**slurm, "STEP_ID": "0", "STEP_NUM_NODES": "3"}.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    process = Cli.start("doctor", tmp_path, cwd=tmp_path, preexec_fn=_limited)
    result = Cli.done(process)
    kind = filesystem_of(tmp_path)
    assert told(result, f"dataprep {dataprep.__version__}")
    (packages,) = told(result, "packages: ")
    assert re.search(r"\bpyarrow \d+\..*\bxxhash \d", packages)
    lines = told(result, f"storage: {tmp_path}: ")
    assert len(lines) == 2  # as PATH and as the current one
    assert all(re.fullmatch(rf".*: {kind}, [\d.]+ [GT]B free", line) for line in lines)
    absent = f"storage: {tmp_path}/absent, scratch by $DATAPREP_SCRATCH: {kind}, not there, or not"
    assert told(result, absent)
    (job,) = told(result, "scheduler: ")
    assert job.startswith("scheduler: slurm-7 on n0, n1, n2; this is ")
    assert job.endswith(", node 2 of 3, known from Slurm")
    assert told(result, "RLIMIT_DATA: 4,000,000,000, at most 4,000,000,000")
    assert told(result, "RLIMIT_NOFILE: 64, at most 64")
    assert told(result, "RLIMIT_AS: unlimited, at most unlimited")
    assert told(result, "cores: ")
    assert told(result, "bytes of memory: ")
    assert "hush" not in result.out
    wrong = "\n".join(told(result, "wrong: "))
    assert f"wrong: $DATAPREP_SCRATCH names {tmp_path}/absent, where this user cannot" in wrong
    assert "wrong: only 64 files may be open at once: ulimit -n 1024" in wrong
    assert "is bounded to 4.0 GB: ulimit -d unlimited" in wrong


def _limited() -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (4_000_000_000, 4_000_000_000))
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))


def test_json_has_a_line_for_each_thing_that_is_wrong(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATAPREP_SCRATCH", str(tmp_path))
    monkeypatch.setattr("dataprep.cli.doctor.requires", lambda name: ["click>=8", "numpy<1", "nil"])
    found = json.loads(cli("doctor", "--json", tmp_path / "absent").out)
    assert found["problems"] == [
        f"numpy is {found['packages']['numpy']}: pip install 'numpy<1'",
        "nil is missing: pip install 'nil'",
        f"{tmp_path}/absent is not there, or not for this user: check the path",
    ]
    assert found["packages"]["nil"] is None
    place = found["storage"][2]
    assert (place["path"], place["own"]) == (str(tmp_path), True)
    monkeypatch.setattr("dataprep.cli.doctor.requires", lambda name: ["absent; extra == 'more'"])
    assert told(cli("doctor", tmp_path), "nothing wrong was found")


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({}, "scheduler: none; "),
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[0-"}, "scheduler: $SLURM_JOB_NODELIST is"),
    ],
)
def test_a_scheduler_that_is_absent_or_odd_is_no_error(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], said: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    result = cli("doctor")
    (line,) = told(result, "scheduler: ")
    assert line.startswith(said)
    assert told(result, f"storage: {Path.cwd()}: ")
