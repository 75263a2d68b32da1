"""What is said of data sets that other versions wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

import dataprep.jobs.running.job
from dataprep.system.state_files import upgrade
from dataprep.version import __version__
from tests.conftest import Cli, Made, write_tiny_raw
from tests.forging import Document, forge


@pytest.mark.parametrize(
    "versions",
    [
        *(None, [], {}, {"dataprep": 7}, {"dataprep": __version__}, {"dataprep": "0.0.9"}),
        *({"dataprep": text} for text in ("9", "nine", "9.0.0'; rm -r ~", "9.0.0\n")),
    ],
)
def test_no_upgrade_is_asked_for(versions: object) -> None:
    assert upgrade(versions) == ""


@pytest.mark.parametrize("later", ["9.0.0", "9.1", "1.10.0", "9.0.0rc1", "9.0.0.dev3"])
def test_a_later_version_is_named(later: str) -> None:
    assert upgrade({"dataprep": later}).endswith(f"'dataprep-shards>={later}'")


def written_by(version: str, **changes: object) -> Document:
    return {"versions": {"dataprep": version}, **changes}


@pytest.mark.parametrize("field", [{"format": "dataprep-manifest-3"}, {"hologram": 1}])
def test_a_set_of_a_later_version_says_which(
    cli: Cli, tiny: Made, tmp_path: Path, field: Document
) -> None:
    out = tiny.copy(tmp_path / "out")
    path = out / "manifest.json"
    forge(path, lambda manifest: manifest.update(written_by("9.1.0", **field)))
    for command in (("verify", out), ("inspect", out), ("convert", out, "--to", tmp_path / "to")):
        line = cli(*command, *(("--sink", "lmdb") if command[0] == "convert" else ())).error
        assert f"{path}: dataprep 9.1.0 wrote it, and this is {__version__}" in line
        assert line.endswith("pip install --upgrade 'dataprep-shards>=9.1.0'")
    # Of this version, or damaged behind its back, it is what it was before.
    path.write_bytes(path.read_bytes().replace(b'"seed": 0', b'"seed": 1'))
    assert "pip" not in cli("inspect", out).error
    forge(path, lambda manifest: manifest.update(written_by(__version__)))
    assert "pip" not in cli("inspect", out).error


def test_so_does_one_in_a_later_format(cli: Cli, tiny: Made, tmp_path: Path) -> None:
    out = tiny.copy(tmp_path / "out")
    for sink in ({"name": "crystal", "config": {}}, {"name": "tfrecord", "config": {"x": "y"}}):
        changes = written_by("9.1.0", sink=sink)
        forge(out / "manifest.json", lambda manifest: manifest.update(changes))  # noqa: B023
        assert cli("verify", out).error.endswith("'dataprep-shards>=9.1.0'")
    # What says nothing new is read, whoever wrote it.
    changes["sink"] = {"name": "tfrecord", "config": {}}
    forge(out / "manifest.json", lambda manifest: manifest.update(changes))
    assert cli("verify", out, "--level", "records").code == 0


def test_growing_under_another_version_is_said(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw, out, once = tmp_path / "raw", tmp_path / "out", tmp_path / "once"
    write_tiny_raw(raw, classes=1, images=4, validation=1)
    words = ("imagenet", "--raw_data_dir", raw, "--workers", 1, "--local_scratch_dir")
    assert cli(*words, out).code == 0
    write_tiny_raw(tmp_path / "more", classes=1, images=6, validation=1)
    (folder,) = (raw / "train").iterdir()
    for image in sorted((tmp_path / "more" / "train" / folder.name).iterdir())[4:]:
        image.rename(folder / image.name)
    monkeypatch.setattr(dataprep.jobs.running.job, "__version__", "0.2.0")
    said = f"was made with dataprep {__version__}, now 0.2.0: other versions may write other bytes"
    result = cli(*words, out, "--append")
    assert result.code == 0, result
    assert said in result.out
    assert said in cli("compact", out).out
    # One whose versions are all the same says nothing; and other images are told apart from that.
    assert "now 0" not in cli(*words, once).out
    assert "versions" not in cli("diff", out, once).out
    next(folder.iterdir()).unlink()
    monkeypatch.undo()
    assert cli(*words, once, "--overwrite").code == 0
    assert f"made with dataprep 0.2.0 and {__version__}: images" in cli("diff", out, once).out
