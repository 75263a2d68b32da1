"""Without names, places and comments: the pixels and what is coded stay what they were."""

from __future__ import annotations

import io
import os
import struct
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageCms, PngImagePlugin

import dataprep
from dataprep.images import Recipe, jpeg, png, prepare
from dataprep.images.decode import metadata_of, orientation_of, shown
from dataprep.sealed.set import SealedSet
from tests.conftest import Cli

SECRET = b"Erika Mustermann"
PROFILE = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


def photograph(width: int = 64, height: int = 48) -> Image.Image:
    levels = np.random.default_rng(1).integers(0, 256, (height // 8, width // 8, 3), np.uint8)
    return Image.fromarray(levels).resize((width, height))


def exif_of(orientation: int) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    exif[0x013B] = SECRET.decode()
    exif.get_ifd(0x8825)[2] = (48.0, 8.0, 0.0)
    return exif.tobytes()


def telling_jpeg(orientation: int = 6, **options: object) -> bytes:
    file = io.BytesIO()
    photograph().save(
        file, "JPEG", exif=exif_of(orientation), comment=SECRET, icc_profile=PROFILE, **options
    )
    data = file.getvalue()
    xmp = b"http://ns.adobe.com/xap/1.0/\0<x>" + SECRET + b"</x>"
    thumbnail = b"JFXX\0\x10" + SECRET
    more = b"".join(
        b"\xff" + bytes([code]) + struct.pack(">H", len(body) + 2) + body
        for code, body in ((0xE0, thumbnail), (0xE1, xmp), (0xED, b"Photoshop 3.0\0" + SECRET))
    )
    comment = b"\xff\xfe" + struct.pack(">H", len(SECRET) + 2) + SECRET
    scans = data.count(b"\xff\xda")
    if scans > 1:  # a comment between two scans
        last = data.rindex(b"\xff\xda")
        data = data[:last] + comment + data[last:]
    jfif_end = 20
    return data[:jfif_end] + more + data[jfif_end:] + b"a trailer: " + SECRET


def coded(data: bytes) -> bytes:
    """From the first scan on."""
    return data[data.index(b"\xff\xda") :]


@pytest.mark.parametrize("orientation", [1, 6])
@pytest.mark.parametrize("options", [{}, {"progressive": True}])
def test_a_jpeg_tells_no_more_and_shows_the_same(
    orientation: int, options: dict[str, object]
) -> None:
    data = telling_jpeg(orientation, **options)
    assert {"EXIF GPS", "EXIF owner", "XMP", "JPEG comment"} <= {*metadata_of(data)}
    found = prepare(data, Recipe(strip_metadata=True)).data
    assert SECRET not in found
    assert metadata_of(found) == (("EXIF orientation 6",) if orientation == 6 else ())
    assert orientation_of(found) == orientation
    assert (shown(found, 3) == shown(data, 3)).all()
    with Image.open(io.BytesIO(found)) as picture:
        assert picture.info["icc_profile"] == PROFILE
        assert picture.info["jfif"] == 257
        assert picture.getexif().get(0x0112, 1) == orientation
    assert jpeg.stripped(found, orientation) == found
    if not options:
        assert coded(data).startswith(coded(found)), "the coded image is untouched"


def test_a_png_tells_no_more_and_shows_the_same() -> None:
    text = PngImagePlugin.PngInfo()
    text.add_text("Author", SECRET.decode())
    text.add_itxt("Patient", SECRET.decode())
    text.add(b"tIME", bytes(7))
    text.add(b"prVt", SECRET)
    file = io.BytesIO()
    photograph().save(file, "PNG", pnginfo=text, exif=exif_of(6), icc_profile=PROFILE)
    data = file.getvalue() + SECRET
    recipe = Recipe(strip_metadata=True, passes=("JPEG", "PNG"))
    found = prepare(data, recipe).data
    assert SECRET not in found
    assert metadata_of(found) == ("EXIF orientation 6",)
    assert (shown(found, 3) == shown(data, 3)).all()
    with Image.open(io.BytesIO(found)) as picture:
        picture.load()
        assert picture.info["icc_profile"] == PROFILE
        assert picture.getexif()[0x0112] == 6
    assert png.stripped(found, 6) == found
    plain = io.BytesIO()
    photograph().save(plain, "PNG")
    assert prepare(plain.getvalue(), recipe).data == plain.getvalue()


def test_what_has_nothing_is_kept_byte_for_byte() -> None:
    file = io.BytesIO()
    photograph().save(file, "JPEG")
    assert prepare(file.getvalue(), Recipe(strip_metadata=True)).data == file.getvalue()


@pytest.mark.skipif("DATAPREP_REAL_IMAGES" not in os.environ, reason="needs real photographs")
def test_real_photographs_keep_what_is_coded() -> None:
    paths = sorted(Path(os.environ["DATAPREP_REAL_IMAGES"]).glob("*/*.JPEG"))
    shorter = 0
    for path in paths:
        data = path.read_bytes()
        found = jpeg.stripped(data, orientation_of(data))
        assert (jpeg.read_frame(found).height, orientation_of(found)) == (
            jpeg.read_frame(data).height,
            orientation_of(data),
        )
        assert not {*metadata_of(found)} - {f"EXIF orientation {orientation_of(data)}"}
        scan, was = jpeg.read_frame(found).scan, jpeg.read_frame(data).scan
        assert data[was:].startswith(found[scan:])
        shorter += len(found) < len(data)
    assert shorter > len(paths) // 10


def test_a_set_is_made_and_converted_without(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "raw" / "cat").mkdir(parents=True)
    for number in range(3):
        data = telling_jpeg() + bytes([number])
        (tmp_path / "raw" / "cat" / f"{number}.jpg").write_bytes(data)
    words = ("folder", "--raw", tmp_path / "raw", "--workers", "1", "--out")
    assert cli(*words, tmp_path / "plain").code == 0
    assert cli(*words, tmp_path / "stripped", "--strip_metadata").code == 0
    assert "EXIF owner, XMP, JPEG comment" in cli("lint", tmp_path / "plain").out
    assert "metadata:" not in cli("lint", tmp_path / "stripped").out
    done = cli("convert", tmp_path / "plain", "--to", tmp_path / "later", "--sink", "tfrecord",
               "--strip_metadata", "--workers", "1")  # fmt: skip
    assert done.code == 0, done
    later, stripped = (dataprep.open(tmp_path / name) for name in ("later", "stripped"))
    assert [it.encoded for it in later] == [it.encoded for it in stripped]
    assert SECRET not in b"".join(it.encoded for it in later)
    manifest = SealedSet.read(tmp_path / "stripped").manifest
    assert manifest.image.options["strip_metadata"] == "yes"
