"""A data set with planted faults: what each rule of `dataprep lint` is about, once."""

import io
import shutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from PIL import Image

from dataprep.synthesize.imagenet import photograph
from tests.conftest import Cli, shared

HOSTILE = "<script>alert('x')<\u2215script> & \"co\""


def jpeg(image: Image.Image, quality: int = 90) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()


@cache
def photo(seed: int) -> Image.Image:
    """A made-up photograph that no other resembles, of half the usual size."""
    return Image.fromarray(photograph(seed)).reduce(2)


@dataclass(frozen=True)
class Planted:
    raw: Path
    out: Path


@pytest.fixture(scope="session")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    """Each worker's own copy, beside which reports and cards are written."""
    raw, made = shared(tmp_path_factory, "planted", _plant)
    out = tmp_path_factory.mktemp("planted") / "out"
    shutil.copytree(made, out)
    return Planted(raw, out)


def _plant(place: Path) -> tuple[Path, Path]:
    raw, out = place / "raw", place / "out"
    for number in range(36):
        split = "val" if number // 3 % 6 == 5 else "train"
        place = raw / split / f"c{number % 3}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number:02d}.jpg").write_bytes(jpeg(photo(number)))
    copies = {
        "train/c0/00.jpg": "val/c0/leak.jpg",
        "train/c1/01.jpg": "train/c2/conflict.jpg",
        "train/c2/02.jpg": "train/c2/copy.jpg",
    }
    for source, target in copies.items():
        shutil.copy(raw / source, raw / target)
    (raw / "val/c0/near.jpg").write_bytes(jpeg(photo(3).resize((200, 200)), 60))
    (raw / "train/c1/grey.jpg").write_bytes(jpeg(photo(4).convert("L"), 40))
    (raw / "train/c1/blank.jpg").write_bytes(jpeg(Image.new("RGB", (320, 240), (9, 9, 9))))
    (raw / "train/c1/narrow.jpg").write_bytes(jpeg(photo(90).resize((300, 30))))
    (raw / "train/c1/bad.jpg").write_bytes(jpeg(photo(91))[:2000])
    (raw / "train/c1/read.me").write_text("no image")
    (raw / "train" / HOSTILE).mkdir()
    (raw / "train" / HOSTILE / "a&b.jpg").write_bytes(jpeg(photo(92)))
    result = Cli()("folder", "--raw", raw, "--out", out, "--max_bad", 1)
    assert result.code == 0, result
    return raw, out
