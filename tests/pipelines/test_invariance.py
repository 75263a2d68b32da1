"""The same bytes from any number of workers, any engine, any raw layout, any number of stops."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from dataprep.errors import StoppedError
from dataprep_pipelines.run import RoundWatch
from dataprep_pipelines.runners import engine
from dataprep_pipelines.runners.local import processes_for
from dataprep_schemas import imagenet_classes
from tests.conftest import BEAM, Cli, Made, Raw, everyday, hashes, leftovers

# --- workers and engines ---


# The set that the others are compared with is made by some threads already.
@pytest.mark.parametrize("workers", everyday([5], [1, 3]))
def test_workers_do_not_show(cli: Cli, photos: Made, tmp_path: Path, workers: int) -> None:
    """One thread, some threads, and two processes of them."""
    assert processes_for(workers) == (2 if workers == 5 else 1)
    result = cli(*photos.command(tmp_path, "--workers", workers))
    assert result.code == 0, result
    assert hashes(tmp_path) == photos.files
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize(
    "beam",
    [
        ("--", "--direct_running_mode=multi_threading", "--direct_num_workers=2"),
        pytest.param(  # wholly in Beam: an element a shard, its own processes
            (
                *("--runner", "direct", "--", "--direct_num_workers=4"),
                "--direct_running_mode=multi_processing",
            ),
            marks=pytest.mark.thorough,
        ),
        pytest.param(("--runner", "FnApiRunner"), marks=pytest.mark.thorough),
    ],
)
def test_beam_s_own_options_do_not_show(
    cli: Cli, photos: Made, tmp_path: Path, beam: tuple[str, ...]
) -> None:
    result = cli(*photos.command(tmp_path, "--workers", 2, *beam))
    assert result.code == 0, result
    assert hashes(tmp_path) == photos.files


@pytest.mark.thorough
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
    cli: Cli, photos: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(watch: RoundWatch) -> None:
        watch.count()
        if watch.made:
            raise StoppedError("stopped by the test", 2)

    monkeypatch.setattr(engine, "_WATCH_SECONDS", 0.001)
    monkeypatch.setattr("dataprep_pipelines.run._LOOKING", 1.0)
    monkeypatch.setattr(RoundWatch, "look", stop)
    shards = ("--num_shards", "train=5,validation=2")
    command = photos.command(tmp_path, "--workers", 1, *shards, *BEAM)
    stops = 0
    while (result := cli(*command)).code:
        assert result.code == 130, result
        stops += 1
        left = [name for name in leftovers(tmp_path) if not name.endswith("failure.json")]
        assert left == []
    assert stops
    assert hashes(tmp_path) == photos.files
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize(
    ("lost", "said"), [(0, "8 shards already there, nothing"), (1, "7 shards already there, 1 to")]
)
def test_finished_shards_are_left_alone(
    cli: Cli, tiny: Made, tmp_path: Path, lost: int, said: str
) -> None:
    out = tiny.copy(tmp_path / "out")
    shards = sorted(out.glob("*/*-of-*"))
    for path in shards[:lost]:
        path.unlink()
    before = {path: path.stat() for path in shards[lost:]}
    result = cli(*tiny.command(out))
    assert said in result.out, result
    assert {path: path.stat() for path in before} == before
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


def test_only_the_classes_that_changed_are_scanned_and_then_refused_by_name(
    cli: Cli, tiny: Made, tmp_path: Path
) -> None:
    raw, out = tiny.raw.copy(tmp_path / "raw"), tmp_path / "out"
    assert cli(*raw.command(out)).code == 0
    parts = {path: path.stat() for path in (out / ".dataprep" / "index").iterdir()}
    folder = sorted((raw.path / "train").iterdir())[1]
    image = next(folder.iterdir())
    (folder / f"{folder.name}_99.JPEG").write_bytes(image.read_bytes())
    result = cli(*raw.command(out))
    names = [name for name, _ in imagenet_classes()]
    first = names.index(folder.name) // 16 * 16
    unit = f"train-{names[first]}-{names[first + 15]}"
    assert f"the raw data of {unit} changed" in result.error
    changed = {path.stem for path, before in parts.items() if path.stat() != before}
    assert changed == {unit} < {path.stem for path in parts}
    assert hashes(out) == tiny.files
