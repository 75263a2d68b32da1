"""The same bytes from any number of workers, any engine, any raw layout, any number of stops."""

from __future__ import annotations

import io
import os
import re
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dataprep.errors import DatasetError, StoppedError
from dataprep.images import Recipe
from dataprep.jobs.commit import CommitRecord
from dataprep.jobs.job import Job
from dataprep.jobs.prepare import prepare
from dataprep.jobs.request import MaxBad, Request
from dataprep_pipelines.run import BeamEngine
from dataprep_pipelines.runners import Engine
from dataprep_pipelines.runners.local import processes_for
from tests.conftest import Cli, Made, Raw, hashes, leftovers


@dataclass
class Recorder:
    """A reporter that keeps what it is told, and stops the run after so many shards."""

    stop_after: int | None = None
    lines: list[str] = field(default_factory=list)
    to_scan: int = 0
    found: int = 0
    made: int = 0

    def line(self, text: str) -> None:
        self.lines.append(text)

    def scanning(self, done: int, total: int) -> None:
        self.to_scan = total

    def writing(self, job: Job, committed: Sequence[CommitRecord]) -> None:
        self.found = len(committed)

    def progress(self, new: Sequence[CommitRecord], under_way: int) -> None:
        self.made += len(new)
        if self.stop_after is not None and self.made >= self.stop_after:
            raise StoppedError("stopped by the test", 2)

    def finished(self) -> None:
        pass


def request(raw: Path, out: Path, **changes: object) -> Request:
    fields: dict[str, object] = {"num_shards": {"train": 6, "validation": 2}, **changes}
    return Request(
        dataset="imagenet",
        raw=raw,
        out=out,
        recipe=Recipe(),
        max_bad=MaxBad(),
        **fields,  # type: ignore[arg-type]
    )


# --- workers and engines ---


@pytest.mark.parametrize("workers", [1, 3])
def test_threads_do_not_show(cli: Cli, photos: Made, tmp_path: Path, workers: int) -> None:
    result = cli(*photos.command(tmp_path, "--workers", workers))
    assert result.code == 0, result
    assert hashes(tmp_path) == photos.files
    assert leftovers(tmp_path) == []


def test_worker_processes_do_not_show(cli: Cli, photos: Made, tmp_path: Path) -> None:
    assert processes_for(5) == 2
    result = cli(*photos.command(tmp_path, "--workers", 5))
    assert result.code == 0, result
    assert hashes(tmp_path) == photos.files
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize(
    "beam",
    [
        ("--", "--direct_running_mode=multi_threading", "--direct_num_workers=2"),
        ("--runner", "FnApiRunner"),
    ],
)
def test_beam_s_own_options_do_not_show(
    cli: Cli, photos: Made, tmp_path: Path, beam: tuple[str, ...]
) -> None:
    result = cli(*photos.command(tmp_path, "--workers", 2, *beam))
    assert result.code == 0, result
    assert hashes(tmp_path) == photos.files


def test_hash_seed_and_process_do_not_show(cli: Cli, photos: Made, tmp_path: Path) -> None:
    seeds = ("1", "2")
    processes = [
        cli.start(*photos.command(tmp_path / seed), env={**os.environ, "PYTHONHASHSEED": seed})
        for seed in seeds
    ]
    assert [cli.done(process).code for process in processes] == [0, 0]
    for seed in seeds:
        assert hashes(tmp_path / seed) == photos.files


# --- stops ---


def test_stopping_again_and_again_does_not_show(
    photos: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dataprep_pipelines.runners.engine._WATCH_SECONDS", 0.001)
    shards = {"train": 5, "validation": 2}
    wanted = request(photos.raw.path, tmp_path, num_shards=shards)
    stops = 0
    while not (tmp_path / "manifest.json").exists():
        try:
            prepare(wanted, BeamEngine(Engine(1)), Recorder(stop_after=1))
        except StoppedError:
            stops += 1
            left = [name for name in leftovers(tmp_path) if not name.endswith("failure.json")]
            assert left == []
    assert stops
    assert hashes(tmp_path) == photos.files
    assert leftovers(tmp_path) == []


def test_finished_shards_are_not_made_again(tiny: Made, tmp_path: Path) -> None:
    out = tiny.copy(tmp_path / "out")
    (out / "train" / "train-00003-of-00006").unlink()
    recorder = Recorder()
    prepare(request(tiny.raw.path, out), BeamEngine(Engine(1)), recorder)
    assert any(re.search(r"7 shards .* 1 to make", line) for line in recorder.lines)
    assert (recorder.found, recorder.made) == (7, 1)
    assert hashes(out) == tiny.files


def test_a_finished_set_is_left_alone(tiny: Made, tmp_path: Path) -> None:
    out = tiny.copy(tmp_path / "out")
    recorder = Recorder()
    prepare(request(tiny.raw.path, out), BeamEngine(Engine(1)), recorder)
    assert any(re.search(r"8 shards .*already there", line) for line in recorder.lines)
    assert recorder.made == 0
    assert hashes(out) == tiny.files


# --- raw layouts ---


def class_tars(raw: Path) -> dict[str, bytes]:
    with tarfile.open(raw / "ILSVRC2012_img_train.tar") as archive:
        return {
            member.name.removesuffix(".tar"): reader.read()
            for member in archive
            if (reader := archive.extractfile(member)) is not None
        }


def unpack(content: bytes, folder: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        archive.extractall(folder, filter="data")


def as_tree(raw: Path, form: Path) -> None:
    for synset, content in class_tars(raw).items():
        unpack(content, form / "train" / synset)
    unpack((raw / "ILSVRC2012_img_val.tar").read_bytes(), form / "validation")


def as_class_tars(raw: Path, form: Path) -> None:
    (form / "train").mkdir(parents=True)
    for synset, content in class_tars(raw).items():
        (form / "train" / f"{synset}.tar").write_bytes(content)
    os.link(raw / "ILSVRC2012_img_val.tar", form / "ILSVRC2012_img_val.tar")


@pytest.mark.parametrize("unpacked", [as_tree, as_class_tars])
def test_the_raw_layout_does_not_show(
    cli: Cli, photos: Made, tmp_path: Path, unpacked: Callable[[Path, Path], None]
) -> None:
    unpacked(photos.raw.path, tmp_path / "raw")
    raw = Raw(tmp_path / "raw", photos.raw.options)
    result = cli(*raw.command(tmp_path / "out"))
    assert result.code == 0, result
    assert hashes(tmp_path / "out") == photos.files


# --- the index ---


def test_only_the_class_that_changed_is_scanned_and_then_refused_by_name(
    tiny: Made, tmp_path: Path
) -> None:
    raw = tiny.raw.copy(tmp_path / "raw").path
    prepare(request(raw, tmp_path / "out"), BeamEngine(Engine(1)), Recorder())
    folder = sorted((raw / "train").iterdir())[1]
    image = next(folder.iterdir())
    (folder / f"{folder.name}_99.JPEG").write_bytes(image.read_bytes())
    recorder = Recorder()
    with pytest.raises(DatasetError, match=f"the raw data of train-{folder.name} changed"):
        prepare(request(raw, tmp_path / "out"), BeamEngine(Engine(1)), recorder)
    assert recorder.to_scan == 1
    assert hashes(tmp_path / "out") == tiny.files
