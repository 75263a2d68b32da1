"""An output directory with damaged, misplaced or forged files: it heals, or one line says why not.

Nothing outside of the directory is written or deleted, and no file that is somebody else's.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import dataprep
from dataprep.errors import DatasetError, SinkError
from dataprep.jobs.running import journal as journal_module
from dataprep.sealed.set import SealedSet
from dataprep.system.state_files import write_state
from dataprep_schemas.state import MergeJournal
from tests.cli.test_append import CUT, picture
from tests.cli.test_compact import grow
from tests.conftest import Cli, Made, Raw, everyday, hashes, leftovers, make, rows_of, write_folders
from tests.finished_sets import flip
from tests.forging import forge

# One of every kind of file that a run leaves in OUT.
KEPT = (
    *("manifest.json", "records.parquet", "train/train-00002-of-00006"),
    *("index/train/train-00002-of-00006", ".dataprep/job.json", ".dataprep/order/summary.json"),
    *(".dataprep/order/train.json", ".dataprep/order/train-00000.parquet"),
    *(".dataprep/index/validation.json", ".dataprep/index/validation.parquet"),
    *(".dataprep/commits/train-00002-of-00006.json",),
    *(".dataprep/commits/train-00002-of-00006.parquet",),
)


def make_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES: dict[str, Callable[[Path], object]] = {
    "flipped": flip,
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-7]),
    "removed": Path.unlink,
}


def cases(names: Sequence[str], everyday: Collection[str]) -> list[Any]:
    """Each damage of each file; every day a turned bit of some."""
    return [
        pytest.param(name, damage, id=f"{name}-{damage}", marks=marks)
        for damage in DAMAGES
        for name in names
        for marks in [() if damage == "flipped" and name in everyday else pytest.mark.thorough]
    ]


@pytest.mark.parametrize("sealed", [False, pytest.param(True, marks=pytest.mark.thorough)])
# Every day all state files in one set: tests/faults/test_torn.py.
@pytest.mark.parametrize(
    ("name", "damage"), cases(KEPT, ["manifest.json", "records.parquet", ".dataprep/job.json"])
)
def test_any_kept_file_heals_or_is_overwritten(
    cli: Cli, tiny: Made, tmp_path: Path, name: str, damage: str, sealed: bool
) -> None:
    out = tiny.copy(tmp_path / "out")
    if not sealed:
        (out / "manifest.json").unlink()
    if (out / name).exists():
        DAMAGES[damage](out / name)
    (out / "mine.txt").write_text("kept")
    again = cli(*tiny.command(out))
    assert "Traceback" not in again.err
    if again.code:
        assert "--overwrite" in again.error
        result = cli(*tiny.command(out, "--overwrite"))
        assert result.code == 0, result
    elif cli("verify", out).code:  # a rerun reads no shard that is sealed
        assert cli("verify", out, "--discard").out.count("deleted: ") == 1
        assert cli(*tiny.command(out)).code == 0
    assert (out / "mine.txt").read_text() == "kept"
    (out / "mine.txt").unlink()
    assert hashes(out) == tiny.files
    assert leftovers(out) == []


def test_what_knows_nothing_any_more_can_be_overwritten(
    cli: Cli, tiny: Made, tmp_path: Path
) -> None:
    out = tiny.copy(tmp_path / "out")
    (out / "manifest.json").write_text("{")
    (out / ".dataprep" / "job.json").write_text("{")
    shutil.rmtree(out / ".dataprep" / "commits")
    assert cli(*tiny.command(out, "--overwrite")).code == 0
    assert hashes(out) == tiny.files


def test_a_manifest_of_another_program_is_no_mark_of_ours(
    cli: Cli, tiny: Made, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "manifest.json").write_text('{"name": "my web app"}')
    (out / "records.parquet").write_text("mine")
    before = hashes(out)
    for name in ("records.parquet", "manifest.json"):
        error = cli(*tiny.command(out, "--overwrite")).error
        assert f"{name} is in the way" in error or "manifest.json is in the way" in error
        assert "use --overwrite" not in error
        assert hashes(out) == before
        before.pop("records.parquet", None)
        (out / "records.parquet").unlink(missing_ok=True)


def test_a_directory_of_somebody_else_stops_before_anything_is_deleted(
    cli: Cli, tiny: Made, tmp_path: Path
) -> None:
    out = tiny.copy(tmp_path / "out")
    shard = out / "train" / "train-00002-of-00006"
    make_directory(shard)
    (shard / "notes.txt").write_text("mine")
    before = hashes(out)
    error = cli(*tiny.command(out, "--overwrite")).error
    assert f"{shard} is a directory, where a file" in error
    assert "nothing was deleted" in error
    assert hashes(out) == before


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file of the user, outside of every output directory."""
    path = tmp_path / "victim" / "notes-00000-of-00001"
    path.parent.mkdir()
    path.write_text("mine")
    return path


# Those that are left out are no counts for the same reason as the last, to the same reader.
@pytest.mark.parametrize(
    "counts",
    everyday(
        [{"../../victim/notes": 1}, {"a": 10**12}], [{"/victim/notes": 1}, {"a": True}, [], None]
    ),
    ids=json.dumps,
)
def test_a_forged_job_file_deletes_nothing(
    cli: Cli, tiny: Made, tmp_path: Path, victim: Path, counts: Any
) -> None:
    out = tiny.copy(tmp_path / "out")
    forge(out / ".dataprep" / "job.json", lambda it: it["identity"].update(num_shards=counts))
    (out / "manifest.json").unlink()
    assert ".dataprep/job.json: " in cli("status", out).error
    assert cli(*tiny.command(out)).code == 1
    assert cli(*tiny.command(out, "--overwrite")).code == 0
    assert victim.read_text() == "mine"
    assert hashes(out) == tiny.files


@pytest.fixture(scope="module")
def grown_once(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Class folders to which was added once."""
    place = tmp_path_factory.mktemp("grown")
    write_folders(place / "raw")
    made = make(Raw(place / "raw", CUT, "folder"), place / "out", "--num_shards", 2)
    grow(Cli(), made, times=1)
    return made


def copied(made: Made, place: Path) -> Made:
    """The same for a test that damages it."""
    return replace(made, raw=made.raw.copy(place / "raw"), out=made.copy(place / "out"))


@pytest.fixture
def grown(grown_once: Made, tmp_path: Path) -> Made:
    """The set that grew, in a directory that a test may damage."""
    return copied(grown_once, tmp_path)


# One of every kind of file of a set that grew, and of one that --append is making inside it.
GROWN = (
    *("manifest.json", "records.parquet", "train/train-00001-of-00003", ".dataprep/job.json"),
    *(".dataprep/append/manifest.json", ".dataprep/append/.dataprep/job.json"),
    *(".dataprep/append/.dataprep/order/summary.json", ".dataprep/append/records.parquet"),
    ".dataprep/append/.dataprep/commits/train-00000-of-00001.json",
    *(".dataprep/index/airfield.json", ".dataprep/grow.json"),
)


@pytest.fixture(scope="module")
def interrupted(grown_once: Made, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The journal is written, and nothing of it is done: a kill at the worst moment."""
    made = copied(grown_once, tmp_path_factory.mktemp("interrupted"))
    picture(made.raw.path / "airfield" / "more.jpg", 99)

    def killed(*_: object, **__: object) -> None:
        raise SinkError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal_module, "finish_merge", killed)
        assert Cli()(*made.command(made.out, "--append")).code == 1
    assert (made.out / ".dataprep/grow.json").exists()
    return made


# Every day one of each end: the set heals, is overwritten, or the directory is moved away.
@pytest.mark.parametrize(
    ("name", "damage"),
    cases(GROWN, ["manifest.json", ".dataprep/append/records.parquet", GROWN[-1]]),
)
def test_a_set_that_grew_heals_or_is_overwritten_in_the_midst_of_a_merge(
    cli: Cli, interrupted: Made, tmp_path: Path, name: str, damage: str
) -> None:
    grown = copied(interrupted, tmp_path)
    out = grown.out
    if (out / name).exists():
        DAMAGES[damage](out / name)
    result = cli(*grown.command(out, "--append"))
    assert "Traceback" not in result.err
    if result.code:
        if "move the directory away" in result.error:
            shutil.rmtree(out)
        else:
            assert "--overwrite" in result.error
        result = cli(*grown.command(out, "--overwrite"))
        assert result.code == 0, result
    assert cli("verify", out, "--level", "size").code == 0
    keys = [row["key"] for row in rows_of(out, "stored")]
    assert "airfield/more.jpg" in keys
    assert len(keys) == len({*keys})
    assert leftovers(out) == []


def journal(out: Path, **changes: Any) -> None:
    """A journal of ``compact`` that changes nothing but what is said."""
    path = out / ".dataprep" / "grow.json"
    write_state(path, MergeJournal(manifest=SealedSet.read(out).manifest, renames=(), deletions=()))
    forge(path, lambda it: it.update(changes))


def test_a_journal_that_a_killed_run_left_is_finished(cli: Cli, tiny: Made, tmp_path: Path) -> None:
    out = tiny.copy(tmp_path / "out")
    journal(out)
    assert "grew by --append" in cli(*tiny.command(out)).error  # says the journal
    assert cli("verify", out).code == 0
    assert hashes(out) == tiny.files
    assert not (out / ".dataprep" / "grow.json").exists()


OUTSIDE = "../victim/notes-00000-of-00001"


@pytest.mark.parametrize(
    "changes",
    [
        {"deletions": [OUTSIDE]},
        {"deletions": ["mine.txt"]},
        {"deletions": [".dataprep/job.json"]},
        {"deletions": ["records.parquet"]},
        {"renames": [["mine.txt", "records.parquet"]]},
        {"renames": [[OUTSIDE, "records.parquet"]]},
        {"renames": [["records.parquet", OUTSIDE]]},
        {"renames": [[".dataprep/append/../job.json", "records.parquet"]]},
        {"renames": [["records.parquet"]]},
        {"renames": 3},
        {"manifest": {"splits": {}}},
        {"manifest": None},
    ],
    ids=json.dumps,
)
def test_a_forged_journal_moves_and_deletes_nothing(
    cli: Cli, tiny: Made, tmp_path: Path, victim: Path, changes: dict[str, Any]
) -> None:
    out = tiny.copy(tmp_path / "out")
    (out / "mine.txt").write_text("mine")
    before = hashes(out)
    journal(out, **changes)
    for words in (("compact", out), tiny.command(out)):
        assert str(out) in cli(*words).error
    assert hashes(out) == before
    assert victim.read_text() == "mine"


@pytest.mark.parametrize("words", ["compact", "--append", "--overwrite"])
def test_nothing_is_written_or_deleted_behind_a_link(
    cli: Cli, grown: Made, tmp_path: Path, words: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    (grown.out / "train").rename(elsewhere)
    (grown.out / "train").symlink_to(elsewhere)
    before = hashes(elsewhere)
    command = ("compact", grown.out) if words == "compact" else grown.command(grown.out, words)
    error = cli(*command).error
    assert f"{grown.out / 'train'} is a symbolic link" in error
    assert hashes(elsewhere) == before


@pytest.mark.parametrize("name", ["order", "commits", "index", "append", "append/.dataprep/order"])
def test_no_private_directory_is_a_link(cli: Cli, grown: Made, tmp_path: Path, name: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    place = grown.out / ".dataprep" / name
    if place.exists():
        place.rename(elsewhere)
    elsewhere.mkdir(exist_ok=True)
    (elsewhere / "summary.json").write_text("mine")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(elsewhere)
    for more in ("--append", "--overwrite"):
        assert f"{place} " in cli(*grown.command(grown.out, more)).error
    assert (elsewhere / "summary.json").read_text() == "mine"


@pytest.mark.parametrize("path", everyday(["../mine"], [".dataprep/job.json", "-rf", "train/-rf"]))
def test_a_manifest_names_only_files_of_a_data_set(
    cli: Cli, tiny: Made, tmp_path: Path, path: str
) -> None:
    out = tiny.copy(tmp_path / "out")
    before = (out / ".dataprep" / "job.json").read_bytes()
    forge(
        out / "manifest.json",
        lambda it: it["splits"]["train"]["shards"][2]["files"][0].update(path=path),
    )
    for words in (("verify", out), ("compact", out), ("stage", out, "--to", tmp_path / "to")):
        result = cli(*words)
        assert result.code == 1
        assert "manifest.json" in result.error
    with pytest.raises(DatasetError, match=r"manifest\.json"):
        dataprep.open(out)
    assert cli(*tiny.command(out, "--overwrite")).code in (0, 1)
    assert (out / ".dataprep" / "job.json").read_bytes() == before
