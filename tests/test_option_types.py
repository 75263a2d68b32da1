"""Options of the calls are typed, shown, and refused in a line where they have another type."""

from __future__ import annotations

import inspect
import pydoc
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import dataprep
from dataprep.api.explicit import DATASETS, NAMES, function
from dataprep.api.options import (
    compact_options,
    convert_options,
    prepare_options,
    select_options,
    stage_options,
)
from dataprep.api.parameters import Options
from dataprep.errors import UsageError
from dataprep.plugins import dataset_class
from tests.stub import stub

RIGHT = """
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dataprep

made = dataprep.folder(
    "RAW", out=Path("OUT"), fractions={"train": 0.8, "test": 0.2}, splits=["train"],
    num_shards={"train": 4}, resize=256, seed=1, overwrite=True, limit="10%", sink="lmdb",
    sink_option={"datum": "raw"}, stratify=False, encoding="jpeg", workers=2, io_limit="100MB",
)
made.manifest.seed
more: dict[str, Any] = {"anything": 1}
dataprep.prepare("my-plugin", "RAW", "OUT", anything=1, **more)
dataprep.convert("OUT", to="OUT2", sink="recordio", verify="records")
dataprep.select({"a": "OUT"}, to="OUT2", where="view = 'PA'", sample=0.1, stratify=True)
dataprep.compact("OUT", workers=1)
dataprep.stage("OUT", to="/scratch", split=["train"], share="node", rendezvous_seconds=10.5)
"""
WRONG = """
import dataprep

dataprep.folder("RAW", "OUT", fractions=0.8)
dataprep.folder("RAW", "OUT", rezise=256)
dataprep.folder(5, "OUT")
dataprep.folder("RAW")
dataprep.imagenet("RAW", "OUT", encoding="gif")
dataprep.imagenet("RAW", "OUT", listing="of-another-data-set.csv")
dataprep.chestxray14("RAW", "OUT", stratify="labels")
dataprep.shards("RAW", "OUT", label_base=1)
dataprep.convert("OUT", to="OUT2", sink=["lmdb"])
dataprep.convert("OUT", to="OUT2")
dataprep.select("OUT", to="OUT2", stratify="labels")
dataprep.compact("OUT", sink="lmdb")
dataprep.stage("OUT", share="nodes")
dataprep.push("OUT")
dataprep.open(split="train")
dataprep.prepear("folder")
"""
WRONG_LINES = list(range(4, 20))
CHECKERS = {
    "mypy": ["mypy", "--strict", "--no-error-summary", "--show-column-numbers"],
    "pyright": ["pyright", "--pythonpath", sys.executable],
}


@pytest.mark.thorough
@pytest.mark.parametrize("checker", CHECKERS)
def test_a_type_checker_knows_every_name_and_option(checker: str, tmp_path: Path) -> None:
    if not find_spec(checker):
        pytest.skip(f"needs {checker}")
    scripts = [tmp_path / "right.py", tmp_path / "wrong.py"]
    names = [it for it in dataprep.__all__ if callable(getattr(dataprep, it))]
    called = f"calls: list[Callable[..., object]] = [dataprep.{', dataprep.'.join(names)}]\n"
    for script, text in zip(scripts, (RIGHT + called, WRONG), strict=True):
        script.write_text(text)
    # PyTorch takes mypy as long as all the rest, and no option has a type of its.
    (tmp_path / "mypy.ini").write_text("[mypy]\n[mypy-torch.*]\nfollow_imports = skip\n")
    words = [sys.executable, "-m", *CHECKERS[checker], *map(str, scripts)]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=False)
    errors = [it for it in done.stdout.splitlines() if " error: " in it or " - error: " in it]
    lines = sorted({tuple(re.findall(r"(\w+)\.py:(\d+)", it)[0]) for it in errors})
    wanted = [("wrong", str(line)) for line in WRONG_LINES]
    assert lines == sorted(wanted), done.stdout + done.stderr
    assert len(errors) == len(lines), "one line each"


def test_the_stub_says_what_the_declarations_say() -> None:
    assert (Path(dataprep.__file__).parent / "api" / "functions.pyi").read_text() == stub()


def test_help_reads_like_a_page() -> None:
    text = pydoc.plain(pydoc.render_doc(dataprep.folder))
    signature, *_ = re.findall(r"^folder\(.*?\) -> \w+$", text, re.DOTALL | re.MULTILINE)
    # Since Python 3.13 a long signature has a line for each parameter.
    said = re.sub(r"\(\s+", "(", re.sub(r"\s+", " ", signature))
    assert said.startswith("folder(raw: StrPath, out: StrPath, *, splits: str | Sequence[str]")
    assert "quality: int = 95" in said
    assert "\n        resize: 256: the shorter side; 320x256: exactly WIDTHxHEIGHT.\n" in text
    assert "class folders, archives of them, or a listing" in text
    assert max(map(len, text.partition(signature)[2].splitlines())) <= 100


@pytest.mark.thorough  # every day the stub is compared
def test_completion_knows_every_option(tmp_path: Path) -> None:
    jedi = pytest.importorskip("jedi", reason="needs jedi, which IPython brings")
    for name in NAMES:
        text = f"import dataprep\ndataprep.{name}("
        project = jedi.Project(tmp_path, environment_path=sys.executable)
        found = {it.name for it in jedi.Script(text, project=project).complete(2, len(name) + 10)}
        keywords = {
            f"{it.name}="
            for it in inspect.signature(function(name)).parameters.values()
            if it.kind is not it.VAR_POSITIONAL
        }
        assert keywords <= found, name


ODD: list[Any] = [
    *(True, 3, -1, 2.5, float("nan"), "x", "", b"x", object(), Path("x"), slice(3)),
    *([], ["a"], [1, 2], [["a"]], (None,), {}, {"a": 1}, {"a": "b"}, {1: 2}, {"a": [1]}),
]


@pytest.mark.parametrize(
    "table",
    [
        *(prepare_options(dataset_class(name)) for name in DATASETS),
        *(convert_options(), select_options(), compact_options(), stage_options()),
    ],
    ids=NAMES,
)
def test_a_value_of_another_type_is_refused_in_a_line(table: Options) -> None:
    for option in table.table:
        for value in ODD:
            try:
                option.read(value)
            except UsageError as error:
                said = str(error)
                assert "\n" not in said
                assert f"--{option.name}" in said, said


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"workers": True}, "'--workers': True of type bool, expected N"),
        ({"overwrite": 1}, "'--overwrite': 1 of type int, expected True or False"),
        ({"exclude": 3}, "'--exclude': 3 of type int, expected FILE"),
        ({"seed": 1.7}, "'--seed': 1.7 of type float, expected N"),
        ({"seed": "one"}, "'--seed': 'one' is not a valid integer"),
        ({"encoding": "gif"}, "'--encoding': 'gif' is not one of"),
        ({"num_shards": {"train": 1.5}}, "'--num_shards': 'train=1.5': expected SPLIT=COUNT"),
        ({"rezise": 256}, "no option 'rezise'; did you mean resize?"),
    ],
)
def test_the_line_says_what_was_expected(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as told:
        dataprep.prepare("folder", raw=".", out="OUT", **options)
    assert words in str(told.value)
