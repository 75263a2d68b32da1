"""Damaged archives: nothing is lost in silence, and nothing outside an archive is read."""

from __future__ import annotations

import gzip
import os
import tarfile
from contextlib import nullcontext, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataprep.archives.containers import list_container
from dataprep.datasets import ImageNet
from dataprep.errors import SourceError
from dataprep_schemas import imagenet_classes
from tests.datasets.conftest import RawData, places_of

SYNSET = "n01440764"
OTHER, ANOTHER = (imagenet_classes()[number][0] for number in (16, 32))  # in units of their own
IMAGES = [(f"{SYNSET}_{number}.JPEG", bytes([number]) * 700) for number in range(1, 5)]
END = len(IMAGES) * (512 + 1024)


@settings(max_examples=60, deadline=None)
@given(kept=st.integers(0, END + 511))
def test_a_truncated_inner_archive_is_refused_and_never_read_beyond(
    make_raw: type[RawData], kept: int
) -> None:
    with TemporaryDirectory() as directory:
        raw = make_raw(Path(directory) / "raw")
        inner = raw.tar(IMAGES)[:kept]
        follower = raw.tar([(f"{SYNSET}_9.JPEG", b"belongs to the next archive")])
        outer = [(f"{SYNSET}.tar", inner), (f"{OTHER}.tar", follower)]
        raw.write_tar("ILSVRC2012_img_train.tar", outer)
        found = ImageNet().find(raw.path, ["train"])
        damaged, whole = found.units
        with pytest.raises(
            SourceError, match=rf"\(inner archive {SYNSET}.tar\) (is|has 0)"
        ) as caught:
            ImageNet().scan(raw.path, found, damaged)
        assert "copy or download it again" in str(caught.value)
        assert [row.key for row in ImageNet().scan(raw.path, found, whole).rows["train"]] == [
            f"{OTHER}/{SYNSET}_9.JPEG"
        ]


@pytest.mark.parametrize("kept", [None, 1536, 2000, END])
def test_no_byte_outside_the_inner_archive_is_read(
    raw: RawData, monkeypatch: pytest.MonkeyPatch, kept: int | None
) -> None:
    inner = raw.tar(IMAGES)[:kept]
    neighbour = raw.tar(IMAGES)
    outer = [(OTHER, neighbour), (SYNSET, inner), (ANOTHER, neighbour)]
    raw.write_tar("ILSVRC2012_img_train.tar", [(f"{name}.tar", data) for name, data in outer])
    found = ImageNet().find(raw.path, ["train"])
    unit = found.units[0]
    (place,) = places_of(unit)
    assert place.category == SYNSET
    assert place.size is not None
    read = []
    pread = os.pread

    def record(descriptor: int, size: int, offset: int) -> bytes:
        read.append((offset, offset + size))
        return pread(descriptor, size, offset)

    monkeypatch.setattr(os, "pread", record)
    with pytest.raises(SourceError) if kept else nullcontext():
        ImageNet().scan(raw.path, found, unit)
    assert read
    assert min(start for start, _ in read) >= place.offset
    assert max(end for _, end in read) <= place.offset + place.size


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_truncated_outer_archive_is_refused(make_raw: type[RawData], data: st.DataObject) -> None:
    with TemporaryDirectory() as directory:
        raw = make_raw(Path(directory) / "raw")
        inner = raw.tar(IMAGES)
        outer = raw.tar([(f"{name}.tar", inner) for name in (SYNSET, "n01443537")])
        kept = data.draw(st.integers(0, 2 * (512 + len(inner)) + 511))
        raw.write("ILSVRC2012_img_train.tar", outer[:kept])
        with pytest.raises(SourceError, match=r"ILSVRC2012_img_train.tar (is|has 0)"):
            ImageNet().find(raw.path, ["train"])


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(0, END + 1023), st.binary(min_size=1, max_size=40))))
def test_whatever_is_overwritten_the_answer_is_rows_or_a_source_error(
    make_raw: type[RawData], patches: list[tuple[int, bytes]]
) -> None:
    with TemporaryDirectory() as directory:
        raw = make_raw(Path(directory) / "raw")
        content = bytearray(raw.tar(IMAGES))
        for offset, patch in patches:
            content[offset : offset + len(patch)] = patch
        with suppress(SourceError):
            rows, _ = raw.scan_class_tar(SYNSET, bytes(content))
            assert all(row.offset + row.size <= len(content) for row in rows)


@pytest.mark.parametrize("member", range(len(IMAGES)))
def test_a_damaged_header_is_refused_and_not_taken_for_the_end(raw: RawData, member: int) -> None:
    content = bytearray(raw.tar(IMAGES))
    content[member * 1536 + 150] ^= 1
    with pytest.raises(SourceError, match=f"{SYNSET}.tar is damaged"):
        raw.scan_class_tar(SYNSET, bytes(content))


def test_a_hole_is_not_taken_for_the_end(raw: RawData) -> None:
    images = [(f"{SYNSET}_{number}.JPEG", b"x" * 20_000) for number in range(4)]
    content = bytearray(raw.tar(images))
    content[20_992:40_000] = bytes(40_000 - 20_992)
    with pytest.raises(SourceError, match="end-of-archive mark at byte 20992 but goes on"):
        raw.scan_class_tar(SYNSET, bytes(content))


def test_joined_archives_are_refused_and_an_unfilled_record_is_not(raw: RawData) -> None:
    with pytest.raises(SourceError, match="joined archives"):
        raw.scan_class_tar(SYNSET, raw.tar(IMAGES) * 2)
    padding = raw.tar(IMAGES)[: END + 1024] + b"left over" * 50
    assert len(raw.scan_class_tar(SYNSET, padding)[0]) == len(IMAGES)
    assert len(raw.scan_class_tar(SYNSET, raw.tar(IMAGES)[: END + 512])[0]) == len(IMAGES)


@pytest.mark.parametrize("suffix", [".tar", ".tar.gz"])
def test_more_zeros_than_fill_a_record_are_a_transfer_that_was_cut_off(
    raw: RawData, suffix: str
) -> None:
    whole = raw.tar([(f"{number}.jpg", b"x" * 5000) for number in range(100)])
    cut = 60 * (512 + 5120)
    content = whole[:cut] + bytes(len(whole) - cut)
    raw.write(f"a{suffix}", gzip.compress(content) if suffix == ".tar.gz" else content)
    zeros = f"a{suffix} has {len(whole) - cut} bytes of zeros or more after its last member"
    with pytest.raises(SourceError, match=f"{zeros}, from byte {cut} on; .* cut off; copy or"):
        list_container(raw.path, f"a{suffix}")
    raw.write("b.tar", content[:cut] + bytes(100 << 20))
    with pytest.raises(SourceError, match=r"b.tar has [0-9]{7} bytes of zeros or more"):
        list_container(raw.path, "b.tar")


@pytest.mark.parametrize("times", [1, 30])
@pytest.mark.parametrize("blocks", [1, 20, 128, 4096])
def test_what_fills_the_last_record_of_any_blocking_factor_is_taken(
    raw: RawData, blocks: int, times: int
) -> None:
    content = raw.tar(IMAGES)[:END] * times + bytes(1024)
    raw.write("a.tar", content + bytes(-len(content) % (512 * blocks)))
    assert len(list_container(raw.path, "a.tar").images) == times * len(IMAGES)


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.REGTYPE])
@pytest.mark.parametrize("size", [3 << 20, 1 << 60, -512])
def test_a_forged_extension_length_neither_claims_memory_nor_loops(
    raw: RawData, kind: bytes, size: int
) -> None:
    header = raw.special("long", kind, size=size).tobuf(tarfile.GNU_FORMAT)
    content = raw.tar(IMAGES, end=False) + header + bytes(10_240)
    with pytest.raises(SourceError, match=f"{SYNSET}.tar is (damaged|truncated)"):
        raw.scan_class_tar(SYNSET, content)


def test_a_size_for_all_members_is_refused_where_it_overlaps_the_next(raw: RawData) -> None:
    extension = tarfile.TarInfo.create_pax_global_header({"size": "5000"})
    with pytest.raises(SourceError, match=rf"impossible size of {SYNSET}_1.JPEG"):
        raw.scan_class_tar(SYNSET, extension + raw.tar(IMAGES))


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE])
@pytest.mark.parametrize("records", [b"1" * 9000, b"1" * 8000, b"8192 comment=" + b"1" * 8178])
def test_pax_headers_take_no_endless_time(raw: RawData, kind: bytes, records: bytes) -> None:
    header = tarfile.TarInfo("pax")
    header.type, header.size = kind, len(records)
    content = header.tobuf(tarfile.USTAR_FORMAT) + records + bytes(-len(records) % 512)
    for name, packed in (("a.tar", bytes), ("a.tar.gz", gzip.compress)):
        raw.write(name, packed(content + raw.tar(IMAGES)))
        with suppress(SourceError) if len(records) <= 8192 else pytest.raises(SourceError):
            list_container(raw.path, name)
