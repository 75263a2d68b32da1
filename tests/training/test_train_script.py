"""``examples/train_resnet.py``, killed in mid-epoch and gone on with by other numbers of ranks.

Steps behind the last checkpoint are done again, by design: the model is that of the checkpoint. So
what counts of a run that was killed are its steps up to the checkpoint that the next one begins at.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import psutil
import pytest

import dataprep
from tests.conftest import Made

SCRIPT = Path(__file__).parents[2] / "examples" / "train_resnet.py"
BATCH = 2

pytestmark = pytest.mark.thorough


class Training:
    """A run of the script, of several ranks of this machine."""

    def __init__(self, place: Path, data: Path, ranks: int, *options: str, every: int = 1) -> None:
        self.checkpoint, self.keys = place / "last.pt", place / "keys"
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        launcher = ["-m", "torch.distributed.run", f"--nproc_per_node={ranks}"]
        launcher += [f"--rdzv_endpoint=127.0.0.1:{port}"]
        words = [str(SCRIPT), str(data), "--checkpoint", str(self.checkpoint)]
        words += ["--log_keys", str(self.keys), "--every", str(every), "--epochs", "1"]
        words += ["--batch_size", str(BATCH), "--size", "32", "--depth", "26", *options]
        self.process = subprocess.Popen(
            [sys.executable, *(launcher if ranks > 1 else []), *words],
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def finish(self) -> int:
        """To the end; the code that it ends with."""
        said, _ = self.process.communicate(timeout=300)
        assert "Traceback" not in said or self.process.returncode == 1, said
        return self.process.returncode

    def kill_behind(self, step: int) -> None:
        """Kill all of it when some rank is behind a step, and a checkpoint is there."""
        until = time.monotonic() + 200
        while self.steps() < step or not self.checkpoint.exists():
            assert self.process.poll() is None, self.process.communicate()[0]
            assert time.monotonic() < until
            time.sleep(0.02)
        # The launcher gives every rank a session of its own, and cannot stop them any more.
        launcher = psutil.Process(self.process.pid)
        for process in [launcher, *launcher.children(recursive=True)]:
            process.kill()
        self.process.communicate()

    def steps(self) -> int:
        """How many steps some rank has finished."""
        lines = self.keys.read_text().splitlines() if self.keys.exists() else []
        return max((int(line.split()[0]) for line in lines[:-1]), default=0)


def consumed(place: Path) -> tuple[int, int]:
    """Step and samples of a checkpoint."""
    import torch  # type: ignore[import-not-found,unused-ignore]

    state = torch.load(place / "last.pt", weights_only=True)
    return state["step"], state["data"]["consumed"]


def sequence(keys: Path) -> list[str]:
    """The keys in global order; of a step that was done twice, the last time."""
    seen: dict[int, dict[int, list[str]]] = defaultdict(dict)
    sizes: dict[int, int] = {}
    for line in keys.read_text().splitlines():
        step, rank, ranks, *found = line.split()
        if sizes.get(int(step), int(ranks)) != int(ranks):
            seen[int(step)].clear()
        sizes[int(step)] = int(ranks)
        seen[int(step)][int(rank)] = found
    found_all: list[str] = []
    for number in sorted(seen):
        assert len(seen[number]) == sizes[number], f"step {number}"
        for together in zip(*(seen[number][at] for at in range(sizes[number])), strict=True):
            found_all += together
    return found_all


@pytest.fixture(scope="module")
def whole(photos: Made, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The keys that a run of one rank sees that is never stopped."""
    pytest.importorskip("torch", reason="needs torch")
    place = tmp_path_factory.mktemp("whole")
    assert Training(place, photos.out, 1).finish() == 0
    found = sequence(place / "keys")
    records = dataprep.open(photos.out)
    assert sorted(found) == sorted(example.key for example in records), "every key once"
    return found


def test_killed_and_gone_on_with_by_one_and_by_three(
    photos: Made, whole: list[str], tmp_path: Path
) -> None:
    Training(tmp_path, photos.out, 2).kill_behind(3)
    step, samples = consumed(tmp_path)
    assert samples == 2 * BATCH * step
    assert samples < len(whole)
    one = Training(tmp_path, photos.out, 1)
    one.kill_behind(step + 2)
    step, samples = consumed(tmp_path)
    assert samples < len(whole) - 3 * BATCH, "something is left"
    assert Training(tmp_path, photos.out, 3).finish() == 0
    found = sequence(tmp_path / "keys")
    assert found == whole[: len(found)]
    assert len(whole) - len(found) < 3 * BATCH, "the tail that uneven=drop leaves out"


def test_a_signal_ends_it_behind_a_checkpoint(
    photos: Made, whole: list[str], tmp_path: Path
) -> None:
    run = Training(tmp_path, photos.out, 1, every=10**6)
    until = time.monotonic() + 200
    while run.steps() < 1:
        assert time.monotonic() < until
        time.sleep(0.02)
    run.process.send_signal(signal.SIGUSR1)
    assert run.finish() == 75
    step, samples = consumed(tmp_path)
    assert (step, samples) == (10, 10 * BATCH)
    assert Training(tmp_path, photos.out, 1).finish() == 0
    assert sequence(tmp_path / "keys") == whole
