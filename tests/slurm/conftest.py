"""One cluster a worker, and an empty scratch for every test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.slurm.cluster import Cluster, NoSlurmError, slurm_cluster


@pytest.fixture(scope="session")
def running_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    root = tmp_path_factory.mktemp("slurm", numbered=True)
    try:
        with slurm_cluster(root) as cluster:
            yield cluster
    except NoSlurmError as reason:
        pytest.skip(f"no Slurm: {reason}")


@pytest.fixture
def cluster(running_cluster: Cluster) -> Cluster:
    running_cluster.wipe()
    return running_cluster
