"""Each reader of others gives what docs/readers.md says."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.interop.conftest import imported
from tests.interop.foreign import READERS
from tests.interop.readers_page import (
    ATTRIBUTES,
    LATE,
    PAGE,
    lines,
    made,
    standing,
    without_version,
)

RENEW = "python -m tests.interop.readers_page"


@pytest.mark.parametrize(("form", "reader"), READERS, ids="-".join)
def test_a_reader_gives_what_the_page_says(form: str, reader: str, tmp_path: Path) -> None:
    found = lines(form, reader, tmp_path)
    if found is None:
        pytest.skip(f"needs {READERS[form, reader][0]}: make test-nightly")
    text = PAGE.read_text("utf-8")
    for place, line in zip(standing(text, form, reader), found, strict=True):
        assert without_version(place[1]) == without_version(line), RENEW


@pytest.fixture
def attributes_alone(tmp_path: Path) -> Path:
    """A set without boxes and captions, whose age none of the first five has."""
    made(tmp_path, "webdataset", several=False, fields=ATTRIBUTES)
    return tmp_path


def stored_json(place: Path, number: int) -> Any:
    """What stands in a sample."""
    (path,) = place.glob("train/*.tar")
    with tarfile.open(path) as archive:
        said = archive.extractfile(f"a/{number:02d}.json")
        assert said is not None
        return json.load(said)


def test_datasets_drops_an_attribute_that_the_first_five_lack(
    attributes_alone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library: Any = imported("datasets")
    monkeypatch.setattr(library.config, "HF_DATASETS_CACHE", attributes_alone / "cache")
    files = f"{attributes_alone}/train/*.tar"
    rows = library.load_dataset("webdataset", data_files=files, split="train")
    assert "age" in stored_json(attributes_alone, LATE)["attributes"]
    assert {*rows[LATE]["json"]["attributes"]} == {"view", "weight"}


@pytest.mark.parametrize(("number", "stops"), [(2, True), (7, False)])
def test_datasets_wants_a_class_of_the_first_five_alone(
    attributes_alone: Path, monkeypatch: pytest.MonkeyPatch, number: int, stops: bool
) -> None:
    library: Any = imported("datasets")
    monkeypatch.setattr(library.config, "HF_DATASETS_CACHE", attributes_alone / "cache")
    (path,) = attributes_alone.glob("train/*.tar")
    with tarfile.open(path) as old, tarfile.open(attributes_alone / "less.tar", "w") as new:
        for member in old:
            if member.name != f"a/{number:02d}.cls":
                new.addfile(member, old.extractfile(member))
    files = {"data_files": str(attributes_alone / "less.tar"), "split": "train"}
    if stops:
        with pytest.raises(ValueError, match="don't share the same prefix or the same types"):
            library.load_dataset("webdataset", **files)
    else:
        labels = library.load_dataset("webdataset", **files)["cls"]
        assert [place for place, label in enumerate(labels) if label is None] == [number]
