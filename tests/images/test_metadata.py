"""What files say beside their pixels: it is counted, never told, and gone once encoded anew."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, PngImagePlugin

import dataprep
from dataprep.images import Recipe, Resize, prepare
from dataprep.images.decode import metadata_of
from tests.conftest import Cli, rows_of

NAME = "Doe^Jane"


def picture(kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (20, 10), "red").save(buffer, kind, **options)
    return buffer.getvalue()


def exif(**values: Any) -> Image.Exif:
    """EXIF with these tags: t… of the first directory, e… of EXIF's own, g… of GPS."""
    block = Image.Exif()
    places = {"t": block, "e": block.get_ifd(0x8769), "g": block.get_ifd(0x8825)}
    for name, value in values.items():
        places[name[0]][int(name[1:], 16)] = value
    return block


def text(**options: Any) -> PngImagePlugin.PngInfo:
    info = PngImagePlugin.PngInfo()
    if options.pop("international", False):
        info.add_itxt("PatientName", NAME, zip=True)
    else:
        info.add_text("PatientName", NAME, **options)
    return info


ALONE = "an orientation in XMP alone"


def turned(orientation: int = 6) -> bytes:
    """XMP as Adobe's tools write it."""
    return (
        b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF><rdf:Description '
        b'xmlns:tiff="http://ns.adobe.com/tiff/1.0/" tiff:Orientation="%d"/></rdf:RDF></x:xmpmeta>'
    ) % orientation


def two_pictures() -> bytes:
    """As cameras of two lenses, and phones with a depth map, write them."""
    stream = io.BytesIO()
    one, other = (Image.new("RGB", (20, 10), color) for color in ("red", "blue"))
    one.save(stream, "MPO", save_all=True, append_images=[other])
    return stream.getvalue()


FILES = {
    "plain": (picture("JPEG"), ()),
    "tEXt": (picture("PNG", pnginfo=text()), ("PNG text",)),
    "zTXt": (picture("PNG", pnginfo=text(zip=True)), ("PNG text",)),
    "iTXt": (picture("PNG", pnginfo=text(international=True)), ("PNG text",)),
    "JPEG comment": (picture("JPEG", comment=NAME), ("JPEG comment",)),
    "XMP": (picture("JPEG", xmp=NAME.encode()), ("XMP",)),
    "XMP orientation": (picture("JPEG", xmp=turned()), ("XMP", ALONE)),
    "in an element": (
        picture("JPEG", xmp=b"<tiff:Orientation>8</tiff:Orientation>"),
        ("XMP", ALONE),
    ),
    "in EXIF, too": (picture("JPEG", xmp=turned(), exif=exif(t0112=1)), ("XMP",)),
    "two pictures": (two_pictures(), ("pictures behind the first",)),
    "GPS": (picture("JPEG", exif=exif(g1="N", g2=(1.0, 2.0, 3.0))), ("EXIF GPS",)),
    "GPS in PNG": (picture("PNG", exif=exif(t010f="maker", g4=(1.0, 2.0, 3.0))), ("EXIF GPS",)),
    "artist": (picture("JPEG", exif=exif(t013b=NAME)), ("EXIF owner",)),
    "camera's owner": (picture("JPEG", exif=exif(ea430=NAME)), ("EXIF owner",)),
    "description": (picture("JPEG", exif=exif(t010e=NAME)), ("EXIF comment",)),
    "comment": (picture("JPEG", exif=exif(e9286=b"ASCII\0\0\0" + b"ill")), ("EXIF comment",)),
    "room for one": (picture("JPEG", exif=exif(e9286=b"ASCII\0\0\0" + b" " * 20)), ()),
    "maker": (picture("JPEG", exif=exif(t010f="maker", t0112=1)), ()),
    "GPS switched off": (picture("JPEG", exif=exif(g0=b"\2\2\0\0")), ()),
    "all": (
        picture("JPEG", comment=NAME, exif=exif(t0112=6, t013b=NAME, e9286=b"a", g6=1.0)),
        ("EXIF orientation 6", "EXIF GPS", "EXIF owner", "EXIF comment", "JPEG comment"),
    ),
}


@pytest.mark.parametrize("name", list(FILES))
def test_metadata_is_found_and_gone_once_encoded_anew(name: str) -> None:
    data, expected = FILES[name]
    assert metadata_of(data) == expected
    assert prepare(data, Recipe(passes=("JPEG", "PNG"))).data is data
    anew: list[dict[str, Any]] = [
        {"resize": Resize(8)},
        {"center_crop": 8},
        {"encoding": "png"},
        {"color": "gray"},
    ]
    for changes in anew:
        done = prepare(data, Recipe(passes=("JPEG", "PNG"), **changes))
        assert metadata_of(done.data) == ()
        assert b"Doe" not in done.data


@given(st.binary(max_size=200), st.sampled_from([b"MM\0*", b"II*\0", b"MM\0*\0\0\0\x08"]))
def test_damaged_metadata_does_not_raise(tail: bytes, head: bytes) -> None:
    size = (len(head + tail) + 8).to_bytes(2, "big")
    data = b"\xff\xd8\xff\xe1" + size + b"Exif\0\0" + head + tail + b"\xff\xda\0\x02"
    metadata_of(data)


def test_lint_and_inspect_count_it_and_a_conversion_looks_again(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "raw/train/a").mkdir(parents=True)
    for file in ("plain.jpg", "tEXt.png", "all.jpg"):
        (tmp_path / "raw/train/a" / file).write_bytes(FILES[file[:-4]][0])
    out, changed = tmp_path / "out", tmp_path / "changed"
    words = ("folder", "--raw", tmp_path / "raw", "--out", out)
    assert cli(*words, "--workers", 1).code == 0
    rules = ("--rules", "orientation,metadata,repaired")
    result = cli("lint", out, *rules)
    assert result.out.splitlines() == [
        "warning: orientation: stored with an EXIF orientation, by which not every reader turns it "
        "(--exif apply): 1",
        "  train/a/all.jpg: EXIF orientation 6",
        "warning: metadata: stored with text, GPS or an owner beside its pixels, perhaps of a "
        "person: 2",
        "  train/a/all.jpg: EXIF GPS, EXIF owner, EXIF comment, JPEG comment",
        "  train/a/tEXt.png: PNG text",
        f"{out}: 3 findings",
    ]
    assert NAME not in str(dataprep.lint(out)) + str(rows_of(out))
    contents = dataprep.inspect(out)
    assert isinstance(contents, dataprep.Contents)
    assert contents.turned == 1
    assert "\n1 image with an EXIF orientation other than 1: " in cli("inspect", out).out
    convert = ("convert", out, "--sink", "tfrecord", "--workers", 1, "--to")
    assert cli(*convert, changed, "--encoding", "png").code == 0
    assert cli("lint", changed, *rules).out == f"{changed}: nothing odd\n"
    assert cli(*convert, tmp_path / "same").code == 0
    contents = dataprep.inspect(tmp_path / "same")
    assert isinstance(contents, dataprep.Contents)
    assert contents.turned == 1
