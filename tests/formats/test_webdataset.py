"""WebDataset: Python's own bytes, DALI's own index, round trips, and damage that is noticed."""

from __future__ import annotations

import io
import json
import re
import tarfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.errors import SinkError, UsageError
from dataprep.formats import DatasetInfo
from dataprep.formats.example import Example
from dataprep.formats.webdataset import sample as webdataset_sample
from dataprep.formats.webdataset.sample import Stems
from dataprep.formats.webdataset.sink import WebDatasetSink, header
from dataprep_schemas.fields import BOX_LABELS, BOXES, CAPTIONS, Field
from tests.formats import examples as examples_
from tests.formats.examples import picture

SINK = WebDatasetSink()
SINGLE = replace(examples_.SINGLE, fields=(BOXES,))
MULTI = replace(examples_.MULTI, fields=(BOXES, BOX_LABELS))
PLAIN = (Field("view", "text"), Field("age", "int"))
RADIOGRAPHS = replace(MULTI, fields=(*MULTI.fields, CAPTIONS, *PLAIN))
SAID: dict[str, object] = {
    "boxes": ((0.0, 0.25, 0.5, 1.0),),
    "box_labels": (3,),
    "captions": ("two lungs", "ein Thorax, 左"),
    "view": "PA",
    "age": 58,
}

# What one sample is, in the order of the archive; written down, not computed.
PARTS = [
    ("n00000001/1.jpg", b"\xff\xd8 not really a JPEG \xff\xd9"),
    ("n00000001/1.cls", b"1"),
    (
        "n00000001/1.json",
        b'{"boxes":[[0.0,0.25,0.5,1.0]],"class_name":"class 1","colorspace":"RGB","format":"JPEG",'
        b'"height":16,"key":"n00000001/1.JPEG","labels":[1],"synset":"n00000001","width":21}',
    ),
]


def example(number: int, info: DatasetInfo = SINGLE, **changes: Any) -> Example:
    return examples_.example(number, info, **changes)


def write(directory: Path, examples: Sequence[Example], info: DatasetInfo) -> list[Path]:
    directory.mkdir(exist_ok=True)
    paths = [directory / ".train.tar.12ab.partial", directory / ".train.idx.12ab.partial"]
    examples_.write(SINK, paths, info, examples)
    return paths


def read(paths: Sequence[Path], info: DatasetInfo) -> list[Example]:
    return examples_.read(SINK, paths, info)


def archive(path: Path, members: Sequence[tuple[str, bytes]], kind: int) -> Path:
    """What Python's tarfile makes of the members."""
    with tarfile.open(path, "w", format=kind) as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), 0o444
            tar.addfile(info, io.BytesIO(data))
    return path


def test_the_bytes_are_those_of_pythons_tarfile(tmp_path: Path) -> None:
    data, index = write(tmp_path, [example(1, encoded=PARTS[0][1])], SINGLE)
    theirs = archive(tmp_path / "theirs.tar", PARTS, tarfile.USTAR_FORMAT)
    assert data.read_bytes() == theirs.read_bytes()
    assert index.read_bytes() == (
        b"v1.2 1\n"
        b"jpg 512 23 n00000001/1.jpg cls 1536 1 n00000001/1.cls json 2560 170 n00000001/1.json\n"
    )


@given(
    name=st.lists(st.text("abc_", min_size=1, max_size=90), min_size=1, max_size=4).map("/".join),
    size=st.integers(0, 8**11 - 1),
)
def test_headers_are_those_of_pythons_tarfile(name: str, size: int) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o444
    try:
        theirs = info.tobuf(tarfile.USTAR_FORMAT)
    except ValueError:  # name is too long
        with pytest.raises(SinkError, match="cannot hold the name"):
            header(name.encode(), size)
    else:
        assert header(name.encode(), size) == theirs
    with pytest.raises(SinkError, match="a ustar header holds less than"):
        header(b"a", 8**11)


def test_every_truncation_is_noticed(tmp_path: Path) -> None:
    paths = write(tmp_path, [example(0), example(1)], SINGLE)
    data = paths[0].read_bytes()
    for size in range(0, len(data), 17):
        paths[0].write_bytes(data[:size])
        with pytest.raises(SinkError, match="partial"):
            read(paths, SINGLE)
        if size < len(data.rstrip(b"\0")):
            with pytest.raises(SinkError, match="partial"):
                read(paths[:1], SINGLE)


@pytest.mark.parametrize(
    "kind",
    [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT],
    ids=["ustar", "gnu", "pax"],
)
def test_archives_of_others_are_read(tmp_path: Path, kind: int) -> None:
    long = "d" * 70 + "/" + ("é" if kind != tarfile.USTAR_FORMAT else "e") * 80
    members = [
        ("__meta__/x.jpg", b"passed over"),
        ("d/.hidden.jpg", b"passed over"),
        ("README", b"passed over"),
        (f"{long}.cls", b"3\n"),
        (f"{long}.JPG", picture(0)),
        ("b.png", picture(3, "PNG")),
        ("b.json", b'{"key": "000", "width": 7, "caption": "not ours"}'),
    ]
    if kind == tarfile.USTAR_FORMAT:
        members = [(name.replace(long, "d/e"), data) for name, data in members]
        long = "d/e"
    path = archive(tmp_path / "theirs.tar", members, kind)
    data = path.read_bytes()
    path.write_bytes(data.rstrip(b"\0") + bytes(-len(data.rstrip(b"\0")) % 512 + 1024))
    with SINK.reader([path], SINGLE) as reader:
        first, second = reader
        assert [reader[1], reader[0]] == [second, first]
    assert (first.key, first.labels, first.synset, first.width) == (long, (3,), "n00000003", 20)
    assert (second.key, second.labels, second.format, second.width) == ("b", (), "PNG", 23)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([("a.cls", b"1")], "record 0: it has 0 images, expected 1"),
        ([("a.jpg", picture(0)), ("a.png", picture(3, "PNG"))], "it has 2 images"),
        ([("a.jpg", picture(0)), ("a.jpg", picture(0))], r"it has two parts \.jpg"),
        ([("a.jpg", b"GIF89a")], "neither JPEG nor PNG"),
        ([("a.jpg", picture(0)), ("a.cls", b"tench")], "record 0: ValueError: .*b'tench'"),
        (
            [("a.jpg", picture(0)), ("a.json", b'{"labels": [1]}')],
            "record 0: ValidationError: .*`class_name`",
        ),
        ([PARTS[0], (PARTS[1][0], b"2"), PARTS[2]], r"its \.cls says 2, its \.json \[1\]"),
        ([("a.png", b""), ("a.json", PARTS[2][1])], r"it is a \.png, but its \.json says JPEG"),
        ([PARTS[0], ("n00000001/1.json", PARTS[2][1].replace(b"[1]", b"[14]"))], "of the 14"),
    ],
)
def test_samples_that_make_no_sense_are_refused(
    tmp_path: Path, members: list[tuple[str, bytes]], message: str
) -> None:
    path = archive(tmp_path / "theirs.tar", members, tarfile.USTAR_FORMAT)
    with pytest.raises(SinkError, match=message):
        read([path], SINGLE)


@pytest.mark.parametrize("info", [SINGLE, MULTI], ids=["single", "multi"])
def test_the_webdataset_library_reads_the_same(tmp_path: Path, info: DatasetInfo) -> None:
    keys = ["a.jpg", "a.png", "__x__/a.jpg", ".b", "../c", "é d", "{e..f}.jpg", "g.h.i"]
    examples = [example(number, info, key=key) for number, key in enumerate(keys)]
    paths = write(tmp_path / "a{b,c}", examples, info)
    try:
        records = SINK.reference_records(paths, info)
    except UsageError as missing:
        pytest.skip(str(missing))
    assert list(records) == [(one.encoded, one.labels) for one in examples]
    assert list(SINK.reference_records(write(tmp_path / "n", [], info), info)) == []
    paths[0].write_bytes(paths[0].read_bytes()[:700])
    with pytest.raises(SinkError, match="webdataset cannot read it"):
        list(SINK.reference_records(paths, info))


def test_the_json_says_everything_but_the_image(tmp_path: Path) -> None:
    one = example(1, RADIOGRAPHS, labels=(1, 3), fields=SAID)
    paths = write(tmp_path, [one, example(2, RADIOGRAPHS)], RADIOGRAPHS)
    fields, others = (json.loads(data) for data in members(paths[0], ".json"))
    there = {*Example.__dataclass_fields__} - {"encoded", "fields"}
    assert set(fields) == there | {"attributes", "boxes", "box_labels", "captions"}
    assert fields["attributes"] == {"age": 58, "view": "PA"}
    assert fields["box_labels"] == [3]
    assert others["attributes"] == {}, "always there, so that readers need not ask"
    assert "box_labels" not in others
    assert fields["captions"] == ["two lungs", "ein Thorax, 左"]
    assert members(paths[0], ".txt") == [b"two lungs", b""], "the same parts in every sample"
    assert read(paths, RADIOGRAPHS)[0] == one


def test_a_text_beside_an_image_is_its_caption(tmp_path: Path) -> None:
    image = picture(1)
    foreign = [("a.jpg", image), ("a.txt", "ein Bär".encode()), ("b.jpg", image), ("b.txt", b"")]
    path = archive(tmp_path / "theirs.tar", foreign, tarfile.USTAR_FORMAT)
    with SINK.reader([path], MULTI) as reader:
        assert [one.fields for one in reader] == [{"captions": ("ein Bär",)}, {}]
    one = example(1, RADIOGRAPHS, fields={"captions": ("said",)})
    parts = webdataset_sample.encode(one, RADIOGRAPHS)
    other = {extension: b"else" if extension == "txt" else data for extension, data in parts}
    with pytest.raises(SinkError, match=r"its \.txt is not the first caption of its \.json"):
        webdataset_sample.decode("stem", other, RADIOGRAPHS)


def members(data: Path, suffix: str) -> list[bytes]:
    with tarfile.open(data) as tar:
        found = [member for member in tar if member.name.endswith(suffix)]
        return [file.read() for member in found if (file := tar.extractfile(member)) is not None]


keys = st.one_of(
    st.text(max_size=60),
    st.text("ab./_%", max_size=12),
    st.text(["a", "é", "/", ".", "\udcff"], min_size=80, max_size=400),
)


@pytest.mark.parametrize(
    ("key", "stem"),
    [
        ("n01440764/n01440764_10026.JPEG", "n01440764/n01440764_10026"),
        ("ILSVRC2012_val_00000001.JPEG", "ILSVRC2012_val_00000001"),
        ("a/b.c.d.png", "a/b_c_d"),
        ("v1.0/b.png", "v1.0/b"),
        ("/etc/passwd", "etc/passwd"),
        ("../../x.jpg", "%2E%2E/%2E%2E/x"),
        ("./a//x.jpg", "%2E/a/x"),
        ("..", "_"),
        ("", "_"),
        (".jpg", "_jpg"),
        ("a/.hidden.jpg", "a/_hidden"),
        ("two words\n.jpg", "two%20words%0A"),
        ("山/é.jpg", "%E5%B1%B1/%C3%A9"),
        ("\udcff.jpg", "%FF"),
        ("__MACOSX__/x.jpg", "%5F_MACOSX__/x"),
    ],
)
def test_stems(key: str, stem: str) -> None:
    assert Stems(DatasetInfo()).name(key) == stem


def test_equal_stems_are_told_apart_by_a_digest_of_the_key() -> None:
    stems = Stems(DatasetInfo())
    # sha256sum of "a.png", "d/a.b" and "1/a.png"
    assert [stems.name(key) for key in ("a.jpg", "a.png", "d/a", "d/a.b", "a.png")] == [
        "a",
        "a-7f071235805fbf58",
        "d/a",
        "d/a-1e2a6dd56cb8b462",
        "a-137c75bacac37dd7",
    ]


@given(st.lists(keys, max_size=20))
def test_no_two_stems_are_equal_and_all_are_safe(found: list[str]) -> None:
    stems = Stems(DatasetInfo())
    names = [stems.name(key) for key in found]
    assert len(set(names)) == len(names)
    again = Stems(DatasetInfo())
    assert [again.name(key) for key in found] == names
    for name in names:
        assert re.fullmatch(r"[!-~]+", name)
        assert "\\" not in name
        *directories, base = name.split("/")
        assert base
        assert "." not in base
        assert not {"", ".", ".."} & set(directories)
        assert not re.match(r"__[^/]*__($|/)", f"{name}.jpg")
        assert len(header(f"{name}.json".encode("ascii"), 0)) == 512
