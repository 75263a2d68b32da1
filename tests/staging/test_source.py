"""What there is to stage, and reading it: what is listed, what is noticed, what stays in memory."""

from __future__ import annotations

import ctypes
import mmap
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from dataprep.errors import DatasetError, StagingError
from dataprep.sealed.set import SealedSet
from dataprep.staging.source import Inventory, SourceFile, SourceReader, read_inventory
from dataprep.system.filesystems import filesystem_of
from dataprep.system.state_files import encode
from tests.conftest import Cli, Made
from tests.forging import forge


def write(directory: Path, *names: str) -> Path:
    """A plain directory of files that hold their own names."""
    for name in names:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(name)
    return directory


def paths(inventory: Inventory) -> list[str]:
    return [file.path for file in inventory.files]


def test_of_a_data_set_everything_that_its_manifest_names(tiny: Made) -> None:
    found = read_inventory(tiny.out)
    assert {file.path: file.sha256 for file in found.files} == tiny.files
    assert paths(found) == sorted(paths(found))
    assert all(file.bytes == (tiny.out / file.path).stat().st_size for file in found.files)
    assert {file.modified for file in found.files} == {None}
    assert found.source == tiny.out
    assert found.manifest == SealedSet.read(tiny.out).manifest
    assert found.digest == found.manifest.sha256


def test_a_manifest_stays_as_it_is_though_it_is_written_otherwise(
    cli: Cli, tiny: Made, tmp_path: Path
) -> None:
    source, to = tiny.copy(tmp_path / "out"), tmp_path / "to"
    forge(source / "manifest.json", lambda manifest: manifest.update(seed=manifest.pop("seed")))
    data = (source / "manifest.json").read_bytes()
    assert encode(SealedSet.read(source).manifest) != data
    assert cli("stage", source, "--to", to).code == 0
    assert (to / "manifest.json").read_bytes() == data
    assert cli("stage", "--to", to, "--status").code == 0
    assert cli("verify", to).code == 0


def test_of_a_plain_directory_every_file_below_it(tmp_path: Path) -> None:
    write(tmp_path, "b.txt", "a/x.bin", "a/b/c/deep", "a.txt", ".hidden")
    (tmp_path / "empty").mkdir()
    found = read_inventory(tmp_path)
    assert paths(found) == [".hidden", "a.txt", "a/b/c/deep", "a/x.bin", "b.txt"]
    assert found.manifest is None
    for file in found.files:
        stat = (tmp_path / file.path).stat()
        assert (file.bytes, file.modified) == (stat.st_size, stat.st_mtime_ns)
        assert file.sha256 is None


def test_a_manifest_of_another_program_is_a_file(tmp_path: Path) -> None:
    write(tmp_path, "a")
    for text in ('{"format": "parquet"}', '{"made": "by dataprep-3"}', "[]", "{}", "null"):
        (tmp_path / "manifest.json").write_text(text)
        assert paths(read_inventory(tmp_path)) == ["a", "manifest.json"]


def test_what_is_no_data_is_left_out(tmp_path: Path) -> None:
    write(
        tmp_path,
        *("train/data.mdb", "train/lock.mdb", "a", ".a.0123abcd.partial", "b/.a.0123abcd.partial"),
        *(".dataprep-stage/lock", "other/.dataprep/job.json", "mine.partial", ".dataprep.toml"),
    )
    assert paths(read_inventory(tmp_path)) == [
        *(".dataprep.toml", "a", "mine.partial", "train/data.mdb")
    ]


def test_the_listing_s_digest_tells_changes_apart(tmp_path: Path) -> None:
    write(tmp_path / "a", "x", "y/z")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    first = read_inventory(tmp_path / "a").digest
    assert read_inventory(tmp_path / "b").digest == first
    os.utime(tmp_path / "b/x", ns=(1, 1))
    digests = {first, read_inventory(tmp_path / "b").digest}
    for name in ("x2", "y/z"):
        (tmp_path / "a" / name).write_text("longer than before")
        digests.add(read_inventory(tmp_path / "a").digest)
    (tmp_path / "a/x2").rename(tmp_path / "a/x3")
    digests.add(read_inventory(tmp_path / "a").digest)
    assert len(digests) == 5


def test_a_link_to_a_file_is_that_file(tmp_path: Path) -> None:
    real = write(tmp_path / "real", "long name")
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain/link").symlink_to(real / "long name")
    (file,) = read_inventory(tmp_path / "plain").files
    stat = (real / "long name").stat()
    assert file == SourceFile("link", stat.st_size, None, stat.st_mtime_ns)


def refused(source: Path) -> str:
    with pytest.raises(DatasetError) as caught:
        read_inventory(source)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_links_that_lead_elsewhere_are_refused_by_name(tmp_path: Path) -> None:
    write(tmp_path / "a", "x")
    (tmp_path / "a/loop").symlink_to(tmp_path / "a")
    assert f"{tmp_path}/a/loop is no regular file" in refused(tmp_path / "a")
    (tmp_path / "a/loop").unlink()
    (tmp_path / "a/gone").symlink_to("nowhere")
    assert f"{tmp_path}/a/gone cannot be staged: No such file" in refused(tmp_path / "a")


def test_what_is_no_file_is_refused_by_name(tmp_path: Path) -> None:
    write(tmp_path, "x")
    os.mkfifo(tmp_path / "pipe")
    assert f"{tmp_path}/pipe is no regular file" in refused(tmp_path)


def test_a_file_with_the_name_of_staging_s_own_directory_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "x", ".dataprep-stage")
    assert f"{tmp_path}/.dataprep-stage has the name of staging's own" in refused(tmp_path)


_PAGE = os.sysconf("SC_PAGE_SIZE")


def listed(source: Path, name: str, *, sha256: str | None = None) -> SourceFile:
    found = (source / name).stat()
    return SourceFile(name, found.st_size, sha256, None if sha256 else found.st_mtime_ns)


def resident(path: Path) -> float:
    """The share of a file's pages that are in the page cache."""
    size = path.stat().st_size
    pages = -(-size // _PAGE)
    found = (ctypes.c_ubyte * pages)()
    with path.open("r+b") as file, mmap.mmap(file.fileno(), size) as mapping:
        anchor = ctypes.c_char.from_buffer(mapping)
        address = ctypes.c_void_p(ctypes.addressof(anchor))
        assert ctypes.CDLL(None).mincore(address, ctypes.c_size_t(size), found) == 0
        del anchor
    return sum(flags & 1 for flags in found) / pages


def replace_file(path: Path) -> None:
    path.with_name("b").write_bytes(path.read_bytes())
    path.with_name("b").rename(path)


def read_all(reader: SourceReader, largest: int) -> bytes:
    buffer = memoryview(bytearray(largest))
    return b"".join(
        bytes(reader.read(offset, buffer[:count])) for offset, count in reader.pieces(largest)
    )


@pytest.mark.parametrize("size", [0, 1, 999, 1000, 1001, 4096])
def test_the_pieces_are_the_file(tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    (tmp_path / "a").write_bytes(data)
    with SourceReader(tmp_path, listed(tmp_path, "a")) as reader:
        assert read_all(reader, 1000) == data
        reader.check_unchanged()


def test_the_source_does_not_stay_in_memory(tmp_path: Path) -> None:
    if filesystem_of(tmp_path) in ("tmpfs", "ramfs", "overlay", ""):
        pytest.skip("the temporary directory is memory, or may be: set TMPDIR to one on a disk")
    path = tmp_path / "a"
    with path.open("wb") as file:
        file.write(os.urandom(8_000_001))
        file.flush()
        os.fsync(file.fileno())
    with SourceReader(tmp_path, listed(tmp_path, "a")) as reader:
        read_all(reader, 1 << 20)
        while_open = resident(path)
    assert while_open <= 0.05
    assert resident(path) == 0


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def replace_by_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            lambda path: path.write_bytes(b"longer than before"),
            "was written to since it was listed",
        ),
        (lambda path: os.utime(path, ns=(1, 1)), "was written to since it was listed"),
        (lambda path: path.unlink(), "cannot read .*No such file"),
        (replace_by_folder, "no regular file"),
        (replace_by_pipe, "no regular file"),
    ],
    ids=["size", "time", "absent", "directory", "pipe"],
)
def test_a_file_that_is_not_as_listed_is_named(
    tmp_path: Path, change: Callable[[Path], object], says: str
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"before")
    file = listed(tmp_path, "a")
    change(path)
    with pytest.raises(StagingError, match=says) as raised:
        SourceReader(tmp_path, file)
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "change",
    [
        lambda path: os.utime(path, ns=(1, 1)),
        lambda path: os.truncate(path, 3),
        replace_file,
        Path.unlink,
    ],
    ids=["time", "size", "file", "absent"],
)
def test_a_file_that_changes_while_it_is_read_is_named(
    tmp_path: Path, change: Callable[[Path], object]
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"before")
    with SourceReader(tmp_path, listed(tmp_path, "a")) as reader:
        read_all(reader, 1000)
        reader.check_unchanged()
        change(path)
        with pytest.raises(StagingError, match=r"changed while|No such file"):
            reader.check_unchanged()


def test_a_file_that_gets_shorter_under_the_reader_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(bytes(range(100)))
    with SourceReader(tmp_path, listed(tmp_path, "a")) as reader:
        os.truncate(path, 70)
        buffer = memoryview(bytearray(50))
        reader.read(0, buffer)
        with pytest.raises(StagingError, match="changed while it was being copied"):
            reader.read(50, buffer)
