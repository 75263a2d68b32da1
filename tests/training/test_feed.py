"""The benchmark of training runs, tiny, on a CPU."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from dataprep.synthesize.imagenet import synthesize_imagenet

pytest.importorskip("torch")


def test_a_network_is_fed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drawn = tmp_path / "drawn"
    synthesize_imagenet(drawn, classes=2, images_per_class=4, validation_images=1, layout="tree")
    options = ("--quick", "--device", "cpu", "--threads", "1", "--ranks", "2")
    where = ("--images", str(drawn / "train"), "--work", str(tmp_path))

    assert main(["feed", *options, *where, "--feeders", "records.loader"]) == 0

    line = r"\| records.loader +\| (originals|256 px) +\| 1 x 2 ranks \|.* \| \d+\.\d\d"
    assert re.findall(line, capsys.readouterr().out) == ["originals", "256 px"]
