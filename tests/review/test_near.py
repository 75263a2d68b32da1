"""Fingerprints of pictures, and the pairs that are found by them."""

import io
import math
import os
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps

from dataprep.images import Recipe, Resize, prepare
from dataprep.images.fingerprint import Fingerprint, fingerprint, mirroring, small_grey
from dataprep.review import near
from dataprep.tables.database import Database, open_database
from tests.conftest import Cli, few, rows_of
from tests.review.conftest import Planted, jpeg, photo

COPIES: dict[str, Callable[[Image.Image], bytes]] = {
    "half": lambda image: jpeg(image.resize((image.width // 2, image.height // 2))),
    "double": lambda image: jpeg(image.resize((image.width * 2, image.height * 2))),
    "square": lambda image: jpeg(image.resize((256, 256))),
    "quality 30": lambda image: jpeg(image, 30),
    "quality 95": lambda image: jpeg(image, 95),
    "grey": lambda image: jpeg(image.convert("L")),
    "cut": lambda image: jpeg(image.crop(_without_edges(image))),
}


def _without_edges(image: Image.Image, share: float = 0.03) -> tuple[int, int, int, int]:
    left, top = int(image.width * share), int(image.height * share)
    return left, top, image.width - left, image.height - top


def look(data: bytes) -> Fingerprint:
    grey = prepare(data, Recipe()).grey
    assert grey is not None
    return fingerprint(grey)


def phash(data: bytes) -> str:
    return look(data).phash[:64]


def apart(a: str, b: str) -> int:
    return (int(a, 16) ^ int(b, 16)).bit_count()


@contextmanager
def images(hashes: list[str], cuts: Sequence[str | None] | None = None) -> Iterator[Database]:
    """A database of images with these hashes, each another file; nothing is known of middles."""
    table = pa.table(
        {
            "number": range(len(hashes)),
            "phash": hashes,
            "phash_cut": pa.array(cuts or [None] * len(hashes), pa.string()),
            "contrast": [50.0] * len(hashes),
            "xxh3": [str(number) for number in range(len(hashes))],
        }
    )
    with open_database(None) as database:
        database.register("given", table)
        database.execute("create table images as from given")
        yield database


def pairs(hashes: list[str], distance: int) -> set[tuple[int, int, int]]:
    """What `find_near_pairs` finds among images of these hashes, each another file."""
    with images(hashes) as database:
        assert near.find_near_pairs(database, distance)
        return set(database.execute("select a, b, distance from near").fetchall())


def ways(seen: list[Fingerprint], distance: int = near.USUAL) -> dict[tuple[int, int], int]:
    """The pairs among pictures, and what of them was compared."""
    with images([each.phash[:64] for each in seen], [each.phash[64:] for each in seen]) as database:
        assert near.find_near_pairs(database, distance)
        rows = database.execute("select a, b, how from near").fetchall()
        return {(a, b): how for a, b, how in rows}


def usual_distance(hashes: list[str]) -> tuple[int, str | None]:
    with images(hashes) as database:
        return near.usual_distance(database)


def by_hand(grey: list[list[int]]) -> str:
    """The hash in Python's own whole numbers, one frequency after the other."""

    def cosines(size: int, frequency: int) -> list[int]:
        return [
            round(4096 * math.cos(math.pi * frequency * (2 * place + 1) / (2 * size)))
            for place in range(size)
        ]

    height, width = len(grey), len(grey[0])
    order = sorted(
        ((down, across) for down in range(16) for across in range(16) if down or across),
        key=lambda place: (max(place), sum(place), place[0]),
    )
    found = []
    for down, across in order:
        rows, columns = cosines(height, down), cosines(width, across)
        found.append(
            sum(rows[y] * columns[x] * grey[y][x] for y in range(height) for x in range(width))
        )
    middle = sorted(found)[127]
    bits = "".join("1" if value > middle else "0" for value in found) + "0"
    return f"{int(bits, 2):064x}"


def test_the_hash_of_a_picture_is_that_of_any_machine() -> None:
    # Sums of whole numbers: neither the order of summation nor the processor can change them.
    grey = [[(7 * y + 3 * x * x) % 251 for x in range(40)] for y in range(48)]
    found = fingerprint(np.array(grey, np.uint8))
    assert found.phash[:64] == by_hand(grey)
    assert found.phash[:64] == "4012eb4242bb07282dc6db1ea0c1d6de356586e3e4b92ccd8e9639e9f982df96"
    levels = [level for row in grey for level in row]
    assert found.brightness == round(statistics.fmean(levels), 1)
    assert found.contrast == round(statistics.pstdev(levels), 1)
    assert found.flat == round(max(map(levels.count, levels)) / len(levels), 3)


@given(st.integers(0, 255), st.integers(1, 70), st.integers(1, 70))
def test_what_has_no_contrast_says_so(level: int, height: int, width: int) -> None:
    found = fingerprint(np.full((height, width), level, np.uint8))
    assert (found.brightness, found.contrast, found.flat) == (level, 0, 1)


@pytest.mark.parametrize("form", ["JPEG", "PNG", "BMP", "WEBP"])
def test_every_form_and_way_to_decode_gives_nearly_the_same_hash(form: str) -> None:
    buffer = io.BytesIO()
    photo(1).save(buffer, form, **({"lossless": True} if form == "WEBP" else {}))
    whole = fingerprint(small_grey(np.asarray(photo(1)))).phash[:64]
    for recipe in (Recipe(passes=("JPEG", "PNG")), Recipe(resize=Resize.parse("64x64"))):
        grey = prepare(buffer.getvalue(), recipe).grey
        assert grey is not None
        assert apart(fingerprint(grey).phash[:64], whole) <= 40


def test_spare_bytes_of_pixels_do_not_show() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (130, 97, 4), np.uint8)
    padded = noise[:, :, :3]
    assert np.array_equal(small_grey(padded), small_grey(padded.copy()))


def test_a_check_of_headers_sees_nothing() -> None:
    assert prepare(jpeg(photo(1)), Recipe(check="header")).grey is None


@few(10, 30)
@given(st.data(), st.integers(0, 127))
def test_few_pictures_are_all_compared(data: st.DataObject, distance: int) -> None:
    bits = st.integers(0, 2**255 - 1).map(lambda number: f"{number << 1:064x}")
    hashes = data.draw(st.lists(bits, max_size=8))
    hashes += [f"{int(word, 16) ^ (0b1110 << 200):064x}" for word in hashes[:3]]
    found = {(a, b) for a, b, _ in pairs(hashes, distance)}
    expected = {
        (a, b)
        for a, b in combinations(range(len(hashes)), 2)
        if apart(hashes[a], hashes[b]) <= distance
        or apart(f"{int(hashes[a], 16) ^ int(mirroring(), 16):064x}", hashes[b]) <= distance
    }
    # Of images with the same hash, each is paired with the first of them only.
    same = {(a, b) for a, b in expected if hashes[a] == hashes[b]}
    assert found - same == expected - same
    assert {hashes[b] for _, b in same} == {hashes[b] for _, b in found & same}


def test_of_many_pictures_those_are_found_that_agree_in_the_lowest_frequencies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    random = np.random.default_rng(5)
    hashes = [random.bytes(31).hex() + "00" for _ in range(400)]
    # As in copies that were cut: few of the lowest frequencies change, many of the highest.
    share = np.concatenate([np.full(48, 0.06), np.full(207, 0.22), [0]])
    for number in range(100):
        flips = np.packbits(random.random(256) < share).tobytes().hex()
        hashes.append(f"{int(hashes[number], 16) ^ int(flips, 16):064x}")
    monkeypatch.setattr(near, "_FEW", 0)
    found = {(a, b) for a, b, _ in pairs(hashes, 90)}
    assert len(found & {(number, 400 + number) for number in range(100)}) >= 98
    assert all(apart(hashes[a], hashes[b]) <= 90 for a, b in found)


@given(st.integers(0, 2**32 - 1), st.integers(33, 70), st.integers(33, 70))
def test_a_mirrored_picture_has_the_mirrored_hash(seed: int, height: int, width: int) -> None:
    # Smooth, as pictures are: three random waves each way, and little noise.
    random = np.random.default_rng(seed)
    down, across = np.arange(height)[:, np.newaxis] / height, np.arange(width) / width
    waves = sum(
        size * np.cos(2 * np.pi * (u * down + v * across + phase))
        for size, u, v, phase in random.uniform((10, -4, -4, 0), (30, 4, 4, 1), (3, 4))
    )
    grey = np.clip(128 + waves + random.normal(0, 2, (height, width)), 0, 255).astype(np.uint8)
    seen = [fingerprint(each) for each in (grey, grey[:, ::-1])]
    mirror = int(mirroring(), 16)
    # A few are above the median of all in one of the two, and not in the other.
    assert apart(f"{int(seen[0].phash[:64], 16) ^ mirror:064x}", seen[1].phash[:64]) <= 40


@given(st.integers(1, 4), st.integers(1, 4))
def test_the_middle_is_what_is_left_of_the_picture(height: int, width: int) -> None:
    grey = np.random.default_rng(height * 61 + width).integers(
        0, 256, (20 * height, 20 * width), np.uint8
    )
    left = fingerprint(grey).phash[64:]
    assert fingerprint(grey[height:-height, width:-width]).phash[:64] == left[:64]
    inner = grey[2 * height : -2 * height, 2 * width : -2 * width]
    assert fingerprint(inner).phash[:64] == left[64:]


def test_mirrored_and_cut_copies_are_found_and_said_to_be() -> None:
    originals = [photo(seed) for seed in (*range(10), 12, 13)]
    mirrored = [ImageOps.mirror(image) for image in originals[:4]]
    cut = [image.crop(_without_edges(image, 0.08)) for image in originals[4:8]]
    bordered = [ImageOps.expand(image, image.height // 20) for image in originals[8:]]
    pictures = (*originals, *mirrored, *cut, *bordered)
    found = ways([look(jpeg(image)) for image in pictures])
    expected = {(number, 12 + number): near.MIRRORED for number in range(4)}
    expected |= {(number, 12 + number): near.CUT for number in range(4, 12)}
    assert found == expected


@pytest.mark.parametrize(("bits", "found"), [(60, {(0, 1, 60)}), (62, set())])
def test_a_picture_and_the_middle_of_another_must_be_closer(
    bits: int, found: set[tuple[int, int, int]]
) -> None:
    one, other = (np.random.default_rng(seed).bytes(31).hex() + "00" for seed in (0, 1))
    cut = f"{int(one, 16) ^ (((1 << bits) - 1) << 100):064x}"  # of the other
    assert apart(one, other) > 100
    with images([one, other], [None, cut * 2]) as database:
        assert near.find_near_pairs(database, 66)
        rows = database.execute("select a, b, distance from near").fetchall()
    assert {*rows} == found


def test_as_many_are_found_among_many_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    originals = [photo(seed) for seed in range(24)]
    copies = [image.rotate(3) for image in originals[:8]]
    copies += [ImageOps.mirror(image) for image in originals[8:16]]
    copies += [image.crop(_without_edges(image, 0.08)) for image in originals[16:]]
    seen = [look(jpeg(image)) for image in (*originals, *copies)]
    compared = ways(seen)
    monkeypatch.setattr(near, "_FEW", 0)
    assert ways(seen) == compared
    assert len(compared) >= 23


def test_images_that_are_alike_by_nature_must_be_closer() -> None:
    random = np.random.default_rng(0)
    different = [f"{int.from_bytes(random.bytes(32)) & ~1:064x}" for _ in range(200)]
    assert usual_distance(different) == (66, None)
    one = int(different[0], 16)  # like radiographs: versions of one picture
    versions = [
        f"{one ^ sum(1 << int(bit) for bit in random.permutation(range(1, 256))[:20]):064x}"
        for _ in range(200)
    ]
    distance, why = usual_distance(versions)
    assert 0 < distance <= 27  # two thirds of the closest
    assert why is not None
    assert f"only pairs within {distance} bits are taken for copies, not 66" in why
    copies = [*different, *different[:40]]  # many copies do not make images alike by nature
    assert usual_distance(copies) == (66, None)
    assert usual_distance(versions[:20]) == (66, None)  # too few to tell


def photographs() -> list[Image.Image]:
    """Real ones where there are some, else made-up ones."""
    place = os.environ.get("DATAPREP_REAL_IMAGES")
    if place is None:
        return [photo(seed) for seed in range(40)]
    found = sorted(Path(place).rglob("*.JPEG"))
    return [Image.open(path).convert("RGB") for path in found]


def test_copies_of_photographs_are_found_and_other_photographs_are_not() -> None:
    images = photographs()
    count = len(images)
    originals = [look(jpeg(image, 95)) for image in images]
    for name, copy in COPIES.items():
        found = ways([*originals, *(look(copy(image)) for image in images)])
        assert {b - a for a, b in found} == {count}, name
        assert len(found) >= 0.996 * count, name


def test_another_format_keeps_the_hashes(planted: Planted, cli: Cli, tmp_path: Path) -> None:
    assert cli("convert", planted.out, "--to", tmp_path / "same", "--sink", "recordio").code == 0
    before = {row["key"]: row["phash"] for row in rows_of(planted.out, "stored")}
    assert {row["key"]: row["phash"] for row in rows_of(tmp_path / "same", "stored")} == before
    words = ("convert", planted.out, "--to", tmp_path / "small", "--sink", "tfrecord")
    assert cli(*words, "--resize", "96x96").code == 0
    small = {row["key"]: row["phash"] for row in rows_of(tmp_path / "small", "stored")}
    close = [apart(before[key][:64], small[key][:64]) <= 66 for key in before]
    assert sum(close) >= 0.9 * len(close)
    assert small != before
