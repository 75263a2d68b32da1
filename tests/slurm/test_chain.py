"""The job scripts of docker/jobs: from raw archives to a reader on every node."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Made, hashes
from tests.slurm.cluster import NODES, Cluster

JOBS = Path(__file__).parents[2] / "docker" / "jobs"
_READ = re.compile(
    r"(n\d): read (\d+) records of train in \d shards, (\d+) records of validation in \d shards; "
)


@pytest.mark.slurm
@pytest.mark.parametrize("share", ["", "--share node"])
def test_every_node_reads_every_record_of_its_share(
    cluster: Cluster, tiny: Made, tmp_path: Path, share: str
) -> None:
    out = tmp_path / "out"
    job = cluster.submit(
        (JOBS / "chain.sbatch").read_text(),
        *("--nodes=3", "--cpus-per-task=1", "--time=10"),
        arguments=tiny.raw.options,
        RAW=str(tiny.raw.path),
        OUT=str(out),
        JOBS=str(JOBS),
        SHARE=share,
    )
    ended = cluster.wait(job, seconds=120)
    assert ended.code == 0, ended.out
    assert hashes(out) == tiny.files
    read = {name: (int(train), int(rest)) for name, train, rest in _READ.findall(ended.out)}
    assert len(read) == 3, ended.out
    assert set(read.values()) == {(8 if share else 24, 6)}, ended.out
    for node in NODES:
        assert cluster.listing(node) == []


def test_a_login_node_is_spared(tiny: Made, tmp_path: Path) -> None:
    words = tmp_path / "words"
    fake = tmp_path / "dataprep"
    fake.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >{words}\n')
    fake.chmod(0o755)
    subprocess.run(
        [JOBS / "login-node.sh", *tiny.raw.options],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "RAW": "raw", "OUT": "out"},
        check=True,
    )
    said = words.read_text().split()
    assert said[:5] == ["imagenet", "--raw_data_dir", "raw", "--local_scratch_dir", "out"]
    assert said[5:9] == ["--workers", "2", "--io_limit", "100MB"]
    assert said[9:] == list(tiny.raw.options)


@pytest.mark.parametrize("name", ["login-node.sh", "dask.sbatch", "chain.sbatch", "train.sbatch"])
def test_shellcheck_finds_nothing(name: str) -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed")
    done = subprocess.run(["shellcheck", "--norc", JOBS / name], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
