"""A finished data set read by number, by key, in parts, from threads and other processes."""

from __future__ import annotations

import gc
import io
import pickle
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from pyarrow import parquet

import dataprep
from dataprep.errors import DatasetError, SinkError, UsageError
from dataprep.formats.example import Example
from dataprep.training.records import Records, Uneven, part_of
from tests.conftest import Made, Shelf
from tests.training.conftest import READABLE

totals = st.integers(0, 300)
world_sizes = st.integers(1, 40)


def parts(total: int, world_size: int, uneven: Uneven) -> list[range]:
    slices = [part_of(total, rank, world_size, uneven) for rank in range(world_size)]
    return [range(total)[part] for part in slices]


@given(totals, world_sizes)
def test_parts_are_everything_in_order_or_all_of_one_size(total: int, world_size: int) -> None:
    kept, dropped, repeated = (parts(total, world_size, how) for how in ("keep", "drop", "repeat"))
    assert [number for share in kept for number in share] == [*range(total)]
    assert max(map(len, kept)) - min(map(len, kept)) <= 1
    size = total // world_size
    assert [number for share in dropped for number in share] == [*range(size * world_size)]
    assert {len(share) for share in dropped} == {size}
    numbers = [number for share in repeated for number in share]
    assert sorted({*numbers}) == [*range(total)]
    assert {len(share) for share in repeated} == {-(-total // world_size)}
    # Two ranks at most see the same one, if there is one for each rank at all.
    assert total < world_size or max(map(numbers.count, numbers), default=0) <= 2


def keys(examples: Iterator[Example] | Records) -> list[str]:
    return [example.key for example in examples]


def test_by_number_and_in_order_and_by_key_are_the_same(records: Records) -> None:
    examples = list(records)
    assert len(records) == len(examples) == 24
    assert [records[number] for number in range(24)] == examples
    assert [records[number - 24] for number in range(24)] == examples
    assert [records.by_key(example.key) for example in examples] == examples
    assert [records.number_of(example.key) for example in examples] == [*range(24)]
    assert len({example.key for example in examples}) == 24
    assert {records.classes[example.class_index][0] for example in examples} == {
        example.synset for example in examples
    }


def test_a_table_that_is_missing_damaged_or_of_another_data_set_is_one_line(
    tiny: Made, tmp_path: Path
) -> None:
    out = tiny.copy(tmp_path / "out")
    path = out / "records.parquet"
    table = parquet.read_table(path)
    first = dataprep.open(tiny.out, "train")[0].key
    for other in (table.take([1, 0, *range(2, len(table))]), table[:9]):
        parquet.write_table(other, path)
        with pytest.raises(DatasetError, match=r"is not the table that was sealed"):
            dataprep.open(out, "train").by_key(first)
    path.unlink()
    with pytest.raises(DatasetError, match=r"records\.parquet cannot be read"):
        dataprep.open(out, "train").by_key(first)
    assert dataprep.open(out, "train")[0].key == first  # which needs no table


def test_parts_slices_and_parts_of_parts(records: Records) -> None:
    everything = keys(records)
    part = records.part(1, 5)
    assert (len(part), keys(part)) == (5, everything[4:9])
    assert [part[number].key for number in range(-5, 5)] == everything[4:9] * 2
    assert keys(part[1:-1]) == everything[5:8]
    assert keys(records[3:21]) == everything[3:21]
    assert keys(records[-2:][1:]) == everything[-1:]
    assert len(records[5:2]) == len(part[9:]) == 0
    assert keys(records[5:2]) == []
    with pytest.raises(IndexError):
        part[5]
    with pytest.raises(UsageError, match="slices need the step 1"):
        records[::2]


def test_what_is_not_there_and_what_is_no_number(records: Records) -> None:
    for number in (24, -25, 2**70):
        with pytest.raises(IndexError, match=f"train: no example {number} of 24"):
            records[number]
    wrong: tuple[Any, ...] = ("0", 1.5, None, [0, 1], slice("a", "b"))
    for number in wrong:
        with pytest.raises(TypeError, match=r"is no number of an example: expected"):
            records[number]
    with pytest.raises(TypeError, match=r"'0' is no number of an example: expected"):
        records.encoded(["0"])  # type: ignore[list-item]
    with pytest.raises(KeyError, match="nowhere"):
        records.by_key("nowhere.JPEG")


def test_what_only_examples_have(records: Records) -> None:
    with pytest.raises(AttributeError, match=r"no 'array'; each example has: \[it\.array for it"):
        records[0:2].array  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match=r"have no 'xyz'$"):
        records.xyz  # type: ignore[attr-defined]  # noqa: B018


def test_iterations_and_reads_by_number_do_not_disturb_each_other(records: Records) -> None:
    expected = keys(records)
    found = []
    for first, second in zip(records, records, strict=True):
        assert first == second
        assert records[-1].key == expected[-1]
        found.append(first.key)
    assert found == expected


def test_threads_read_what_one_reads(records: Records) -> None:
    expected = list(records) * 3
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(records.__getitem__, [*range(24)] * 3)) == expected


def test_a_copy_by_pickle_reads_the_same_from_elsewhere(
    tiny: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tiny.out.parent)
    with dataprep.open(tiny.out.name) as records:
        expected = records[5], list(records.part(1, 2))
        monkeypatch.chdir("/")
        with pickle.loads(pickle.dumps(records)) as copy:
            assert (copy[5], list(copy.part(1, 2))) == expected
        part = pickle.loads(pickle.dumps(records.part(1, 2)))
        assert list(part) == expected[1]
        part.close()


# Runs by itself: what other tests left in this process, such as threads of TensorFlow, of which a
# child has only the memory, could keep a child from ending when its garbage is collected.
FORK = """
import gc, multiprocessing, os, sys
import dataprep

records = dataprep.open(sys.argv[1])
expected = [records[number] for number in range(24)]
receiver, sender = multiprocessing.Pipe(duplex=False)
child = os.fork()  # which gets the parent's open files
if child == 0:
    sender.send([records[number] for number in range(-1, 23)])
    records.close()
    del records
    gc.collect()
    os._exit(0)
sender.close()
assert receiver.recv() == [expected[-1], *expected[:-1]]
assert os.waitpid(child, 0)[1] == 0
assert [records[number] for number in range(24)] == expected
"""


@pytest.mark.parametrize("name", READABLE)
def test_a_fork_reads_the_same_and_leaves_the_parent_alone(shelf: Shelf, name: str) -> None:
    # Arrow has threads of its own, about which newer Pythons warn.
    quiet = "ignore:.*multi-threaded.*fork:DeprecationWarning"
    out = str(shelf(name).out)
    command = [sys.executable, "-W", "error", "-W", quiet, "-c", FORK, out]
    subprocess.run(command, check=True, timeout=120)


def open_files(out: Path) -> int:
    return sum(file.path.startswith(f"{out}/") for file in psutil.Process().open_files())


def test_at_most_32_shards_are_open(many: Made) -> None:
    with dataprep.open(many.out) as records:
        assert open_files(many.out) == 0
        for number in range(40):
            assert records[number].key
            assert open_files(many.out) == min(number + 1, 32)
        for number in (0, 39, 20, 0):  # closed and open ones
            assert [records[number]] == list(records[number : number + 1])
        assert open_files(many.out) == 32
        records.close()
        assert open_files(many.out) == 0
        assert records[3].key
    assert open_files(many.out) == 0


def test_nothing_stays_open_when_it_is_forgotten(many: Made) -> None:
    records = dataprep.open(many.out)
    assert records[0].key
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(records.__getitem__, 1).result().key
        assert open_files(many.out) == 2
    assert open_files(many.out) == 1  # the thread has ended
    iterator = iter(records)
    next(iterator)
    del iterator, records  # and no ResourceWarning, which would be an error here
    gc.collect()
    assert open_files(many.out) == 0


# --- pictures, labels, PyTorch ---


def test_an_example_is_a_picture_and_an_array(records: Records) -> None:
    for example in records[:3]:
        picture, pixels = example.image(), example.array()
        assert (picture.mode, picture.size) == ("RGB", (16, 16))
        assert (pixels.shape, pixels.dtype) == ((16, 16, 3), np.dtype(np.uint8))
        with Image.open(io.BytesIO(example.encoded)) as expected:
            assert picture.tobytes() == expected.convert("RGB").tobytes() == pixels.tobytes()


def test_labels_are_those_of_the_examples_without_reading_them(
    tiny: Made, radiographs: Made, tmp_path: Path
) -> None:
    for made in (tiny, radiographs):
        with dataprep.open(made.out) as records:
            many = [[int(n in it.labels) for n in range(len(records.classes))] for it in records]
            single = [it.labels[0] for it in records] if made is tiny else None
        out = made.copy(tmp_path / made.out.parent.name)
        for path in (out / "train").iterdir():
            path.write_bytes(b"")  # whoever reads one now meets an error
        labels = dataprep.open(out).labels
        assert labels.dtype == np.int64
        assert labels.tolist() == (single or many)
        assert dataprep.open(out)[3:7].labels.tolist() == labels[3:7].tolist()


def test_a_part_says_of_what_it_is(tiny: Made) -> None:
    with dataprep.open(tiny.out) as records:
        assert repr(records) == (whole := f"<24 records of train in {tiny.out}, tfrecord>")
        first, *lines = repr(records[1:9]).splitlines()
        assert first == f"<8 examples of {whole}:"
        assert [line.partition("  class")[0] for line in lines] == [
            *(f"{number}: {records[number + 1].key}" for number in range(5)),
            "and 3 more>",
        ]


@given(st.lists(st.integers(-24, 23), max_size=40))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_batch_is_what_single_reads_give(records: Records, numbers: list[int]) -> None:
    expected = [records[number] for number in numbers]
    assert records.__getitems__(numbers) == expected
    assert records.encoded(numbers) == [example.encoded for example in expected]


def test_what_is_not_there_or_damaged_is_named(tiny: Made, tmp_path: Path) -> None:
    out = tiny.copy(tmp_path / "out")
    shard = out / "train" / "train-00002-of-00006"
    data = bytearray(shard.read_bytes())
    data[100] ^= 1
    shard.write_bytes(data)
    with dataprep.open(out) as records:

        def one_by_one(numbers: list[int]) -> list[Example]:
            return [records[number] for number in numbers]

        for read in (one_by_one, records.__getitems__, records.encoded):
            assert len(read([9, 7])) == 2
            with pytest.raises(IndexError, match="train: no example 24 of 24"):
                read([0, 24])
            with pytest.raises(SinkError, match="train-00002-of-00006: record 0"):
                read([9, 8, 7])


def test_a_batch_of_more_shards_than_may_be_open(many: Made) -> None:
    with dataprep.open(many.out) as records:
        expected = keys(records)
        assert [example.key for example in records.__getitems__(range(39, -1, -1))] == [
            *reversed(expected)
        ]
        assert open_files(many.out) <= 32


def pictures() -> dict[str, Image.Image]:
    """One of each kind that decoders treat in their own way."""
    noise = np.random.default_rng(0).integers(0, 256, (37, 53, 4), np.uint8)
    photograph = Image.fromarray(noise[:, :, :3]).resize((300, 199), Image.Resampling.BICUBIC)
    return {
        "RGB": photograph,
        "L": photograph.convert("L"),
        "CMYK": photograph.convert("CMYK"),
        "one": photograph.crop((0, 0, 1, 1)),
    }


@pytest.mark.parametrize("colorspace", ["RGB", "Grayscale"])
@pytest.mark.parametrize("kind", pictures())
@pytest.mark.parametrize(
    "saving",
    [
        {"format": "JPEG", "quality": 75},
        {"format": "JPEG", "subsampling": "4:4:4", "progressive": True},
        {"format": "JPEG", "subsampling": "4:2:2"},
        {"format": "JPEG", "keep_rgb": True},
        {"format": "PNG"},
    ],
    ids=str,
)
def test_the_pixels_are_those_of_pillow(kind: str, saving: dict[str, Any], colorspace: str) -> None:
    picture = pictures()[kind]
    if saving["format"] == "PNG" and kind == "CMYK":
        picture = Image.fromarray(np.arange(600, dtype=np.uint16).reshape(20, 30))  # 16 bits
    buffer = io.BytesIO()
    picture.save(
        buffer,
        **{key: value for key, value in saving.items() if kind == "RGB" or key != "keep_rgb"},
    )
    example = Example(
        "key", buffer.getvalue(), saving["format"], picture.height, picture.width, colorspace,
        (0,), "", "",
    )  # fmt: skip
    expected = np.asarray(example.image())
    assert example.array().dtype == expected.dtype
    assert np.array_equal(example.array(), expected)


def test_the_pixels_of_a_jpeg_that_ends_early_are_those_of_pillow_or_its_error() -> None:
    buffer = io.BytesIO()
    pictures()["RGB"].save(buffer, "JPEG")
    example = Example("key", buffer.getvalue()[:-900], "JPEG", 199, 300, "RGB", (0,), "", "")
    with pytest.raises(OSError, match="truncated"):
        example.image()
    with pytest.raises(OSError, match="truncated"):
        example.array()
