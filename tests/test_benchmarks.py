"""The benchmark of many cores, tiny, and what it predicts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.scaling import Job, Time, told
from dataprep.synthesize.imagenet import synthesize_imagenet


def test_what_stays_limits_what_is_predicted() -> None:
    # A tenth is seen to stay; on two cores another tenth is lost: 5 + 1 + 0.5 + 0.5 seconds.
    measured = {1: [Time(10, 1)], 2: [Time(6, 1)]}

    lines = [*told(Job("any", 100, lambda _: Time(1), measured))]

    assert [line[2:6] for line in lines[:2]] == [
        ("10.0", "1.00", "1.00", "1.00"),
        ("16.7", "1.67", "0.83", "0.90"),
    ]
    assert [line[1:5] for line in lines[2:]] == [
        ("4", "predicted, not measured", "2.50 to 3.08", "0.62 to 0.77"),
        ("8", "predicted, not measured", "3.33 to 4.71", "0.42 to 0.59"),
        ("16", "predicted, not measured", "4.00 to 6.40", "0.25 to 0.40"),
    ]


@pytest.mark.thorough
def test_jobs_are_measured_on_one_core_and_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn = tmp_path / "drawn"
    synthesize_imagenet(drawn, classes=2, images_per_class=4, validation_images=1, layout="tree")
    where = ("--images", str(drawn / "train"), "--work", str(tmp_path))

    assert main(["scaling", "--quick", *where]) == 0

    said = capsys.readouterr().out
    for job in ("prepare, default check", "lint", "verify --level decode", "stage, MB"):
        assert re.search(rf"\| {job} +\| 1 +\| [\d.,]+ +\| 1.00 ", said), said
        assert re.search(rf"\| {job} +\| 16 +\| predicted, not measured ", said), said
    assert "one writer" in said
