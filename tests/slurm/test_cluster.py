"""The rig itself: what the other tests here believe of it."""

from __future__ import annotations

import pytest

from tests.slurm.cluster import NODES, Cluster

pytestmark = pytest.mark.slurm


def test_every_node_has_a_name_and_a_scratch_of_its_own(cluster: Cluster) -> None:
    script = """#!/bin/sh
    #SBATCH --nodes=4
    srun sh -c 'hostname > "$DATAPREP_SCRATCH/name"; exit 3'
    """.replace("    ", "")
    ended = cluster.wait(cluster.submit(script))
    assert ended.code == 3
    for node in NODES:
        assert cluster.listing(node) == ["./name"]
        assert cluster.on(node, 'cat "$DATAPREP_SCRATCH/name"').out == f"{node}\n"
    assert list(cluster.scratch.iterdir()) == []  # of the machine
