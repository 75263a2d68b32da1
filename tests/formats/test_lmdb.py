"""What the LMDB sink promises, of files or pixels."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import lmdb
import pytest

from dataprep.errors import SinkError
from dataprep.formats.base import Sink
from dataprep.formats.example import DatasetInfo, Example
from dataprep.formats.lmdb import environment as lmdb_environment
from dataprep.formats.lmdb.caffe import LmdbSink
from dataprep.formats.subprocess_reader import read_unverified
from tests.conftest import everyday
from tests.formats.examples import RAW, SINGLE, example, places, write

KINDS: dict[str, tuple[Callable[[], Sink], DatasetInfo]] = {
    "caffe": (LmdbSink, SINGLE),
    "caffe-raw": (lambda: LmdbSink(datum="raw"), RAW),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> tuple[Sink, DatasetInfo]:
    make, info = KINDS[request.param]
    return make(), info


def open_files() -> list[str]:
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        try:
            found.append(str(entry.readlink()))
        except FileNotFoundError:
            continue  # the one of iterdir itself
    return found


def test_the_map_grows_several_times_and_the_file_is_dense(
    kind: tuple[Sink, DatasetInfo], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink, info = kind
    paths = places(sink, tmp_path)
    # As with larger batches and a hundred times the images.
    monkeypatch.setattr(lmdb_environment, "_SPARE_PAGES", 16)
    monkeypatch.setattr(lmdb_environment, "_BATCH_RECORDS", 50)
    monkeypatch.setattr(lmdb_environment, "_BATCH_BYTES", 1 << 18)
    examples = [example(number, info, 9000 if number % 3 else 50) for number in range(1200)]
    if info.size:
        examples = [example(number, info) for number in range(1200)]
    sizes = []
    writer = sink.open(paths, info)
    for one in examples:
        writer.write(one)
        sizes.append(writer._map_size)  # type: ignore[attr-defined]
    writer.close()
    assert len(set(sizes)) >= (3 if not info.size else 1)
    with sink.reader(paths, info) as reader:
        assert list(reader) == examples
    for path in paths:
        status = path.stat()
        assert status.st_size < 1.5 * sum(len(one.encoded) + 3000 for one in examples)
        assert status.st_blocks * 512 >= status.st_size * 0.9
        with lmdb.open(str(path), subdir=False, readonly=True, lock=False) as environment:
            pages, size = environment.info()["last_pgno"] + 1, environment.stat()["psize"]
        assert status.st_size == pages * size


# Writes the same records in another process, where addresses and old memory are others.
_AGAIN = """
import sys
from pathlib import Path
from tests.formats.examples import places, write
from tests.formats.test_lmdb import KINDS, records
ballast = [bytes([255]) * size for size in range(1, 100000, 97)]
del ballast[::2]
make, info = KINDS[sys.argv[1]]
write(make(), places(make(), Path(sys.argv[2])), info, records(info))
"""


def records(info: DatasetInfo) -> list[Example]:
    return [example(number, info, 0 if info.size else number * 37 % 9000) for number in range(400)]


@pytest.mark.parametrize("name", everyday(["caffe"], [*KINDS]))
def test_neither_old_memory_nor_the_environment_is_in_the_file(name: str, tmp_path: Path) -> None:
    make, info = KINDS[name]
    paths, others = (places(make(), tmp_path / folder) for folder in ("here", "there"))
    write(make(), paths, info, records(info))
    subprocess.run(
        [sys.executable, "-c", _AGAIN, name, str(tmp_path / "there")],
        check=True,
        cwd=Path(__file__).parents[2],
        # glibc fills what malloc gives: memory that was never written would show.
        env={**os.environ, "MALLOC_PERTURB_": "165", "LMDB_DEFAULT_LIB_VERSION": "1"},
    )
    assert [path.read_bytes() for path in paths] == [path.read_bytes() for path in others]


def test_a_truncated_file_is_an_error(kind: tuple[Sink, DatasetInfo], tmp_path: Path) -> None:
    """LMDB would die of SIGBUS."""
    sink, info = kind
    paths = places(sink, tmp_path)
    write(sink, paths, info, [example(n, info, 0 if info.size else n * 700) for n in range(9)])
    data = paths[0].read_bytes()
    for size in (0, 1, 16, 151, 152, 4096, 8191, 8192, len(data) - 4096, len(data) - 1):
        paths[0].write_bytes(data[:size])
        with pytest.raises(SinkError, match=str(paths[0])) as caught:
            sink.reader(paths, info)
        assert "\n" not in str(caught.value)


def test_a_crash_of_lmdb_is_an_error_where_nobody_knows_the_file(
    kind: tuple[Sink, DatasetInfo], tmp_path: Path
) -> None:
    sink, info = kind
    paths = places(sink, tmp_path)
    write(sink, paths, info, [example(n, info, 0 if info.size else 9000) for n in range(40)])
    with lmdb.open(str(paths[0]), subdir=False, readonly=True, lock=False) as environment:
        size, pages = environment.stat()["psize"], environment.info()["last_pgno"] + 1
    data = bytearray(paths[0].read_bytes())
    for page in range(2, pages):
        data[page * size + 10 : page * size + 16] = b"\xff" * 6  # flags and bounds of a page
    paths[0].write_bytes(data)
    with pytest.raises(SinkError, match="make the shard again") as caught:
        list(read_unverified(sink, paths, info))
    assert "\n" not in str(caught.value)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "disk"
    path.mkdir()
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root may mount a small file system")
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(path)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"a small file system cannot be mounted: {done.stderr.strip()}")
    yield path
    subprocess.run(["umount", str(path)], check=True)


def test_a_full_disk_is_enospc_whenever_it_is_full(
    kind: tuple[Sink, DatasetInfo], small_disk: Path
) -> None:
    sink, info = kind
    examples = [example(number, info, 0 if info.size else 6000) for number in range(60)]
    filler = small_disk / "filler"
    full = 0
    for free in (0, 4, 8, 12, 16, 40, 100, 300, 900):
        folder = small_disk / "out"
        paths = places(sink, folder)
        status = os.statvfs(small_disk)
        filler.write_bytes(bytes(status.f_bavail * status.f_frsize - free * 1024))
        try:
            write(sink, paths, info, examples)
        except OSError as error:
            assert error.errno == errno.ENOSPC, (free, error)  # noqa: PT017
            full += 1
        filler.unlink()
        shutil.rmtree(folder)
        assert not [name for name in open_files() if name.startswith(str(small_disk))]
    assert 1 <= full < 9
