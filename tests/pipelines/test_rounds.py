"""What fails is tried again when the others are done; and a run in which all fails is stopped."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dataprep.datasets import ScanUnit
from dataprep.jobs.output.index_parts import forget_part, read_part
from dataprep_pipelines import run
from dataprep_schemas.state import IndexPart
from tests.conftest import Cli, Made
from tests.faults.conftest import commits, eventually
from tests.steering import Steer, check_same, install_sink, remains, sink_in

SHARD = "train-00003-of-00006"
SHARDS = 8  # of the tiny set
SINK = ("--sink", "steered")


@pytest.fixture(autouse=True)
def _steered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(run, "_PAUSES", (0.0, 0.0))
    (tmp_path / "site").mkdir()
    with sink_in(install_sink(tmp_path / "site"), monkeypatch):
        yield


@pytest.mark.parametrize(
    ("error", "failures", "made", "workers"),
    [("SinkError", 2, True, 1), ("SourceError", 2, True, 3), ("SinkError", 3, False, 3)],
)
def test_a_shard_is_tried_three_times(
    cli: Cli, tiny: Made, tmp_path: Path, error: str, failures: int, made: bool, workers: int
) -> None:
    out = tmp_path / "out"
    steer = Steer.of(out)
    steer.order(SHARD, error, times=failures)
    result = cli(*tiny.command(out, *SINK, "--workers", workers))
    assert len(steer.obeyed(SHARD)) == min(failures, 3)
    assert "trying 1 failed shard again" in result.out
    if made:
        assert result.code == 0, result
        check_same(tiny, out)
    else:
        assert result.code == 1
        assert f"{SHARD} failed 3 times: the sink's own words; finished shards" in result.error
        assert len(commits(out)) == SHARDS - 1
        assert remains(out) == []


def test_an_error_that_is_not_of_one_shard_stops_the_run(
    cli: Cli, tiny: Made, tmp_path: Path
) -> None:
    steer = Steer.of(tmp_path / "out")
    steer.order("train-00000-of-00006", "PipelineError", times=3)
    result = cli(*tiny.command(tmp_path / "out", *SINK))
    assert result.code == 1
    assert result.error.startswith("dataprep: error: the sink's own words")
    assert len(steer.obeyed("train-00000-of-00006")) == 1
    assert commits(tmp_path / "out") == []


def test_a_run_in_which_more_fails_than_is_made_is_stopped(
    cli: Cli, tiny: Made, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    steer = Steer.of(out)
    names = [f"train-{number:05d}-of-00012" for number in range(12)]
    for name in names[:8]:
        steer.order(name, "SinkError", times=9)
    steer.order(names[8], "wait")

    def go_when_stopped() -> None:
        eventually(lambda: any(len(path.stem) == 16 for path in failure_files(out)))
        steer.go()

    watcher = threading.Thread(target=go_when_stopped)
    watcher.start()
    words = [word for word in tiny.command(out, *SINK) if word != "train=6,validation=2"]
    words.insert(words.index("--num_shards") + 1, "train=12,validation=1")
    result = cli(*words)
    watcher.join()
    assert result.code == 1
    assert "stopped, since more shards fail than are made (8 and 0); train-00000" in result.error
    assert all(len(steer.obeyed(name)) == 1 for name in names[:9])
    assert not any(steer.obeyed(name) for name in names[9:])
    assert remains(out) == []


@pytest.mark.parametrize("times", [2, 3])
def test_what_another_run_forgets_of_the_index_is_scanned_again(
    cli: Cli, tiny: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """With ``--overwrite`` and the same ``--index_dir`` it begins by forgetting all of it."""
    scanned: list[str] = []

    def and_forget(index: Path, unit: ScanUnit) -> IndexPart | None:
        scanned.append(unit.name)
        if scanned.count(unit.name) in range(2, 2 + times):  # at first nothing is there
            forget_part(index, unit)
        return read_part(index, unit)

    monkeypatch.setattr(run, "read_part", and_forget)
    result = cli(*tiny.command(tmp_path / "out"))
    if times < 3:
        assert result.code == 0, result
        check_same(tiny, tmp_path / "out")
    else:
        assert "the engine ended but " in result.error
        assert " was not scanned; run the same command again" in result.error


def failure_files(out: Path) -> list[Path]:
    """Of the run as a whole (``failure-`` and eight digits), or of a shard."""
    return list((out / ".dataprep").glob("failure-*.json"))
