"""What both LMDB sinks promise, one label an image or many, files or pixels."""

from __future__ import annotations

import errno
import hashlib
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import lmdb
import pytest

from dataprep.errors import SinkError
from dataprep.sinks import lmdb_environment
from dataprep.sinks.base import DatasetInfo, ShardName, Sink
from dataprep.sinks.lmdb_caffe import LmdbSink
from dataprep.sinks.lmdb_torch import LmdbTorchSink
from tests.sinks.lmdb_examples import MULTI, RAW, SINGLE, example, places, write

KINDS: dict[str, tuple[Callable[[], Sink], DatasetInfo]] = {
    "caffe": (LmdbSink, SINGLE),
    "caffe-multi": (lambda: LmdbSink(labels="multi"), MULTI),
    "caffe-raw": (lambda: LmdbSink(datum="raw"), RAW),
    "torch": (LmdbTorchSink, SINGLE),
    "torch-multi": (LmdbTorchSink, MULTI),
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


@pytest.mark.parametrize("count", [0, 1, 2, 11, 150])
def test_what_is_written_is_read(kind, count: int, tmp_path: Path) -> None:
    sink, info = kind
    paths = places(sink, tmp_path)
    size = 0 if info.size else 5000
    examples = [example(number, info, number * 37 % size if size else 0) for number in range(count)]
    written = write(sink, paths, info, examples)
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == sorted(paths)
    for path, file in zip(paths, written, strict=True):
        data = path.read_bytes()
        assert (file.bytes, file.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    for given in (paths, paths[:1]):
        with sink.reader(given, info) as reader:
            assert len(reader) == count
            assert list(reader) == examples
            assert [reader[number] for number in reversed(range(count))] == examples[::-1]
            assert list(reader.keys()) == [one.key for one in examples]
            for wrong in (-1, count):
                with pytest.raises(IndexError):
                    reader[wrong]
        reader.close()
        assert not [name for name in open_files() if name.startswith(str(tmp_path))]


def test_classes_may_be_unknown(kind, tmp_path: Path) -> None:
    sink, info = kind
    paths = places(sink, tmp_path)
    examples = [example(number, info) for number in range(3)]
    write(sink, paths, info, examples)
    with sink.reader(paths[:1], DatasetInfo()) as reader:
        assert list(reader) == [replace(one, synset="", class_name="") for one in examples]


def test_keys_may_hold_any_bytes(kind, tmp_path: Path) -> None:
    sink, info = kind
    paths = places(sink, tmp_path)
    examples = [replace(example(0, info), key=b"a/\xff\xfe b".decode("utf-8", "surrogateescape"))]
    write(sink, paths, info, examples)
    with sink.reader(paths, info) as reader:
        assert list(reader) == examples
        assert list(reader.keys()) == [examples[0].key]


def test_the_map_grows_several_times_and_the_file_is_dense(
    kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink, info = kind
    paths = places(sink, tmp_path)
    # As with larger batches and a hundred times the images.
    monkeypatch.setattr(lmdb_environment, "_SPARE_PAGES", 16)
    defaults = {"append": None, "batch_records": 50, "batch_bytes": 1 << 18}
    monkeypatch.setattr(lmdb_environment.LmdbWriter.__init__, "__kwdefaults__", defaults)
    examples = [example(number, info, 9000 if number % 3 else 50) for number in range(1200)]
    if info.size:
        examples = [example(number, info) for number in range(1200)]
    sizes = []
    writer = sink.open(paths, info)
    for one in examples:
        writer.write(one)
        sizes.append(writer_map(writer))
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


def writer_map(writer) -> int:
    databases = getattr(writer, "_databases", None) or [writer._database]
    return databases[0]._map_size


# Writes the same records in another process, where addresses and old memory are others.
_AGAIN = """
import sys
from pathlib import Path
from tests.sinks.lmdb_examples import example, places, write
from tests.sinks.test_lmdb import KINDS
ballast = [bytes([255]) * size for size in range(1, 100000, 97)]
del ballast[::2]
make, info = KINDS[sys.argv[1]]
sink = make()
write(sink, places(sink, Path(sys.argv[2])), info, [
    example(number, info, 0 if info.size else number * 37 % 9000) for number in range(400)
])
"""


@pytest.mark.parametrize("name", KINDS)
def test_equal_examples_give_equal_bytes(name: str, tmp_path: Path) -> None:
    make, info = KINDS[name]
    examples = [
        example(number, info, 0 if info.size else number * 37 % 9000) for number in range(400)
    ]
    folders = [tmp_path / str(number) for number in range(4)]
    sink = make()
    write(sink, places(sink, folders[0]), info, examples)
    # Two writers at once, which share the allocator, with other data written before.
    write(sink, places(sink, tmp_path / "other"), info, examples[::-1])
    writers = [sink.open(places(sink, folder), info) for folder in folders[1:3]]
    for one in examples:
        for writer in writers:
            writer.write(one)
    for writer in writers:
        writer.close()
    subprocess.run(
        [sys.executable, "-c", _AGAIN, name, str(folders[3])],
        check=True,
        cwd=Path(__file__).parents[2],
        # glibc fills what malloc gives: memory that was never written would show.
        env={**os.environ, "MALLOC_PERTURB_": "165", "LMDB_DEFAULT_LIB_VERSION": "1"},
    )
    first, *others = (
        {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.*db")}
        for folder in folders
    )
    assert first
    assert all(other == first for other in others)


def test_lmdb_finds_nothing_wrong(kind, tmp_path: Path) -> None:
    verify = pytest.importorskip("lmdb.verify", reason="py-lmdb has a verifier since 3")
    sink, info = kind
    paths = places(sink, tmp_path)
    size = 0 if info.size else 3000
    write(sink, paths, info, [example(number, info, size) for number in range(300)])
    for path in paths:
        assert list(verify.verify(str(path), subdir=False)) == []


def test_abandoning_is_harmless(kind, tmp_path: Path) -> None:
    sink, info = kind
    for number, written in enumerate((0, 5)):
        paths = places(sink, tmp_path / str(number))
        writer = sink.open(paths, info)
        for one in range(written):
            writer.write(example(one, info))
        writer.abandon()
        writer.abandon()
        assert not [name for name in open_files() if name.startswith(str(tmp_path))]
    paths = places(sink, tmp_path / "closed")
    writer = sink.open(paths, info)
    writer.close()
    writer.abandon()
    assert not [name for name in open_files() if name.startswith(str(tmp_path))]


def everything(sink: Sink, paths: list[Path], info: DatasetInfo) -> list[object]:
    """Read in each way there is; the damage may be where only one of them looks."""
    found: list[object] = []
    for way in (list, lambda reader: list(reader.keys()), lambda reader: reader[len(reader) - 1]):
        try:
            with sink.reader(paths, info) as reader:
                found.append(way(reader))
        except SinkError as error:
            found.append(error)
    errors = [str(error) for error in found if isinstance(error, SinkError)]
    assert all(str(paths[0].parent.parent) in error for error in errors)
    assert not any("\n" in error for error in errors)
    return found


def test_damage_is_an_error_and_nothing_worse(kind, tmp_path: Path) -> None:
    sink, info = kind
    paths = places(sink, tmp_path / "good")
    write(sink, paths, info, [example(n, info, 0 if info.size else n * 700) for n in range(9)])
    bad = places(sink, tmp_path / "bad")
    for path, copy in zip(paths, bad, strict=True):
        shutil.copy(path, copy)
    good = everything(sink, bad, info)
    chance = random.Random(0)
    for path, copy in zip(paths, bad, strict=True):
        data = path.read_bytes()
        # Everything but the inside of the images, where a flipped byte is another image.
        interesting = [place for place in range(len(data)) if place % 4096 < 64 or data[place] > 0]
        for place in chance.sample(interesting, min(300, len(interesting))):
            copy.write_bytes(
                data[:place] + bytes([data[place] ^ 1 << chance.randrange(8)]) + data[place + 1 :]
            )
            everything(sink, bad, info)
        for size in (0, 1, 16, 151, 152, 4096, 8191, 8192, len(data) - 4096, len(data) - 1):
            copy.write_bytes(data[:size])
            assert all(isinstance(one, SinkError) for one in everything(sink, bad, info)), size
        for garbage in (chance.randbytes(len(data)), bytes(len(data))):
            copy.write_bytes(garbage)
            assert all(isinstance(one, SinkError) for one in everything(sink, bad, info))
        copy.write_bytes(data)
    assert everything(sink, bad, info) == good


def test_a_page_that_is_lost_behind_the_reader_is_an_error(kind, tmp_path: Path) -> None:
    sink, info = kind
    paths = places(sink, tmp_path)
    write(sink, paths, info, [example(number, info) for number in range(3)])
    with sink.reader(paths, info) as reader:
        os.truncate(paths[0], 8192)  # with a map, the process would die of SIGBUS
        reader._database = getattr(reader, "_database", None)
        for database in getattr(reader, "_databases", [reader._database]):
            database._cache.clear()
        with pytest.raises(SinkError, match="record 0"):
            reader[0]


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


def test_a_full_disk_is_enospc_whenever_it_is_full(kind, small_disk: Path) -> None:
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


# A limit on the size of every file, as `ulimit -f` sets it.
_LIMITED = """
import resource, sys
from pathlib import Path
from dataprep.sinks.lmdb_environment import LmdbWriter
resource.setrlimit(resource.RLIMIT_FSIZE, (300001, resource.RLIM_INFINITY))
writer = LmdbWriter(Path(sys.argv[1]), append=True)
try:
    for number in range(100):
        writer.put(b"%08d" % number, bytes(6000))
    writer.close()
except OSError as error:
    print(error.errno)
writer.abandon()
"""


def test_a_limit_on_the_size_of_files_is_named(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _LIMITED, str(tmp_path / "x")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{errno.EFBIG}\n"


def test_the_estimate_of_the_overhead_is_not_too_small(kind, tmp_path: Path) -> None:
    sink, info = kind
    paths = places(sink, tmp_path)
    # Of every length modulo a page.
    examples = [example(number, info, number * 53) for number in range(600)]
    if info.size:
        examples = [example(number, info) for number in range(600)]
    written = write(sink, paths, info, examples)
    total = sum(file.bytes for file in written)
    assert total <= sum(len(one.encoded) + sink.overhead() for one in examples)


@pytest.mark.parametrize("layout", ["split", "flat"])
def test_names(layout: str) -> None:
    shard = ShardName("train", 2, 4)
    prefix = "train/" if layout == "split" else ""
    assert [str(path) for path in LmdbTorchSink().paths(shard, layout)] == [
        f"{prefix}train-00002-of-00004.lmdb"
    ]
    assert [str(path) for path in LmdbSink(labels="multi").paths(shard, layout)] == [
        f"{prefix}train-00002-of-00004_lmdb/data.mdb",
        f"{prefix}train-00002-of-00004_labels_lmdb/data.mdb",
    ]
    whole = ShardName("train", 0, 1)
    assert [str(path) for path in LmdbTorchSink().paths(whole, layout)] == ["train.lmdb"]
    assert [str(path) for path in LmdbSink().paths(whole, layout)] == ["train_lmdb/data.mdb"]
