"""What do fingerprints cost, and are look-alikes found among very many of them?

The check with and without a fingerprint, on the same photographs in turn. And 1.28 million made-up
perceptual hashes, of which a hundredth have a copy whose bits are flipped as often as those of
copies of the photographs are: resized, recompressed, grey, or cut by 3 %.
"""

from __future__ import annotations

import importlib
import io
import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from PIL import Image

from benchmarks import raw_sets
from benchmarks.measure import Setting
from benchmarks.tables import Row, Target, compared, figure
from dataprep.images import Recipe, prepare
from dataprep.review.near import USUAL, find_near_pairs
from dataprep.tables.database import open_database

_COPIES: Sequence[Callable[[Image.Image], tuple[Image.Image, int]]] = (
    lambda image: (image.resize((image.width // 2, image.height // 2)), 90),
    lambda image: (image.resize((image.width * 2, image.height * 2)), 90),
    lambda image: (image, 30),
    lambda image: (image.convert("L"), 90),
    lambda image: (image.crop(_inner(image)), 90),
)


def measure(setting: Setting) -> list[Row]:
    """Both, the second with its memory."""
    raw = raw_sets.tree(setting, setting.size(400, 20))
    files = [path.read_bytes() for path in raw_sets.files(raw)]
    return [_cost(files, setting.repeat * 4), *_look_alikes(files, setting)]


def _cost(files: Sequence[bytes], rounds: int) -> Row:
    """The least time of each image in all rounds: a busy machine only ever adds to it."""
    module = importlib.import_module("dataprep.images.prepare")
    usual = module.fingerprint
    best = np.full((2, len(files)), np.inf)
    try:
        for _ in range(rounds):
            for place, measured in enumerate((usual, lambda _grey: None)):
                module.fingerprint = measured  # type: ignore[attr-defined]  # left out, to compare
                for number, data in enumerate(files):
                    start = time.perf_counter()
                    prepare(data, Recipe())
                    best[place, number] = min(best[place, number], time.perf_counter() - start)
    finally:
        module.fingerprint = usual  # type: ignore[attr-defined]  # as it was
    ours, theirs = best.sum(axis=1) / len(files) * 1e6
    what = "default check with fingerprints against without, a thread"
    return compared(what, [ours], [theirs], target=Target("<=", 1.06), unit="us")


def _look_alikes(files: Sequence[bytes], setting: Setting) -> list[Row]:
    count = setting.size(1_280_000, 20_000)
    flips = _flips(files)
    random = np.random.default_rng(0)
    hashes = random.integers(0, 256, (count, 32), np.uint8)
    hashes[:, 31] &= 254  # of 256 bits the last is none
    chosen = random.permutation(count)[: count // 100 * 2].reshape(2, -1)
    some = flips[random.integers(0, len(flips), chosen.shape[1])]
    hashes[chosen[1]] = hashes[chosen[0]] ^ some
    planted = {(int(a), int(b)) for a, b in np.sort(chosen, axis=0).T}
    table = pa.table(
        {
            "number": pa.array(np.arange(count)),
            "phash": [row.tobytes().hex() for row in hashes],
            "contrast": np.full(count, 50.0),
            "xxh3": [str(number) for number in range(count)],
        }
    )
    with (
        tempfile.TemporaryDirectory(dir=setting.work) as scratch,
        open_database(Path(scratch), rows=count) as database,
    ):
        database.register("given", table)
        start = time.perf_counter()
        database.execute("create table images as from given")
        find_near_pairs(database, USUAL)
        seconds = time.perf_counter() - start
        found = set(database.execute("select a, b from near").fetchall())
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    what = f"look-alikes among {count:,} hashes, {len(planted):,} planted"
    recall = 100 * len(found & planted) / len(planted)
    memory = f"{what}: largest process, with the hashes"
    return [
        figure(what, [seconds], "s", Target("<=", 300, " s")),
        figure(f"{what}: found", [recall], "%", Target(">=", 95, " %")),
        Row(f"{what}: other pairs", str(len(found - planted))),
        figure(memory, [largest], "GiB", Target("<=", 1.5, " GiB")),
    ]


def _flips(files: Sequence[bytes]) -> NDArray[np.uint8]:
    """Which of 256 bits differ between a photograph and its copies: uint8, (copies, 32)."""
    found = []
    for data in files:
        whole = _hash(data)
        image = Image.open(io.BytesIO(data)).convert("RGB")
        for copy in _COPIES:
            picture, quality = copy(image)
            buffer = io.BytesIO()
            picture.save(buffer, "JPEG", quality=quality)
            found.append(whole ^ _hash(buffer.getvalue()))
    return np.array(found)


def _hash(data: bytes) -> NDArray[np.uint8]:
    found = prepare(data, Recipe()).fingerprint
    assert found is not None  # the default check measures
    return np.frombuffer(bytes.fromhex(found.phash), np.uint8)


def _inner(image: Image.Image) -> tuple[int, int, int, int]:
    """Without 3 % at every edge."""
    across, down = round(0.03 * image.width), round(0.03 * image.height)
    return across, down, image.width - across, image.height - down
