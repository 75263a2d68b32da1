from __future__ import annotations

import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from dataprep.errors import ImageError
from dataprep.images import Recipe, Resize, codec_versions, jpeg, prepare
from tests.images.files import HAS_AVIF, JPEGS, PHOTO, encoded

BIG = 60_000
RECIPES = (
    Recipe(check="pixels", stats="on"),
    Recipe(resize=Resize(20), exif="apply", encoding="png", depth="keep"),
    Recipe(resize=Resize(16, 8), color="gray", encoding="jpeg"),
    Recipe(encoding="raw", color="rgb"),
    Recipe(passes=("JPEG", "PNG"), check="header"),
)


def _bombs() -> dict[str, bytes]:
    """Small files that declare 60000 x 60000 pixels (WebP: 16384 x 16384)."""
    jpeg, png = bytearray(encoded(PHOTO)), bytearray(encoded(PHOTO, "PNG"))
    frame = jpeg.index(b"\xff\xc0")
    jpeg[frame + 5 : frame + 9] = struct.pack(">HH", BIG, BIG)
    png[16:24] = struct.pack(">II", BIG, BIG)
    bmp = bytearray(encoded(PHOTO, "BMP"))
    bmp[18:26] = struct.pack("<ii", BIG, -BIG)
    lossy = bytearray(encoded(PHOTO, "WEBP"))
    lossy[26:30] = struct.pack("<HH", 16383, 16383)
    lossless = bytearray(encoded(PHOTO, "WEBP", lossless=True))
    lossless[21:25] = struct.pack("<I", 0x0FFFFFFF)
    animated = bytearray(encoded(PHOTO, "WEBP", save_all=True, append_images=[PHOTO.rotate(90)]))
    animated[24:30] = b"\xff\xff\x00" * 2
    tiff, tile = (bytearray(encoded(PHOTO, "TIFF")) for _ in range(2))
    for tag in (256, 257):
        entry = tiff.index(struct.pack("<HHI", tag, 4, 1))
        tiff[entry + 8 : entry + 12] = struct.pack("<I", BIG)
    entry = tile.index(struct.pack("<HHI", 278, 4, 1))  # rows of a strip become the width of a tile
    tile[entry : entry + 12] = struct.pack("<HHII", 322, 4, 1, 1 << 30)
    found = {}
    if HAS_AVIF:
        avif = bytearray(encoded(PHOTO, "AVIF"))
        size = avif.index(b"ispe") + 8  # larger ones libavif refuses itself
        avif[size : size + 8] = struct.pack(">II", 12_000, 12_000)
        found["AVIF"] = bytes(avif)
    boxed, stream = (bytearray(encoded(PHOTO, "JPEG2000")) for _ in range(2))
    size = boxed.index(b"ihdr") + 4
    boxed[size : size + 8] = struct.pack(">II", BIG, BIG)
    size = stream.index(b"\xff\x4f\xff\x51") + 8  # while its box says that it is small
    stream[size : size + 8] = struct.pack(">II", BIG, BIG)
    return found | {
        "JPEG 2000 box": bytes(boxed),
        "JPEG 2000 codestream": bytes(stream),
        "JPEG": bytes(jpeg),
        "TIFF": bytes(tiff),
        "TIFF tile": bytes(tile),
        "PNG": bytes(png),
        "BMP": bytes(bmp),
        "WebP lossy": bytes(lossy),
        "WebP lossless": bytes(lossless),
        "WebP animated": bytes(animated),
    }


@pytest.mark.parametrize("check", ["header", "bitstream", "pixels"])
def test_bombs_are_refused_by_the_size_they_declare(check: Any) -> None:
    for data in _bombs().values():
        for passes in (("JPEG",), ("JPEG", "PNG")):
            with pytest.raises(ImageError, match=r"decompression bomb"):
                prepare(data, Recipe(check=check, passes=passes))


def test_webp_is_refused_by_us_where_pillow_would_refuse_it() -> None:
    with pytest.raises(ImageError, match=r"too large, .* at most 178956970 allowed"):
        prepare(_bombs()["WebP lossy"], Recipe(max_pixels=1 << 30, resize=Resize(8)))


def test_resize_cannot_make_a_bomb_of_a_thin_image() -> None:
    data = encoded(Image.new("L", (20_000, 1)))
    with pytest.raises(ImageError, match="5120000x256"):
        prepare(data, Recipe(resize=Resize(256)))


def test_side_too_long_for_jpeg_is_refused() -> None:
    data = encoded(Image.new("L", (65_501, 1)), "PNG")
    with pytest.raises(ImageError, match="a side of a JPEG has at most 65500"):
        prepare(data, Recipe())
    assert prepare(data, Recipe(encoding="png")).width == 65_501


def test_pillows_own_limit_neither_warns_nor_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    recipe = Recipe(check="pixels", resize=Resize(40), center_crop=30, exif="apply")
    for format_ in ("JPEG", "PNG", "BMP"):
        assert prepare(encoded(PHOTO, format_), recipe).width == 30
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", PHOTO.width * PHOTO.height // 2)
    assert prepare(encoded(PHOTO, "WEBP"), recipe).width == 30


def test_threads_get_the_same_bytes_and_no_warnings() -> None:
    others = [encoded(PHOTO, kind) for kind in ("PNG", "BMP", "WEBP", "TIFF")]
    tasks = list(product([*JPEGS.values(), *others], RECIPES)) * 3

    def made(task: tuple[bytes, Recipe]) -> tuple[object, ...]:
        found = prepare(*task)
        return (
            found.data,
            found.notes,
            found.part,
            None if found.grey is None else found.grey.tobytes(),
        )

    alone = list(map(made, tasks))
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(made, tasks)) == alone


def test_codec_versions_are_known() -> None:
    versions = codec_versions()
    assert {"pillow", "libjpeg", "simplejpeg", "zlib"} <= versions.keys()
    assert all(text and "None" not in text for text in versions.values())


@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_a_jpeg_of_very_many_scans_is_refused_unread(mode: str) -> None:
    """1,000 scans of a photograph in 258 kB took 15 s."""
    data = encoded(PHOTO.convert(mode), progressive=True)
    last, end = data.rindex(b"\xff\xda"), len(data) - 2
    scan, scans = data[last:end], data.count(b"\xff\xda")
    most = data[:end] + scan * (100 - scans) + data[end:]
    assert jpeg.read_frame(most).width == PHOTO.width
    with pytest.raises(ImageError, match="unsupported JPEG: 101 scans, at most 100 allowed"):
        prepare(most[:end] + scan + most[end:], Recipe())


_PEAK = """
import resource, sys
from pathlib import Path
from dataprep.images import Recipe, prepare
data = Path(sys.argv[1]).read_bytes()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
prepare(data, Recipe(check=sys.argv[2]))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
_FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "progressive": ("JPEG", {"progressive": True, "subsampling": 0}),
    "CMYK": ("JPEG", {}),
    "PNG": ("PNG", {}),
    "WebP": ("WEBP", {"method": 0}),
    "lossless WebP": ("WEBP", {"method": 0, "lossless": True, "quality": 0}),
}


@pytest.mark.thorough
@pytest.mark.parametrize("check", ["bitstream", "pixels"])
@pytest.mark.parametrize("form", _FORMS)
def test_an_image_needs_20_bytes_of_memory_a_pixel(tmp_path: Path, form: str, check: str) -> None:
    """Which `docs/images.md` says; and 16 MiB, whatever its size."""
    side = 3000
    image = Image.effect_noise((side // 50, side // 50), 90).resize((side, side)).convert("RGB")
    kind, options = _FORMS[form]
    image.convert("CMYK" if form == "CMYK" else "RGB").save(tmp_path / "image", kind, **options)
    words = [sys.executable, "-c", _PEAK, str(tmp_path / "image"), check]
    done = subprocess.run(words, capture_output=True, check=True)
    assert int(done.stdout) << 10 <= 20 * side * side + (16 << 20)
