"""What a resumed job must notice: bytes that moved, classes that were renamed."""

from __future__ import annotations

import io
import shutil
import tarfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from PIL import Image

import dataprep
from dataprep.errors import DatasetError, SourceError
from dataprep.jobs.output.lock import locked
from dataprep.jobs.output.workspace import Workspace
from dataprep_pipelines.failures import FailureLog
from tests.conftest import Cli, Made, everyday, hashes


def picture(level: int) -> bytes:
    stream = io.BytesIO()
    Image.new("L", (16, 16), level).save(stream, "PNG", compress_level=0)  # all of one size
    return stream.getvalue()


IMAGES = {
    f"{name}/{number}.png": picture(level + number)
    for name, level in (("dark", 0), ("light", 200))
    for number in range(4)
}


def pack(path: Path, names: Sequence[str]) -> None:
    with tarfile.open(path, "w") as archive:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size = len(IMAGES[name])
            archive.addfile(member, io.BytesIO(IMAGES[name]))


def words(raw: Path, out: Path, *more: object) -> list[object]:
    places = ("--raw_data_dir", raw, "--local_scratch_dir", out)
    return ["folder", *places, "--workers", 1, "--num_shards", 2, *more]


def forget_shards(out: Path) -> None:
    """As if killed after the order was written and before the first shard was committed."""
    (out / "manifest.json").unlink()
    shutil.rmtree(out / "train")
    for record in (out / ".dataprep" / "commits").iterdir():
        record.unlink()


def test_the_order_is_written_anew_when_the_bytes_moved(cli: Cli, tmp_path: Path) -> None:
    assert len({len(data) for data in IMAGES.values()}) == 1  # sizes cannot tell
    raw, out = tmp_path / "raw", tmp_path / "out"
    raw.mkdir()
    pack(raw / "all.tar", sorted(IMAGES))
    assert cli(*words(raw, out)).code == 0
    before = hashes(out)
    forget_shards(out)
    pack(raw / "all.tar", sorted(IMAGES, reverse=True))
    assert cli(*words(raw, out)).code == 0
    records = dataprep.open(out, split="train")
    assert {example.key: example.encoded for example in records} == IMAGES
    assert hashes(out) == before


@pytest.mark.parametrize("name", ["train-00000.parquet", "train.json"])
def test_an_order_that_is_gone_is_written_again(
    cli: Cli, tiny: Made, tmp_path: Path, name: str
) -> None:
    out = tiny.copy(tmp_path / "out")
    (out / ".dataprep" / "order" / name).unlink()
    (out / "train" / "train-00003-of-00006").unlink()
    (out / "validation" / "validation-00001-of-00002").unlink()
    assert cli(*tiny.command(out)).code == 0
    assert hashes(out) == tiny.files


@pytest.mark.parametrize(
    "rename", everyday([{"dark": "zebra", "light": "yak"}], [{"dark": "black"}])
)
def test_shards_with_other_classes_are_never_mixed(
    cli: Cli, tmp_path: Path, rename: dict[str, str]
) -> None:
    raw, out = tmp_path / "raw", tmp_path / "out"
    for name, data in IMAGES.items():
        (raw / name).parent.mkdir(parents=True, exist_ok=True)
        (raw / name).write_bytes(data)
    listing = tmp_path / "list.csv"

    def write(label: Callable[[str], str]) -> None:
        lines = [f"{name},{label(name.partition('/')[0])}" for name in IMAGES]
        listing.write_text("\n".join(["path,label", *lines, ""]))

    write(str)
    assert cli(*words(raw, out, "--listing", listing)).code == 0
    sealed = hashes(out)
    (out / "train" / "train-00001-of-00002").unlink()
    kept = hashes(out)
    write(lambda name: rename.get(name, name))
    result = cli(*words(raw, out, "--listing", listing))
    assert result.code == 1
    assert "was made with other input" in result.error
    assert hashes(out) == kept
    write(str)
    assert cli(*words(raw, out, "--listing", listing)).code == 0
    assert hashes(out) == sealed


def test_what_was_missing_is_no_longer_told_of_when_it_is_there(cli: Cli, tmp_path: Path) -> None:
    raw, out = tmp_path / "raw", tmp_path / "out"
    listing = tmp_path / "list.csv"
    listing.write_text("\n".join(["path,label", *(f"{name},a" for name in IMAGES), ""]))
    raw.mkdir()
    pack(raw / "all.tar", sorted(IMAGES)[1:])
    assert cli(*words(raw, out, "--listing", listing)).code == 3
    told = out / ".dataprep" / "unmatched.csv"
    assert sorted(IMAGES)[0] in told.read_text()
    pack(raw / "all.tar", sorted(IMAGES))
    assert cli(*words(raw, out, "--listing", listing)).code == 0
    assert not told.exists()


# --- what workers tell ---


class _PluginError(SourceError):
    """A kind of error that only a plugin knows."""


@pytest.fixture
def failures(tmp_path: Path) -> Iterator[FailureLog]:
    workspace = Workspace(tmp_path)
    workspace.make()
    with locked(workspace) as lease:
        yield FailureLog(lease)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (_PluginError("the list is upside down"), r"^the list is upside down$"),
        (SourceError("caf\udce9.jpg is upside down"), r"^caf\\udce9\.jpg is upside down$"),
    ],
)
def test_an_error_is_told_as_it_is(failures: FailureLog, error: SourceError, said: str) -> None:
    """Of a kind that the launcher does not know, and with a name that is not UTF-8."""
    with failures.recorded():
        raise error
    with pytest.raises(SourceError, match=said):
        failures.reraise()


@pytest.mark.parametrize(
    "damage", [(b"upside", b"\xff"), (b'"', b""), (b"down", b"up"), (b"}", b"")]
)
def test_a_failure_that_was_damaged_is_a_line(
    failures: FailureLog, damage: tuple[bytes, bytes]
) -> None:
    with failures.recorded():
        raise SourceError("the list is upside down")
    path = failures.lease.failure
    path.write_bytes(path.read_bytes().replace(*damage))
    with pytest.raises(DatasetError, match=rf"^{path}.*; mend the file system;"):
        failures.reraise()
