"""Every loader of docs/reading.md runs, and gives every image with its label."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataprep
from tests.conftest import Cli, Made, Raw

PAGE = Path(__file__).parent.parent / "docs" / "reading.md"
BLOCK = re.compile(r"(?:<!-- (?P<notes>[^\n]*) -->\n)?```(?P<language>\w+)\n(?P<code>.*?)```", re.S)
PIXELS = "--resize", "16x16"
ELSEWHERE = {  # what needs other versions than everybody else: an environment of its own
    "mxnet": ("DATAPREP_MXNET_PYTHON", "a Python that has MXNet 1.9 and NumPy before 1.24"),
    "composer": ("DATAPREP_COMPOSER_PYTHON", "a Python that has mosaicml and dataprep"),
}
IMAGES = 24
NOTING = """
import json, sys

steps = []

def train_step(images, labels):
    steps.append((tuple(images.shape), labels.tolist()))

# loader
with open(sys.argv[1], "w") as file:
    json.dump(steps, file)
"""


@dataclass(frozen=True)
class Block:
    """A piece of code in the documentation, and what the comment before it says."""

    line: int
    language: str
    code: str
    out: str
    """The sink, and perhaps an option of it, whose output is ``out``."""
    needs: tuple[str, ...]
    after: str
    """A function that an earlier block defines."""
    inside: str
    """The directory it is run in."""

    sections: tuple[str, ...]
    """The headings above it, of the second level and the third, as links have them."""

    def __str__(self) -> str:
        return f"line-{self.line}-{self.out}"


def link_of(heading: str) -> str:
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def blocks() -> list[Block]:
    text = PAGE.read_text(encoding="utf-8")
    found = []
    for match in BLOCK.finditer(text):
        notes = dict(part.split(": ") for part in (match["notes"] or "out: ").split("; "))
        above = "\n" + text[: match.start()]
        found.append(
            Block(
                line=text.count("\n", 0, match.start()) + 1,
                language=match["language"],
                code=match["code"],
                out=notes.get("out", ""),
                needs=tuple(filter(None, notes.get("needs", "").split(", "))),
                after=notes.get("after", ""),
                inside=notes.get("in", ""),
                sections=tuple(
                    link_of(above.rpartition(level)[2].partition("\n")[0])
                    for level in ("\n## ", "\n### ")
                ),
            )
        )
    return found


BLOCKS = blocks()
PYTHON = [block for block in BLOCKS if block.language == "python"]


@dataclass
class Steps:
    """What a loader handed to ``train_step``."""

    images: int = 0
    labels: Counter[int] = field(default_factory=Counter)
    shapes: set[tuple[int, ...]] = field(default_factory=set)

    def __call__(self, images: Any, labels: Any) -> None:
        numbers = np.atleast_1d(np.asarray(labels, np.int64)).ravel()
        self.labels.update(int(number) for number in numbers)
        self.images += len(numbers)
        if not isinstance(images, bytes):
            self.shapes.add(np.asarray(images).shape[1:])


@pytest.fixture(scope="module")
def outs(cli: Cli, tiny: Made, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Returns outs(sink) -> a directory in which ``out`` is a small set of that format."""
    done: dict[str, Path] = {}

    def make(sink: str) -> Path:
        if sink not in done:
            place = done[sink] = tmp_path_factory.mktemp(sink)
            out = place / "out"
            if sink == "tfrecord":
                out.symlink_to(tiny.out)
            elif sink == "hdf5-caffe":
                raw = Raw(tiny.raw.path, (*tiny.raw.options, *PIXELS))
                assert cli(*raw.command(out, "--sink", sink)).code == 0
            else:
                name, _, option = sink.partition(" ")
                one = name in ("lmdb", "lmdb-torch", "recordio")
                shards = "1" if one else "train=6,validation=2"
                words = ("convert", tiny.out, "--to", out, "--sink", name, "--workers", "1")
                options = ("--sink_option", option) if option else ()
                assert cli(*words, *options, "--num_shards", shards).code == 0
        return done[sink]

    return make


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


@pytest.mark.filterwarnings(
    # webdataset leaves the archives to the garbage collector.
    "ignore::ResourceWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
    "ignore:.*multi-threaded.*fork:DeprecationWarning",
    # Lightning is told neither where it runs nor what it trains.
    "ignore:.*(srun|tensorboardX|configure_optimizers|training_step|logging interval)",
    "ignore:.*(LeafSpec|pin_memory)",  # of Energon, too
)
@pytest.mark.parametrize("block", PYTHON, ids=str)
def test_a_loader_gives_every_image_with_its_label(
    block: Block,
    outs: Callable[[str], Path],
    expected: Counter[int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code = defining(block.after) + "\n" + block.code if block.after else block.code
    if block.needs and block.needs[0] in ELSEWHERE:
        steps = in_another_python(block.needs[0], code, outs(block.out), tmp_path)
    else:
        skip_without(block)
        monkeypatch.chdir(outs(block.out))
        monkeypatch.setenv("HDF5_USE_FILE_LOCKING", "FALSE")
        script = tmp_path / "script.py"
        script.write_text(code, encoding="utf-8")
        steps = Steps()
        ranks = 3 if '"RANK"' in block.code else 1
        for rank in range(ranks):
            monkeypatch.setenv("RANK", str(rank))
            monkeypatch.setenv("WORLD_SIZE", str(ranks))
            runpy.run_path(str(script), {"train_step": steps}, run_name="__main__")
    assert steps.images == IMAGES
    assert steps.labels == expected
    if "224" in block.code or block.after:
        assert steps.shapes in ({(224, 224, 3)}, {(3, 224, 224)})


def in_another_python(library: str, code: str, directory: Path, tmp_path: Path) -> Steps:
    """Run a block where its library is."""
    variable, what = ELSEWHERE[library]
    if variable not in os.environ:
        pytest.skip(f"set {variable} to {what}")
    script, noted = tmp_path / "script.py", tmp_path / "steps.json"
    script.write_text(NOTING.replace("# loader", code), encoding="utf-8")
    words = [os.environ[variable], str(script), str(noted)]
    done = subprocess.run(words, cwd=directory, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    steps = Steps()
    for shape, labels in json.loads(noted.read_bytes()):
        steps(np.empty(shape), labels)
    return steps


@pytest.mark.parametrize(
    "block", [block for block in BLOCKS if block.language == "protobuf"], ids=str
)
def test_caffes_layers_name_what_is_there(block: Block, outs: Callable[[str], Path]) -> None:
    (source,) = re.findall(r'source: "(.*?)"', block.code)
    path = outs(block.out) / block.inside / source
    assert path.exists()
    if path.suffix == ".txt":
        listed = path.read_text("ascii").split()
        assert len(listed) == 6
        assert all((path.parent / name).is_file() for name in listed)


def test_an_example_is_shown_without_its_image(tiny: Made) -> None:
    example = dataprep.open(tiny.out)[0]
    assert f"key={example.key!r}" in repr(example)
    assert "encoded" not in repr(example)
    assert len(repr(example)) < 300


def test_every_block_says_what_it_reads() -> None:
    assert len(PYTHON) >= 12
    for block in BLOCKS:
        assert block.out, f"docs/reading.md:{block.line}: no '<!-- out: SINK -->' before the block"


def test_the_table_of_formats_leads_to_lines_for_every_trainer_and_sink() -> None:
    """All of which are run above."""
    page = PAGE.with_name("formats.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.*?) \| (.*?) \| .*\(reading.md#(.*?)\) \|$", page, re.M)
    assert len(rows) == 11
    for trainer, sinks, link in rows:
        there = {block.out.split()[0] for block in BLOCKS if link in block.sections}
        assert there, trainer
        if not sinks.startswith("as ") and "or any" not in sinks:
            assert {name for name in re.findall("`(.*?)`", sinks) if "=" not in name} <= there
