"""Every loader of docs/trainers.md and docs/training.md runs, and gives every image with its label.

So do the lines of the report: they are the beginnings of those blocks.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataprep
from dataprep.review.report import loaders
from dataprep.sealed.set import SealedSet
from tests.conftest import FORMATS, Made, Shelf, shelf_of

PAGES = [Path(__file__).parents[2] / "docs" / name for name in ("trainers.md", "training.md")]
BLOCK = re.compile(r"(?:<!-- (?P<notes>[^\n]*) -->\n)?```(?P<language>\w+)\n(?P<code>.*?)```", re.S)
FORMATS_PAGE = PAGES[0].with_name("formats.md")
IMAGES = 24
ONE_FILE = "lmdb", "lmdb-raw", "recordio"
MXNET_PYTHON = "DATAPREP_MXNET_PYTHON"  # MXNet cannot be installed beside the others
NOTING = """
import json, sys

steps = []

def train_step(images, labels):
    steps.append((images.shape, labels.tolist()))

# loader
print()
json.dump(steps, sys.stdout)
"""
MODEL = """
import pytorch_lightning
import torch

class Model(pytorch_lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def training_step(self, batch):
        train_step(*batch)
        return self.weight.sum()

    def validation_step(self, batch):
        pass

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1)

model = Model()
"""


@dataclass(frozen=True)
class Block:
    """A piece of code in the documentation, and what the comment before it says."""

    page: str
    line: int
    language: str
    code: str
    out: str
    """The format of what is in ``out``, a key of `FORMATS`."""
    trainer: str
    """Whose lines in the report are the beginning of the code, if they are there."""
    needs: tuple[str, ...]
    after: str
    """A function that an earlier block defines."""
    ranks: int
    inside: str
    """The directory it is run in."""

    def __str__(self) -> str:
        return f"{self.page}-{self.line}-{self.out}"

    @property
    def whole(self) -> str:
        """With what is said to be the user's."""
        first = defining(self.after) + "\n" if self.after else ""
        return first + MODEL * (self.trainer == "Lightning") + self.code


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found = []
    for match in BLOCK.finditer(text):
        if match["notes"] == "guide":  # which tests/docs/test_guides.py runs
            continue
        parts = (part.partition(":") for part in (match["notes"] or "").split(";"))
        notes = {name.strip(): text.strip() for name, _, text in parts}
        found.append(
            Block(
                page=page.stem,
                line=text.count("\n", 0, match.start()) + 1,
                language=match["language"],
                code=match["code"],
                out=notes.get("out", ""),
                trainer=notes.get("trainer", ""),
                needs=tuple(filter(None, notes.get("needs", "").replace(" ", "").split(","))),
                after=notes.get("after", ""),
                ranks=int(notes.get("ranks", 1)),
                inside=notes.get("in", ""),
            )
        )
    return found


BLOCKS = [block for page in PAGES for block in blocks(page)]
PYTHON = [block for block in BLOCKS if block.language == "python"]


# Formats of which a report has lines for more than PyTorch, with whose they are.
REPORTED = [(name, "PyTorch") for name in FORMATS] + [
    *(("tfrecord", "TensorFlow"), ("lmdb", "Caffe"), ("lmdb-raw", "Caffe")),
    *(("hdf5-caffe", "Caffe"), ("recordio", "MXNet")),
    ("arrayrecord", "Grain"),
    *(("webdataset", "webdataset"), ("parquet", "Hugging Face")),
]


def block_of(name: str, trainer: str) -> Block:
    """The block with the lines of a trainer for a format, or for another that it reads alike."""
    found = [block for block in BLOCKS if block.trainer == trainer]
    alike = [block for block in found if FORMATS[block.out][1] == FORMATS[name][1]]
    (block,) = [block for block in alike if block.out == name] or alike or found
    return block


@dataclass
class Steps:
    """What a loader handed to ``train_step``."""

    images: int = 0
    labels: Counter[int | tuple[int, ...]] = field(default_factory=Counter)
    shapes: set[tuple[int, ...]] = field(default_factory=set)

    def __call__(self, images: Any, labels: Any) -> None:
        numbers = np.atleast_1d(np.asarray(labels, np.int64))
        if numbers.ndim == 1 or numbers.shape[1] == 1:
            self.labels.update(int(number) for number in numbers.ravel())
        else:
            self.labels.update(tuple(map(int, row)) for row in numbers)
        self.images += len(numbers)
        if not isinstance(images, bytes):
            self.shapes.add(np.asarray(images).shape[1:])


Outs = Callable[[str], Path]


def outs_of(shelf: Shelf, factory: pytest.TempPathFactory, shards: str) -> Outs:
    """Returns outs(format) -> a directory in which ``out`` is a small set of that format."""
    done: dict[str, Path] = {}

    def make(name: str) -> Path:
        if name not in done:
            made = shelf(name, "--num_shards", "1" if name in ONE_FILE else shards)
            done[name] = factory.mktemp(name)
            (done[name] / "out").symlink_to(made.out)
        return done[name]

    return make


@pytest.fixture(scope="module")
def outs(shelf: Shelf, tmp_path_factory: pytest.TempPathFactory) -> Outs:
    return outs_of(shelf, tmp_path_factory, "train=6,validation=2")


@pytest.fixture(scope="module")
def many_labels(radiographs: Made, tmp_path_factory: pytest.TempPathFactory) -> Outs:
    """Grey PNGs with any number of labels."""
    shelf = shelf_of(radiographs, tmp_path_factory.mktemp("shelf"))
    return outs_of(shelf, tmp_path_factory, "train=4,validation=2,test=3")


@pytest.fixture(scope="module")
def expected(tiny: Made) -> Counter[int]:
    """How many images have each label, 0-based."""
    return Counter(example.class_index for example in dataprep.open(tiny.out))


def defining(name: str) -> str:
    """The block that defines a function, if only imported."""
    (code,) = (block.code for block in PYTHON if f"def {name}(" in block.code)
    return code.partition("\nif __name__")[0]


def skip_without(block: Block) -> None:
    for library in block.needs:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its dependencies, at import only
            try:
                import_module(library)
            except ImportError:
                pytest.skip(f"needs {library}")


Run = Callable[[Block, Path], Steps]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Returns run(block, directory) -> what its code, run there, handed over."""

    def run(block: Block, directory: Path) -> Steps:
        script = tmp_path / "script.py"
        if "mxnet" in block.needs:
            return with_mxnet(block, directory, script)
        skip_without(block)
        monkeypatch.chdir(directory)
        monkeypatch.setenv("HDF5_USE_FILE_LOCKING", "FALSE")
        script.write_text(block.whole, encoding="utf-8")
        steps = Steps()
        for rank in range(block.ranks):
            if block.ranks > 1:
                monkeypatch.setenv("RANK", str(rank))
                monkeypatch.setenv("WORLD_SIZE", str(block.ranks))
            runpy.run_path(str(script), {"train_step": steps}, run_name="__main__")
        return steps

    return run


def with_mxnet(block: Block, directory: Path, script: Path) -> Steps:
    if MXNET_PYTHON not in os.environ:
        pytest.skip(f"set {MXNET_PYTHON} to a Python that has MXNet 1.9 and NumPy before 1.24")
    script.write_text(NOTING.replace("# loader", block.whole), encoding="utf-8")
    words = [os.environ[MXNET_PYTHON], str(script)]
    done = subprocess.run(words, cwd=directory, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    steps = Steps()
    for shape, labels in json.loads(done.stdout.splitlines()[-1]):
        steps(np.empty(shape), labels)
    return steps


quiet = pytest.mark.filterwarnings(
    # webdataset leaves the archives to the garbage collector.
    "ignore::ResourceWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
    "ignore:.*multi-threaded.*fork:DeprecationWarning",
    # What Lightning and Energon think of this machine.
    "ignore:.*(srun|many workers|tensorboard|logging interval|pin_memory|LeafSpec).*",
)


@quiet
@pytest.mark.parametrize("block", PYTHON, ids=str)
def test_a_loader_gives_every_image_with_its_label(
    block: Block, outs: Outs, expected: Counter[int], run: Run
) -> None:
    if block.out == "arrayrecord":
        pytest.importorskip("array_record", reason="needs array-record, which writes this format")
    steps = run(block, outs(block.out))
    if "train_step" not in block.code:
        return  # it asks, and trains nothing
    assert steps.images == IMAGES
    assert steps.labels == expected
    if "224" in block.code or block.after:
        assert steps.shapes in ({(224, 224, 3)}, {(3, 224, 224)})


# --- the report ---


def test_a_report_has_lines_of_these(outs: Outs) -> None:
    for name in FORMATS:
        found = loaders(SealedSet.read(outs(name) / "out").manifest)
        assert [(name, trainer) for trainer, _ in found] == [it for it in REPORTED if it[0] == name]


def lines_of(directory: Path, trainer: str) -> str:
    return dict(loaders(SealedSet.read(directory / "out").manifest))[trainer].replace("OUT", "out")


def rest(block: Block, outs: Outs) -> str:
    """What trains, behind the lines that load."""
    lines = lines_of(outs(block.out), block.trainer)
    assert block.code.startswith(lines), (
        f"docs/{block.page}.md:{block.line} and dataprep/review/loaders.j2"
    )
    return block.code.removeprefix(lines)


@quiet
@pytest.mark.parametrize(("name", "trainer"), REPORTED)
def test_the_reports_lines_are_those_that_are_documented_and_run(
    name: str, trainer: str, outs: Outs, expected: Counter[int], run: Run
) -> None:
    block = block_of(name, trainer)
    code = lines_of(outs(name), trainer) + rest(block, outs)
    if (code == block.code and name == block.out) or trainer == "Caffe":
        return  # it is run above; Caffe's below
    assert run(replace(block, code=code), outs(name)).labels == expected


MULTI = "tfrecord", "recordio", "arrayrecord", "webdataset", "parquet", "hdf5"


@quiet
@pytest.mark.parametrize(
    ("name", "trainer"),
    [pair for pair in REPORTED if pair[0] in MULTI],
)
def test_the_reports_lines_load_any_number_of_labels(
    name: str, trainer: str, outs: Outs, many_labels: Outs, run: Run
) -> None:
    block = block_of(name, trainer)
    code = lines_of(many_labels(name), trainer) + rest(block, outs)
    if trainer == "webdataset":  # it has the indices
        vector = "[[n in label['labels'] for n in range(14)]]"
        code = code.replace("(image, label)", f"(image, {vector})")
    steps = run(replace(block, code=code), many_labels(name))
    with dataprep.open(many_labels(name) / "out", split="train") as records:
        wanted = Counter(tuple(int(n in it.labels) for n in range(14)) for it in records)
    assert wanted.keys() >= steps.labels.keys()
    # MXNet's lines fill up what does not fill a batch.
    assert trainer == "MXNet" or steps.labels == wanted
    assert abs(steps.images - wanted.total()) < 8


@pytest.mark.parametrize(
    "block", [block for block in BLOCKS if block.language == "protobuf"], ids=str
)
def test_caffes_layers_name_what_is_there(block: Block, outs: Outs) -> None:
    (source,) = re.findall(r'source: "(.*?)"', block.code)
    path = outs(block.out) / block.inside / source
    assert path.exists()
    if path.suffix == ".txt":
        listed = path.read_text("ascii").split()
        assert len(listed) == 6
        assert all((path.parent / name).is_file() for name in listed)


TODAY = (
    *("PyTorch", "Lightning", "TensorFlow", "JAX", "MXNet", "Caffe", "DALI"),
    "Hugging Face",
)


def test_the_table_of_formats_leads_to_the_lines_of_every_trainer() -> None:
    table = FORMATS_PAGE.read_text("utf-8").partition("## Which one?")[2].partition("How many")[0]
    leads = dict(re.findall(r"\[([^]]*)\]\(\w+\.md#?([\w-]*)\)", table))
    assert [name for name in TODAY if name not in " ".join(leads)] == []
    assert set(re.findall(r"\]\((\w+)\.md", table)) == {page.stem for page in PAGES}
    leads = {name: anchor for name, anchor in leads.items() if anchor}
    sections = re.split(r"^##+ (.*)\n", PAGES[0].read_text("utf-8"), flags=re.M)[1:]
    anchors = (name.lower().replace(",", "").replace(" ", "-") for name in sections[::2])
    texts = dict(zip(anchors, sections[1::2], strict=True))
    assert [anchor for anchor in leads.values() if "```" not in texts[anchor]] == []


def test_every_block_says_what_it_reads() -> None:
    assert len(PYTHON) >= 12
    for block in BLOCKS:
        assert block.out, (
            f"docs/{block.page}.md:{block.line}: no '<!-- out: SINK -->' before the block"
        )
