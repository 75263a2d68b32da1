"""Several processes that write one shard at the same moment: one shard comes out, and nothing else.

An engine gives a shard away again when it takes a worker for dead that is not.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Cli, Made
from tests.faults.conftest import commits, eventually
from tests.steering import Steer, check_same, install_sink, sink_in

_WRITER = """
import pickle, sys
from pathlib import Path
from dataprep.jobs.shard import write_shard

places, job = pickle.loads(Path(sys.argv[1]).read_bytes())
shard = next(shard for shard in job.shard_names() if str(shard) == sys.argv[2])
write_shard(job, shard, pool=None, window=8, stop=lambda: False)
"""
WRITERS = 4
HELD, SHARD = "train-00000-of-00006", "train-00003-of-00006"


@pytest.fixture(autouse=True)
def _steered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "site").mkdir()
    with sink_in(install_sink(tmp_path / "site"), monkeypatch):
        yield


def test_a_shard_written_by_several_at_once_is_there_once(
    cli: Cli, tiny: Made, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    steer = Steer.of(out)
    steer.order(HELD, "wait")
    steer.order(SHARD, "wait", record=3, times=WRITERS)
    launcher = cli.start(*tiny.command(out, "--sink", "steered"))
    eventually(lambda: steer.obeyed(HELD))
    (task,) = (out / ".dataprep").glob("task-*-write.pickle")
    writers = [
        subprocess.Popen([sys.executable, "-c", _WRITER, task, SHARD]) for _ in range(WRITERS)
    ]
    eventually(lambda: len(steer.obeyed(SHARD)) == WRITERS)
    assert len(list(out.glob(f"train/.{SHARD}.*.partial"))) == WRITERS
    assert commits(out) == []
    steer.go()
    assert [writer.wait() for writer in writers] == [0] * WRITERS
    result = cli.done(launcher)
    assert result.code == 0, result
    assert steer.made()[SHARD] >= {writer.pid for writer in writers}
    check_same(tiny, out)
