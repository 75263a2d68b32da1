"""A made-up ImageNet with every oddity, built by the real command, for readers we did not write.

What the readers must find is worked out here from the raw archives alone, by the standard
library and Pillow: nothing of what is expected comes from the code under test.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from dataprep.sealed.set import SealedSet
from dataprep.synthesize.imagenet import synthesize_imagenet
from dataprep.training.records import Records
from dataprep_schemas import imagenet_validation_synsets

Pixels = npt.NDArray[np.uint8]
Box = tuple[float, float, float, float]
Command = Callable[..., str]


@dataclass(frozen=True)
class RawImage:
    """An image as published: what must come out again."""

    name: str
    synset: str
    data: bytes

    @property
    def label(self) -> int:
        return _labels()[self.synset]

    @property
    def kind(self) -> str:
        """``JPEG``, or what TensorFlow's JPEG readers cannot use: ``CMYK`` or ``PNG``."""
        with Image.open(io.BytesIO(self.data)) as image:
            return "CMYK" if image.mode == "CMYK" else str(image.format)

    @property
    def grey(self) -> bool:
        """Whether it has one component."""
        with Image.open(io.BytesIO(self.data)) as image:
            return image.mode == "L"

    @property
    def pixels(self) -> Pixels:
        """As Pillow decodes them, RGB."""
        return decode(self.data)


RawImages = Mapping[str, Mapping[str, RawImage]]


def decode(encoded: bytes) -> Pixels:
    """An image's pixels as Pillow decodes them: uint8 (height, width, 3), RGB."""
    with Image.open(io.BytesIO(encoded)) as image:
        return np.asarray(image.convert("RGB"))


@dataclass(frozen=True)
class Expected:
    """What a reader must find: the raw image's bytes, or ours for those that were repaired."""

    key: str
    name: str
    encoded: bytes
    label: int


@dataclass(frozen=True)
class Built:
    """What ``dataprep imagenet`` made, and of what."""

    out: Path
    layout: str
    raw: RawImages
    boxes: Mapping[str, list[Box]] = field(default_factory=dict)
    _expected: dict[str, list[Expected]] = field(default_factory=dict)

    def records(self, split: str) -> Records:
        """As dataprep reads it."""
        return Records(SealedSet.read(self.out), split)

    def expected(self, split: str) -> list[Expected]:
        """What must be found, in our order, with 0-based labels."""
        if split in self._expected:
            return self._expected[split]
        raw = self.raw[split]
        found = self._expected[split] = []
        for example in self.records(split):
            image = raw[example.filename]
            encoded = image.data
            if image.kind != "JPEG":
                encoded = example.encoded
                assert encoded[:3] == b"\xff\xd8\xff"
                assert np.abs(decode(encoded) - image.pixels.astype(int)).mean() < 2
            found.append(Expected(example.key, image.name, encoded, image.label - 1))
        assert sorted(expected.name for expected in found) == sorted(raw)
        return found

    def data_dir(self, split: str) -> Path:
        """The directory to point a reader at."""
        return self.out / split if self.layout == "split" else self.out

    def shards(self, split: str) -> list[str]:
        return sorted(str(path) for path in self.data_dir(split).glob(f"{split}-?????-of-?????"))

    def indexes(self, split: str) -> list[str]:
        return sorted(str(path) for path in (self.out / "index" / split).iterdir())


def imported(*modules: str) -> ModuleType:
    """The last of these modules; the test is skipped if one is not installed."""
    with warnings.catch_warnings():
        # Of its dependencies' deprecations, at import only; which ones depends on the release.
        warnings.simplefilter("ignore")
        found: list[ModuleType] = [
            pytest.importorskip(it, reason=f"needs {it}: make readers") for it in modules
        ]
        return found[-1]


@pytest.fixture(scope="session")
def tf() -> ModuleType:
    """TensorFlow, imported by the first test that needs it: it takes seconds."""
    return imported("tensorflow")


@pytest.fixture(scope="session")
def dataprep() -> Command:
    """Returns dataprep(*words) -> what the command, which must succeed, prints."""

    def run(*words: str | Path) -> str:
        command = [sys.executable, "-m", "dataprep", *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="session")
def labels() -> dict[str, int]:
    """The label of each WordNet id."""
    return _labels()


@pytest.fixture(scope="session")
def raw_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The two archives as published."""
    directory = tmp_path_factory.mktemp("interop") / "raw"
    synthesize_imagenet(directory, classes=4, images_per_class=8, validation_images=6, layout="tar")
    return directory


@pytest.fixture(scope="session")
def raw_images(raw_directory: Path) -> RawImages:
    """Every raw image by split and name."""
    train: dict[str, RawImage] = {}
    for inner, archive in _files_of((raw_directory / "ILSVRC2012_img_train.tar").read_bytes()):
        for name, data in _files_of(archive):
            train[name] = RawImage(name, inner.removesuffix(".tar"), data)
    validation: dict[str, RawImage] = {}
    for name, data in _files_of((raw_directory / "ILSVRC2012_img_val.tar").read_bytes()):
        number = int(name.removeprefix("ILSVRC2012_val_").removesuffix(".JPEG"))
        synset = imagenet_validation_synsets()[number - 1]
        validation[name] = RawImage(name, synset, data)
    kinds = [image.kind for image in train.values()]
    assert (len(train), kinds.count("CMYK"), kinds.count("PNG")) == (32, 1, 1)
    assert len(validation) == 6
    assert any(image.grey for image in validation.values())
    return {"train": train, "validation": validation}


@pytest.fixture(scope="session")
def boxed(dataprep: Command, raw_directory: Path, raw_images: RawImages) -> Built:
    """With bounding boxes: one image has two; one that has to be stored anew has one."""
    train = raw_images["train"]
    kept = sorted(name for name in train if train[name].kind == "JPEG")
    (repaired,) = (name for name in train if train[name].kind == "CMYK")
    boxes: dict[str, list[Box]] = {
        kept[0]: [(0.1, 0.2, 0.7, 0.9), (0.0, 0.0, 1.0, 1.0)],
        kept[-1]: [(0.0317, 0.25, 0.9683, 0.3333)],
        repaired: [(0.4321, 0.1, 0.6, 0.85)],
    }
    csv = raw_directory.with_name("boxes.csv")
    lines = [f"{name},{','.join(map(str, box))}\n" for name in boxes for box in boxes[name]]
    csv.write_text("".join(lines), encoding="ascii")
    out = raw_directory.with_name("boxed")
    _imagenet(dataprep, raw_directory, out, "flat", "--bbox_csv", csv)
    return Built(out, "flat", raw_images, boxes)


@pytest.fixture(scope="session")
def made(dataprep: Command, raw_directory: Path, raw_images: RawImages) -> Callable[..., Built]:
    """Returns made(sink, *options) -> what the command makes; the same is made only once."""
    done: dict[tuple[str, ...], Built] = {}

    def make(sink: str, *options: str, layout: str = "split") -> Built:
        words = (layout, "--workers", "1", "--sink", sink, *options)
        if words not in done:
            out = raw_directory.with_name(f"{sink}-{len(done)}")
            _imagenet(dataprep, raw_directory, out, *words)
            done[words] = Built(out, layout, raw_images)
        return done[words]

    return make


@pytest.fixture(scope="session")
def flat(made: Callable[..., Built]) -> Built:
    """Everything in one directory, as the readers' ``data_dir`` wants it."""
    return made("tfrecord", layout="flat")


@pytest.fixture(scope="session")
def by_split(made: Callable[..., Built]) -> Built:
    """A directory a split, as the TPU script leaves it."""
    return made("tfrecord")


@pytest.fixture(scope="session")
def dali() -> ModuleType:
    """NVIDIA DALI, with the parts that are used of it."""
    return imported(
        *(f"nvidia.dali.{part}" for part in ("fn", "tfrecord", "pipeline")), "nvidia.dali"
    )


def run_dali(
    dali: Any,
    outputs: Callable[[], Iterable[Any]],
    count: int,
    part: tuple[int, int] | None = None,
) -> list[list[Any]]:
    """What DALI gives of each record.

    Args:
        outputs: makes them of a reader, which is named Reader.
        count: of all records.
        part: which part, of how many; None: all.
    """
    pipeline = dali.Pipeline(batch_size=1, num_threads=1, device_id=None)
    with pipeline:
        pipeline.set_outputs(*outputs())
    pipeline.build()
    assert pipeline.reader_meta("Reader")["epoch_size"] == count
    number, parts = part or (0, 1)
    first, last = (count * (number + step) // parts for step in (0, 1))
    return [[np.array(output.at(0)) for output in pipeline.run()] for _ in range(last - first)]


def run_mxnet(records: Path, label_width: int, crop: int) -> dict[str, Any]:
    """What `mxnet_reader.py` prints, in an interpreter of its own."""
    variable = "DATAPREP_MXNET_PYTHON"
    if variable not in os.environ:
        pytest.skip(f"set {variable} to a Python that has MXNet 1.9 and NumPy before 1.24")
    script = Path(__file__).with_name("mxnet_reader.py")
    words = (os.environ[variable], script, records, records.with_suffix(".idx"), label_width, crop)
    done = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.fixture(params=["flat", "by_split"])
def built(request: pytest.FixtureRequest) -> Built:
    """Both layouts, one after the other."""
    made: Built = request.getfixturevalue(request.param)
    return made


def _imagenet(dataprep: Command, raw: Path, out: Path, layout: str, *more: str | Path) -> None:
    places = ("--raw_data_dir", raw, "--local_scratch_dir", out, "--layout", layout)
    more = more if "--num_shards" in more else ("--num_shards", "train=3,validation=2", *more)
    dataprep("imagenet", *places, *more)


def _labels() -> dict[str, int]:
    """As the TPU script numbers them: the sorted ids, from 1, because 0 is background."""
    synsets = sorted(set(imagenet_validation_synsets()))
    assert (len(synsets), synsets[0], synsets[-1]) == (1000, "n01440764", "n15075141")
    return {synset: label for label, synset in enumerate(synsets, start=1)}


def _files_of(archive: bytes) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for member in tar:
            stream = tar.extractfile(member)
            assert stream is not None
            yield member.name, stream.read()
