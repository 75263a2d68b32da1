"""What do fingerprints cost, and are look-alikes found, also among very many of them?

The check with and without a fingerprint, on the same photographs. Copies of ten kinds, 30 of each,
among 1,000 pictures: the photographs and halves of them. And 1.28 million made-up pictures, of
which a hundredth are copies: hashes of the same photographs and copies, the bits of each original
and its copies turned over by a number of their own, which keeps what they differ in.
"""

from __future__ import annotations

import io
import resource
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from PIL import Image, ImageOps

from benchmarks import raw_sets
from benchmarks.measure import Setting
from benchmarks.tables import Row, Sheet, Target, compared, figure
from dataprep.images import Recipe, prepare
from dataprep.images.fingerprint import fingerprint
from dataprep.review.near import find_near_pairs, usual_distance
from dataprep.tables.database import open_database

_COPIES: Final[Mapping[str, Callable[[Image.Image], tuple[Image.Image, int]]]] = {
    "half the size": lambda image: (image.resize((image.width // 2, image.height // 2)), 90),
    "double the size": lambda image: (image.resize((image.width * 2, image.height * 2)), 90),
    "256x256": lambda image: (image.resize((256, 256)), 90),
    "JPEG quality 30": lambda image: (image, 30),
    "grey": lambda image: (image.convert("L"), 90),
    "mirrored": lambda image: (ImageOps.mirror(image), 90),
    "turned by 3 degrees, black corners": lambda image: (image.rotate(3), 90),
    "a black border of 5 %": lambda image: (ImageOps.expand(image, image.height // 20), 90),
    "3 % cut off at every edge": lambda image: (image.crop(_inner(image, 0.03)), 90),
    "8 % cut off at every edge": lambda image: (image.crop(_inner(image, 0.08)), 90),
}
_EACH: Final = 30  # copies of a kind
_PICTURES: Final = 1_000  # originals

Hashes = NDArray[np.uint8]
"""Of pictures: (pictures, 96), the whole one's bytes and then those of its middles."""
Pair = tuple[int, int]


def measure(setting: Setting) -> list[Row | Sheet]:
    """All three, the last with its memory."""
    raw = raw_sets.tree(setting, setting.size(400, 20))
    files = [path.read_bytes() for path in raw_sets.files(raw)]
    pictures = [Image.open(io.BytesIO(data)).convert("RGB") for data in files]
    hashes = [_hash(data) for data in files]
    each = min(_EACH, len(files) // len(_COPIES))
    copies = [
        (kind, number * each + at, _hash(_encoded(*copy(pictures[number * each + at]))))
        for number, (kind, copy) in enumerate(_COPIES.items())
        for at in range(each)
    ]
    halves = (half for picture in pictures for half in _halves(picture))
    more = [_hash(_encoded(half, 95)) for half in islice(halves, _PICTURES - len(files))]
    few = _Planted(np.array(hashes + more), copies, range(len(copies)))
    many = _made_up(np.array(hashes), copies, setting.size(1_280_000, 20_000))
    return [_cost(files, setting.repeat * 4), *_compared(few, many, setting)]


def _cost(files: Sequence[bytes], rounds: int) -> Row:
    """The least time of each image in all rounds: a busy machine only ever adds to it."""
    best = np.full((2, len(files)), np.inf)
    for _ in range(rounds):
        greys = []
        for number, data in enumerate(files):
            start = time.perf_counter()
            grey = prepare(data, Recipe()).grey
            best[0, number] = min(best[0, number], time.perf_counter() - start)
            assert grey is not None  # the default check decodes
            greys.append(grey)
        for number, grey in enumerate(greys):  # one after the other, as in a job
            start = time.perf_counter()
            fingerprint(grey)
            best[1, number] = min(best[1, number], time.perf_counter() - start)
    check, seen = best.sum(axis=1) / len(files) * 1e6
    what = "default check with fingerprints against without, a thread"
    return compared(what, [check + seen], [check], target=Target("<=", 1.06), unit="us")


class _Planted:
    """Hashes of originals and behind them of copies.

    Args:
        originals: their hashes.
        copies: kind, original and hashes of each.
        chosen: which of the copies are planted.
    """

    def __init__(
        self,
        originals: Hashes,
        copies: Sequence[tuple[str, int, Hashes]],
        chosen: Sequence[int],
    ) -> None:
        self.hashes = np.concatenate([originals, [copies[number][2] for number in chosen]])
        self.kinds: dict[Pair, str] = {
            (copies[number][1], len(originals) + at): copies[number][0]
            for at, number in enumerate(chosen)
        }

    def found(self, setting: Setting) -> tuple[set[Pair], float]:
        """The pairs that lint takes for copies, and the seconds it takes."""
        count = len(self.hashes)
        table = pa.table(
            {
                "number": pa.array(np.arange(count)),
                "phash": _digits(self.hashes[:, :32]),
                "phash_cut": _digits(self.hashes[:, 32:]),
                "contrast": np.full(count, 50.0),
                "xxh3": pa.array(np.arange(count)).cast(pa.string()),
            }
        )
        with (
            tempfile.TemporaryDirectory(dir=setting.work) as scratch,
            open_database(Path(scratch), rows=count) as database,
        ):
            database.register("images", table)  # as lint's is, a view of what is elsewhere
            start = time.perf_counter()
            distance, _ = usual_distance(database)
            find_near_pairs(database, distance)
            seconds = time.perf_counter() - start
            return set(database.execute("select a, b from near").fetchall()), seconds


def _made_up(hashes: Hashes, copies: Sequence[tuple[str, int, Hashes]], count: int) -> _Planted:
    random = np.random.default_rng(0)
    planted = count // 100
    masks = random.integers(0, 256, (count - planted, 32), np.uint8)
    masks[:, 31] &= 254  # of 256 bits the last is none
    which = [number % len(copies) for number in range(planted)]
    like = random.integers(0, len(hashes), len(masks))
    like[:planted] = [copies[number][1] for number in which]
    turned = [
        (copies[number][0], at, copies[number][2] ^ np.tile(masks[at], 3))
        for at, number in enumerate(which)
    ]
    return _Planted(hashes[like] ^ np.tile(masks, 3), turned, range(planted))


def _compared(few: _Planted, many: _Planted, setting: Setting) -> list[Row | Sheet]:
    lines: list[dict[str, str]] = []
    rows: list[Row] = []
    for planted in (few, many):
        found, seconds = planted.found(setting)
        right = Counter(kind for pair, kind in planted.kinds.items() if pair in found)
        total = Counter(planted.kinds.values())
        lines.append({kind: f"{right[kind]:,} of {total[kind]:,}" for kind in total})
        what = f"look-alikes among {len(planted.hashes):,} pictures, {total.total():,} copies"
        share = 100 * right.total() / total.total()
        aim = None if planted is few else Target("<=", 90, " s")
        rows += [
            figure(what, [seconds], "s", aim),
            figure(f"{what}: found", [share], "%", Target(">=", 93.3, " %")),
            Row(f"{what}: other pairs", str(len(found - planted.kinds.keys()))),
        ]
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    aim = Target("<=", 1.5, " GiB")
    rows.append(figure(f"{what}: largest process, with the hashes", [largest], "GiB", aim))
    columns = ("copies", *(f"found among {len(each.hashes):,}" for each in (few, many)))
    return [Sheet([columns, *((kind, *(each[kind] for each in lines)) for kind in _COPIES)]), *rows]


def _digits(hashes: Hashes) -> pa.Array:
    """Each as text; without an object a text, which would count as memory of what is measured."""
    pairs = np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), np.uint16)
    count, width = hashes.shape
    ends = np.arange(count + 1, dtype=np.int32) * (2 * width)
    text = np.ascontiguousarray(pairs[hashes])
    return pa.StringArray.from_buffers(count, pa.py_buffer(ends), pa.py_buffer(text))


def _hash(data: bytes) -> Hashes:
    grey = prepare(data, Recipe()).grey
    assert grey is not None  # the default check decodes
    seen = fingerprint(grey)
    return np.frombuffer(bytes.fromhex(seen.phash), np.uint8)


def _encoded(picture: Image.Image, quality: int) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()


def _inner(image: Image.Image, share: float) -> tuple[int, int, int, int]:
    across, down = round(share * image.width), round(share * image.height)
    return across, down, image.width - across, image.height - down


def _halves(image: Image.Image) -> list[Image.Image]:
    across, down = image.size
    if across >= down:
        boxes = ((0, 0, across // 2, down), (across // 2, 0, across, down))
    else:
        boxes = ((0, 0, across, down // 2), (0, down // 2, across, down))
    return [image.crop(box) for box in boxes]
