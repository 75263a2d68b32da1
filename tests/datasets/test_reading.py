"""Reading by offset, from many archives and threads, and noticing that the input changed."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from dataprep.datasets import close_archives, read_image, reading
from dataprep.errors import ImageError, SourceError
from dataprep.recipe import MAX_IMAGE_BYTES
from dataprep.rows import Row
from dataprep_schemas import imagenet_classes
from tests.datasets.conftest import RawData


def first_row(raw: RawData) -> Row:
    return raw.scan("train")[0][0]


def test_a_file_of_another_size_is_noticed(raw: RawData) -> None:
    raw.train_tree()
    row = first_row(raw)
    raw.write(row.container, b"short")
    with pytest.raises(SourceError, match=f"{row.container} changed since .* it has 5 bytes, exp"):
        read_image(raw.path, row)
    raw.write(row.container, b"x" * (row.size + 1))
    with pytest.raises(SourceError, match=f"has more than {row.size} bytes, expected {row.size}"):
        read_image(raw.path, row)
    (raw.path / row.container).unlink()
    with pytest.raises(SourceError, match=r"changed since it was indexed: it no longer exists"):
        read_image(raw.path, row)


def test_a_shorter_or_vanished_archive_is_noticed(raw: RawData) -> None:
    raw.train_archive()
    row = first_row(raw)
    os.truncate(raw.path / row.container, row.offset + row.size - 1)
    with pytest.raises(SourceError, match=r"train.tar changed since .* it was modified; restore"):
        read_image(raw.path, row)
    row = msgspec.structs.replace(row, container_mtime=0)  # nobody looked
    with pytest.raises(SourceError, match=r"ends at byte \d+, but the archive has \d+ bytes"):
        read_image(raw.path, row)
    (raw.path / row.container).unlink()
    close_archives()
    with pytest.raises(SourceError, match=r"train.tar changed since .* it no longer exists"):
        read_image(raw.path, row)


def test_a_new_search_sees_a_replaced_archive(raw: RawData) -> None:
    raw.train_archive()
    read_image(raw.path, first_row(raw))
    raw.write("new", raw.tar([("n01440764.tar", raw.tar([("a.JPEG", b"new bytes")]))]))
    (raw.path / "new").replace(raw.path / "ILSVRC2012_img_train.tar")
    close_archives()
    assert read_image(raw.path, first_row(raw)) == b"new bytes"


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_threads_share_a_bounded_number_of_open_archives(raw: RawData) -> None:
    synsets = [synset for synset, _ in imagenet_classes()[:150]]
    for synset in synsets:
        raw.write_tar(f"train/{synset}.tar", [(f"{synset}_1.JPEG", synset.encode())])
    rows = raw.scan("train")[0]
    before = open_files()
    with ThreadPoolExecutor(8) as pool:
        images = list(pool.map(lambda row: read_image(raw.path, row).decode(), rows * 5))
    assert images == synsets * 5
    assert before + 32 < open_files() <= before + reading._MOST_OPEN_ARCHIVES + 8
    close_archives()
    assert open_files() <= before + 8


@pytest.mark.parametrize(
    "row",
    [
        Row("a", "a.jpg", 0, 10**18, 0, (0,)),  # as a listing may say
        Row("a", "a.tar", 512, 5 << 30, 0, (0,)),
        Row("a", "a.tgz", 512, 10 << 30, 0, (0,), packing=("gzip", "a.restarts")),
        Row("a", "a.zip", 512, 10, 0, (0,), packing=("deflate", 5 << 30, 0)),
    ],
)
def test_an_image_of_endless_bytes_is_rejected_unread(tmp_path: Path, row: Row) -> None:
    with pytest.raises(ImageError, match=r"[0-9,]{13} bytes, at most 268,435,456 allowed"):
        read_image(tmp_path, row, tmp_path, most=MAX_IMAGE_BYTES)
