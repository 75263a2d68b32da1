"""Processes of one machine take shards as they get free; nobody gets one twice."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dataprep.plugins import load_sink
from dataprep.sinks import ShardName
from dataprep.system.shared_bytes import Place
from dataprep_pipelines.dealer import Dealer, dealing
from tests.conftest import Cli, Made, leftovers
from tests.steering import add_distribution

SHARDS = tuple(ShardName("train", number, 300) for number in range(300))

_TAKE = """
import sys
from dataprep.system.shared_bytes import Place
from dataprep_pipelines.dealer import Dealer
for position in Dealer(Place(*sys.argv[1:]), tuple(range(300))).deal():
    print(position)
"""


def test_several_processes_get_every_shard_once() -> None:
    with dealing(SHARDS) as dealer:
        command = [sys.executable, "-c", _TAKE, dealer.place.path, dealer.place.nonce]
        processes = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(3)]
        taken = [process.communicate()[0].split() for process in processes]
    assert sorted(int(number) for each in taken for number in each) == list(range(300))


def test_a_dealer_whose_launcher_is_gone_deals_nothing() -> None:
    with dealing(SHARDS) as dealer:
        pass
    assert list(Dealer(dealer.place, SHARDS).deal()) == []


def test_another_file_under_the_launcher_s_number_is_left_alone(tmp_path: Path) -> None:
    with dealing(SHARDS) as dealer:
        pass
    other = tmp_path / "other"
    other.write_bytes(b"somebody's own")
    assert list(Dealer(Place(str(other), dealer.place.nonce), SHARDS).deal()) == []
    assert other.read_bytes() == b"somebody's own"


_SLOW_SINK = """
import os, time
from pathlib import Path
from dataprep.sinks.tfrecord import TFRecordSink

class SlowSink(TFRecordSink):
    name = "slow"

    def open(self, paths, info):
        # The first process to come waits until only its own shards are missing.
        notes = Path(os.environ["SLOW_SINK"])
        (notes / f"{os.getpid()}-{time.monotonic_ns()}").touch()
        try:
            os.close(os.open(notes / "first", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return super().open(paths, info)
        end = time.monotonic() + 60
        done = Path(os.environ["SLOW_SINK_COMMITS"])
        while len(list(done.glob("[!.]*.json"))) < 11 and time.monotonic() < end:
            time.sleep(0.01)
        return super().open(paths, info)
"""


@pytest.fixture
def slow_sink(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    site = tmp_path / "site"
    add_distribution(site, "slow-sink", "1", "[dataprep.sinks]\nslow = slow_sink:SlowSink\n")
    (site / "slow_sink.py").write_text(_SLOW_SINK)
    notes = tmp_path / "notes"
    notes.mkdir()
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("PYTHONPATH", str(site), prepend=os.pathsep)
    monkeypatch.setenv("SLOW_SINK", str(notes))
    monkeypatch.setenv("SLOW_SINK_COMMITS", str(tmp_path / "out" / ".dataprep" / "commits"))
    load_sink.cache_clear()
    yield notes
    load_sink.cache_clear()


def test_one_slow_shard_keeps_a_process_from_no_other(
    cli: Cli,
    tiny: Made,
    tmp_path: Path,
    slow_sink: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With fixed portions, the other shards of the waiting process would never be made."""
    monkeypatch.setattr("dataprep_pipelines.runners.share.THREADS_PER_PROCESS", 1)
    out = tmp_path / "out"
    counts = ("--num_shards", "train=9,validation=3")
    result = cli(*tiny.raw.command(out), *counts, "--sink", "slow", "--workers", 2)
    assert result.code == 0, result
    assert leftovers(out) == []
    per_process = [note.name.partition("-")[0] for note in slow_sink.iterdir()]
    makers = sorted(per_process.count(name) for name in set(per_process) - {"first"})
    assert makers == [1, 11]
