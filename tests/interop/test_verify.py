"""``dataprep verify --level reader`` lets the formats' own readers speak, and hears them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dataprep.cli import main
from dataprep.errors import UsageError
from dataprep.formats.hdf5.sinks import Hdf5Sink
from dataprep.formats.lmdb.caffe import LmdbSink
from dataprep.sealed.set import SealedSet
from dataprep.sealed.verify import verify
from tests.interop.conftest import Built, imported

PIXELS = ("--resize", "32x24")
SETS = {
    "arrayrecord": ((), "grain"),
    "hdf5": ((), ""),
    "hdf5-arrays": (PIXELS, ""),
    "hdf5-caffe": (PIXELS, ""),
    "lmdb": (("--num_shards", "1"), "nvidia.dali"),
    "lmdb of pixels": (("--sink_option", "datum=raw", *PIXELS, "--num_shards", "1"), ""),
    "parquet": ((), "datasets"),
    "recordio": (("--num_shards", "1"), "nvidia.dali"),
    "tfrecord": ((), "tensorflow"),
    "webdataset": ((), "webdataset"),
}
PIP_NAMES = {
    "datasets.packaged_modules.parquet": "datasets",
    "nvidia.dali": "nvidia-dali-cuda120",
    "tensorflow": "tensorflow-cpu",
    "webdataset.tariterators": "webdataset",
}
Answer = tuple[bytes, tuple[int, ...]]


@pytest.fixture(params=SETS)
def built(request: pytest.FixtureRequest, made: Callable[..., Built]) -> Built:
    options, library = SETS[request.param]
    if library:
        imported(library)
    return made(request.param.split()[0], *options)


def test_the_formats_reader_agrees(built: Built, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(built.out), "--level", "reader"]) == 0
    said = capsys.readouterr().out
    reference = SealedSet.read(built.out).sink.reference
    assert f"all good (reader: {reference})" in said
    assert "38 records" in said


def first_image_changed(answers: Iterator[Answer]) -> Iterator[Answer]:
    data, labels = next(answers)
    yield data[:-1] + bytes([data[-1] ^ 1]), labels
    yield from answers


def last_label_changed(answers: Iterator[Answer]) -> Iterator[Answer]:
    *others, (data, (label,)) = answers
    yield from others
    yield data, (label + 1,)


def one_fewer(answers: Iterator[Answer]) -> Iterator[Answer]:
    next(answers)
    yield from list(answers)[:-1]


def last_missing(answers: Iterator[Answer]) -> Iterator[Answer]:
    yield from list(answers)[:-1]


def one_more(answers: Iterator[Answer]) -> Iterator[Answer]:
    yield from answers
    yield b"", (0,)


@pytest.mark.parametrize(
    ("lie", "said"),
    [
        (first_image_changed, "gives another image"),
        (last_label_changed, "expected ("),
        (last_missing, "finds fewer records"),
        (one_fewer, "gives another image"),
        (one_more, "finds more records"),
    ],
)
def test_a_reader_that_disagrees_is_heard(
    made: Callable[..., Built], monkeypatch: pytest.MonkeyPatch, lie: Any, said: str
) -> None:
    built = made("hdf5")
    honest = Hdf5Sink.reference_records
    monkeypatch.setattr(Hdf5Sink, "reference_records", lambda *words: lie(honest(*words)))
    monkeypatch.setattr(Hdf5Sink, "trusts_files", False)  # another process would not lie
    assert verify(built.out, "records", threads=1).problems == ()
    problems = verify(built.out, "reader", threads=1).problems
    assert len(problems) == 5  # one a shard
    assert all(said in problem.what for problem in problems)


@pytest.mark.parametrize(
    ("name", "library"),
    [
        ("lmdb", "nvidia.dali"),
        ("parquet", "datasets.packaged_modules.parquet"),
        ("recordio", "nvidia.dali"),
        ("tfrecord", "tensorflow"),
        ("webdataset", "webdataset.tariterators"),
    ],
)
def test_a_reader_that_is_not_installed_is_asked_for(
    made: Callable[..., Built], monkeypatch: pytest.MonkeyPatch, name: str, library: str
) -> None:
    options, _ = SETS[name]
    built = made(name, *options)
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.setattr(LmdbSink, "trusts_files", False)  # another process would find it
    with pytest.raises(UsageError, match=rf"pip install {PIP_NAMES[library]}$"):
        verify(built.out, "reader", threads=1)
