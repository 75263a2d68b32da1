"""What reads raw data, and valid inputs of it: archives, images, lists, texts of other programs."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import zstandard
from imagecodecs import jpegxl_encode
from PIL import Image
from pyarrow import parquet
from pydicom.uid import JPEG2000Lossless, JPEGBaseline8Bit

from dataprep.archives.containers import codec_of, list_container
from dataprep.archives.listing import Listing
from dataprep.archives.packed import Copy
from dataprep.datasets.folder.dataset import Folder
from dataprep.datasets.imagenet.dataset import ImageNet, read_bounding_boxes
from dataprep.datasets.lists import load_class_list
from dataprep.datasets.reading import close_archives, read_image
from dataprep.errors import DataprepError
from dataprep.images import Recipe, Resize, prepare
from dataprep.images.dicom import header_of
from tests.images.dicom_files import LOSSLESS, dataset, grouped, several, table
from tests.images.dicom_files import file as dicom_file
from tests.images.files import HAS_AVIF, deep_tiff
from tests.images.heic_files import PLAIN, TURNED

NEXT = b"\n=== next file ===\n"
"""Between the files of an input that has several."""

Read = Callable[[bytes, Path], object]


def picture(number: int = 0, form: str = "JPEG", mode: str = "RGB", **options: Any) -> bytes:
    """A small image of noise."""
    stream = io.BytesIO()
    noise = Random(number).randbytes(12 * 16 * 4)
    Image.frombytes("RGBA", (16, 12), noise).convert(mode).save(stream, form, **options)
    return stream.getvalue()


MEMBERS = {
    "n01440764_1.JPEG": b"x" * 700,
    "./a/n01440764_2.JPEG": b"no image",
    f"{'long/' * 40}n01440764_3.JPEG": b"",
    "read me.txt": b"text",
}


def tar(members: Mapping[str, bytes], form: int, **headers: str) -> bytes:
    """An archive, in which there are a link, a directory and a FIFO, too."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=form, pax_headers=headers) as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            info.pax_headers = {"mtime": "1.5", "comment": "ü" * 30}
            archive.addfile(info, io.BytesIO(content))
        for number, kind in enumerate((tarfile.SYMTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE)):
            info = tarfile.TarInfo(f"{number}.JPEG")
            info.type, info.linkname = kind, "/etc/passwd"
            archive.addfile(info)
    return stream.getvalue()


@cache
def tars() -> list[bytes]:
    pax = tarfile.PAX_FORMAT
    forms = (tarfile.GNU_FORMAT, pax, tarfile.USTAR_FORMAT)
    return [*(tar(MEMBERS, form) for form in forms), tar(MEMBERS, pax, comment="global")]


def nested_tars() -> list[bytes]:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for synset, content in zip(("n01440764", "n01443537", "n01484850"), tars(), strict=False):
            info = tarfile.TarInfo(f"./{synset}.tar")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return [stream.getvalue()]


def sealed_tar(data: bytes) -> bytes:
    """With the right checksum in every header."""
    sealed = bytearray(data)
    for at in range(0, len(data) - 511, 512):
        if data[at + 257 : at + 262] == b"ustar":
            sealed[at + 148 : at + 156] = b" " * 8
            sealed[at + 148 : at + 156] = b"%06o\0 " % sum(sealed[at : at + 512])
    return bytes(sealed)


def gzips() -> list[bytes]:
    packed = [gzip.compress(each, level, mtime=0) for each in tars() for level in (0, 6)]
    return [*packed, packed[0] + packed[1], _with_many_points()]


@cache
def _with_many_points() -> bytes:
    """Its restart points are 64 KiB apart."""
    members = {f"n01440764_{at}.JPEG": Random(at).randbytes(3000) * 10 for at in range(9)}
    return gzip.compress(tar(members, tarfile.GNU_FORMAT), 6, mtime=0)


def zips() -> list[bytes]:
    made = []
    for method, comment in ((zipfile.ZIP_STORED, b""), (zipfile.ZIP_DEFLATED, b"PK\5\6" * 9)):
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", method) as archive:
            for name, content in MEMBERS.items():
                archive.writestr(zipfile.ZipInfo(name), content, method)
            with archive.open(zipfile.ZipInfo("n01440764_9.JPEG"), "w", force_zip64=True) as file:
                file.write(b"z" * 600)
            archive.comment = comment
        made.append(stream.getvalue())
    return made


def read_archive(name: str, data: bytes, place: Path) -> None:
    """List it, and read its images."""
    (place / name).write_bytes(data)
    close_archives()
    listing = list_container(place, name, restarts_name="restarts")
    (place / "restarts").write_bytes(listing.restarts)
    _read_images(listing, place)


def zstds() -> list[bytes]:
    pack = zstandard.ZstdCompressor().compress
    return [pack(each[:999]) + b"\x50\x2a\x4d\x18\3\0\0\0abc" + pack(each[999:]) for each in tars()]


def xzs() -> list[bytes]:
    return [lzma.compress(each) + lzma.compress(b"") + bytes(4) for each in tars()]


def read_unpacked(name: str, data: bytes, place: Path) -> None:
    """List it while it is unpacked, and read its images from the copy."""
    (place / name).write_bytes(data)
    close_archives()
    codec = codec_of(name)
    assert codec is not None
    with (place / "copy").open("w+b") as file:
        listing = list_container(place, name, copy=Copy(codec, "copy", file))
    _read_images(listing, place)


def _read_images(listing: Listing, place: Path) -> None:
    for image in listing.images[:20]:
        row = image.row(image.path, (0,))
        with suppress(DataprepError):
            assert len(read_image(place, row, place, most=1 << 20)) == row.size


def read_tar(data: bytes, place: Path) -> None:
    """As it is, and compressed."""
    with suppress(DataprepError):
        read_archive("a.tar.gz", gzip.compress(data, 1), place)
    read_archive("a.tar", data, place)


def read_nested(data: bytes, place: Path) -> None:
    """As the archive of class archives that ImageNet is published in."""
    (place / "ILSVRC2012_img_train.tar").write_bytes(data)
    dataset = ImageNet()
    found = dataset.find(place, ["train"])
    for unit in found.units:
        with suppress(DataprepError):
            dataset.scan(place, found, unit)


def restarts() -> list[bytes]:
    with tempfile.TemporaryDirectory() as place:
        return [_listed(Path(place)).restarts]


def read_restarts(data: bytes, place: Path) -> None:
    """Restart points of a good archive."""
    listing = _listed(place)
    (place / "restarts").write_bytes(data)
    close_archives()
    _read_images(listing, place)


@cache
def _listed(place: Path) -> Listing:
    (place / "a.tar.gz").write_bytes(_with_many_points())
    return list_container(place, "a.tar.gz", restarts_name="restarts")


def jpegs() -> list[bytes]:
    exif = Image.Exif()
    exif[0x0112] = 6
    return [
        picture(),
        picture(progressive=True),
        picture(restart_marker_blocks=1, exif=exif, comment=b"comment"),
        picture(mode="CMYK"),
        picture(mode="L", subsampling=0, quality=100),
    ]


def pngs() -> list[bytes]:
    deep = io.BytesIO()
    Image.frombytes("I;16", (8, 8), Random(0).randbytes(128)).save(deep, "PNG")
    exif = Image.Exif()
    exif[0x0112] = 6
    modes = [picture(form="PNG", mode=mode) for mode in ("RGB", "L", "LA", "RGBA", "1", "P")]
    return [*modes, deep.getvalue(), picture(form="PNG", exif=exif, dpi=(1, 1))]


def others() -> list[bytes]:
    frames = [Image.frombytes("L", (16, 12), Random(at).randbytes(192)) for at in range(3)]
    return [
        picture(form="BMP"),
        picture(form="WEBP"),
        picture(form="WEBP", lossless=True),
        picture(form="WEBP", save_all=True, append_images=frames),
        *([picture(form="AVIF")] if HAS_AVIF else []),
        picture(form="JPEG2000"),
        picture(form="JPEG2000", no_jp2=True, mode="L"),
        picture(form="TIFF"),
        picture(form="TIFF", compression="tiff_lzw", description="text"),
        picture(form="TIFF", compression="jpeg"),
        picture(form="TIFF", mode="L", compression="tiff_adobe_deflate"),
    ]


def extras() -> list[bytes]:
    noise = np.frombuffer(Random(0).randbytes(12 * 16 * 8), np.uint16).reshape(12, 16, 4)
    deep, flat = noise[..., :3], noise.astype(np.uint8)
    lossless = [jpegxl_encode(it, lossless=True) for it in (flat, flat[..., 0], deep)]
    plain = jpegxl_encode(flat[..., :3], level=80, usecontainer=False)
    return [PLAIN, TURNED, *lossless, plain, deep_tiff(deep)]


def dicoms() -> list[bytes]:
    noise = np.frombuffer(Random(0).randbytes(12 * 16 * 2), np.uint16).reshape(12, 16)
    codings = [dicom_file(dataset(noise, 16, "MONOCHROME1"), syntax) for syntax in LOSSLESS]
    window: dict[str, Any] = {
        "WindowCenter": [5, 6],
        "WindowWidth": [9, 9],
        "VOILUTFunction": "SIGMOID",
    }
    rescale: dict[str, Any] = {"RescaleSlope": 2.5, "RescaleIntercept": -100}
    tables: dict[str, Any] = {
        "ModalityLUTSequence": [table(range(40))],
        "VOILUTSequence": [table(range(9), -3, 8)],
    }
    flat = noise.view(np.uint8).reshape(12, 16, 2)[..., 0]
    shared = {"FrameVOILUTSequence": window, "FrameAnatomySequence": {"FrameLaterality": "L"}}
    enhanced = dataset(noise & 4095, 12, NumberOfFrames=1)
    return [
        *codings,
        *(dicom_file(several(np.stack([flat] * 3)), it) for it in (LOSSLESS[0], *LOSSLESS[3:5])),
        dicom_file(grouped(enhanced, shared, {"PixelValueTransformationSequence": rescale})),
        dicom_file(dataset(noise & 4095, 12, **window, **rescale)),
        dicom_file(dataset(noise.view(np.int16), 16, **tables)),
        dicom_file(dataset(flat), JPEGBaseline8Bit),
        dicom_file(dataset(np.dstack([flat] * 3), kind="RGB"), JPEG2000Lossless),
    ]


def sealed_png(data: bytes) -> bytes:
    """With the right CRC in every chunk."""
    sealed = bytearray(data)
    at = 8
    while at + 12 <= len(sealed):
        end = at + 8 + int.from_bytes(sealed[at : at + 4])
        sealed[end : end + 4] = zlib.crc32(sealed[at + 4 : end]).to_bytes(4)
        at = end + 4
    return bytes(sealed)


_SMALL: dict[str, Any] = {"max_pixels": 1 << 20}
_RECIPES = (
    Recipe(exif="apply", **_SMALL),
    Recipe(strip_metadata=True, check="header", passes=("JPEG", "PNG"), **_SMALL),
    Recipe(check="header", color="rgb", **_SMALL),
    Recipe(resize=Resize(20), exif="apply", encoding="png", **_SMALL),
    Recipe(resize=Resize(16, 8), color="gray", encoding="jpeg", **_SMALL),
    Recipe(encoding="raw", color="rgb", stats="on", **_SMALL),
    Recipe(passes=("PNG",), depth="keep", check="header", color="gray", **_SMALL),
    Recipe(encoding="png", depth="keep", resize=Resize(20), stats="on", **_SMALL),
)


def read_picture(data: bytes, _: Path) -> None:
    """Through two recipes: one that looks at everything, and another one.

    A PNG that passes is one that Pillow decodes.
    """
    with suppress(DataprepError):
        done = prepare(data, Recipe(check="pixels", passes=("JPEG", "PNG"), **_SMALL))
        if done.format == "PNG":
            with Image.open(io.BytesIO(done.data)) as image:
                assert image.size == (done.width, done.height)
                image.convert("RGB")
    with suppress(DataprepError):
        prepare(data, _RECIPES[zlib.crc32(data) % len(_RECIPES)])


def read_dicom(data: bytes, place: Path) -> None:
    """Its header alone, too, and of several frames some."""
    with suppress(DataprepError):
        found = header_of(data, ["PatientID", "PixelSpacing"], "all") or []
        for frame, _ in [*found[:2], *found[-1:]]:
            with suppress(DataprepError):
                prepare(data, Recipe(), frame)
    read_picture(data, place)


def read_boxes(data: bytes, place: Path) -> None:
    (place / "boxes.csv").write_bytes(data)
    read_bounding_boxes(place / "boxes.csv")


def listings(form: str) -> list[bytes]:
    if form == "parquet":
        columns = {"path": ["a/1.jpg", "b/2.jpg"], "label": ["a", "b|c"], "age": [1, None]}
        stream = io.BytesIO()
        parquet.write_table(pa.table({**columns, "lists": [["x"], ["y", "z"]]}), stream)
        return [stream.getvalue()]
    text = {
        "csv": 'path,label,split,size,age\na/1.jpg,a,train,10,1\n"b/2.jpg",b|c,test,20,x\n',
        "tsv": "path\tlabel\tage\na/1.jpg\ta\t5\nb/2.jpg\tb|c\t\n",
        "jsonl": '{"path": "a/1.jpg", "label": ["a"], "age": 5}\n{"path": "b.jpg", "label": "b"}\n',
        "txt": "a/1.jpg a\nb/2.jpg b\n",
    }[form]
    return [text.encode(), text.replace("\n", "\r\n").encode("utf-8-sig")]


def read_listing(form: str, data: bytes, place: Path) -> None:
    """With all options that make more of a listing."""
    path = place / f"list.{form}"
    path.write_bytes(data)
    more = {} if form == "txt" else {"label_separator": "|", "attribute_columns": "all"}
    dataset = Folder(listing=str(path), **more)
    found = dataset.find(place, None)
    for unit in found.units:
        dataset.scan(place, found, unit)


def coco() -> list[bytes]:
    image = {"id": 1, "file_name": "a/1.jpg", "width": 16, "height": 12}
    box = {"image_id": 1, "category_id": 7, "bbox": [1, 2, 3.5, 4], "iscrowd": 0}
    categories = [{"id": 7, "name": "a"}, {"id": 9, "name": "b"}]
    found = {"images": [image], "annotations": [box, {"image_id": 1, "caption": "text"}]}
    return [json.dumps({**found, "categories": categories}).encode()]


def read_coco(data: bytes, place: Path) -> None:
    (place / "list.json").write_bytes(data)
    dataset = Folder(listing=str(place / "list.json"))
    found = dataset.find(place, None)
    for unit in found.units:
        dataset.scan(place, found, unit)


def voc() -> list[bytes]:
    size = "<size><width>16</width><height>12</height></size>"
    box = "<bndbox><xmin>1</xmin><ymin>2</ymin><xmax>8</xmax><ymax>9</ymax></bndbox>"
    one = f"<object><name>cat</name>{box}</object>"
    return [f"<annotation><filename>a.jpg</filename>{size}{one}{one}</annotation>".encode()]


def read_voc(data: bytes, place: Path) -> None:
    (place / "Annotations").mkdir(exist_ok=True)
    (place / "Annotations" / "a.xml").write_bytes(data)
    dataset = Folder(listing=str(place / "Annotations"))
    found = dataset.find(place, None)
    for unit in found.units:
        dataset.scan(place, found, unit)


def class_lists() -> list[bytes]:
    return [b"a\nb b\nc\n", b"\xef\xbb\xbfa\t1\r\nb\t0\r\n", b"/a/x 0\n/b/y 1\n", b"a\tAn a\nb\n"]


def read_class_list(data: bytes, place: Path) -> None:
    (place / "classes.txt").write_bytes(data)
    load_class_list(place / "classes.txt")
