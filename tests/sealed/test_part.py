"""A node's part of a data set: what every command makes of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import dataprep
from dataprep.errors import DatasetError, UsageError
from dataprep.sealed.set import SealedSet, has_part, read_part
from dataprep.staging.plan import Share, select
from dataprep.staging.source import read_inventory
from dataprep.system.state_files import write_state
from tests.conftest import Cli, Made
from tests.forging import rehashed


def staged(made: Made, out: Path, *splits: str, share: Share | None = None) -> Path:
    """What a node gets, copied by hand."""
    selection = select(read_inventory(made.out), splits=splits, share=share)
    for file in selection.files:
        (out / file.path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(made.out / file.path, out / file.path)
    if selection.part is not None:
        write_state(out / "part.json", selection.part)
    return out


@pytest.fixture(scope="module")
def second(tiny: Made, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shards 1 and 4 of 6 of train, and all 2 of validation."""
    share = Share(1, 3)  # more nodes than validation has shards
    return staged(tiny, tmp_path_factory.mktemp("second"), share=share)


@pytest.fixture(scope="module")
def validation(tiny: Made, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return staged(tiny, tmp_path_factory.mktemp("validation"), "validation")


def keys(out: Path, split: str) -> list[str]:
    with dataprep.open(out, split) as records:
        return [example.key for example in records]


def test_the_parts_of_all_nodes_hold_every_example(tiny: Made, tmp_path: Path) -> None:
    parts = [staged(tiny, tmp_path / str(node), share=Share(node, 2)) for node in range(2)]
    for split in ("train", "validation"):
        found = [keys(out, split) for out in parts]
        assert [len(each) for each in found] == [len(keys(tiny.out, split)) // 2] * 2
        assert sorted(found[0] + found[1]) == sorted(keys(tiny.out, split))


def test_a_part_is_read_by_number_and_by_key(tiny: Made, second: Path) -> None:
    with dataprep.open(tiny.out) as whole, dataprep.open(second) as here:
        assert len(here) == 8
        assert [here[number].key for number in range(8)] == [
            whole[number].key for number in (4, 5, 6, 7, 16, 17, 18, 19)
        ]
        assert here.by_key(whole[17].key) == whole[17]
        assert [len(here.part(rank, 2)) for rank in range(2)] == [4, 4]
    assert keys(second, "validation") == keys(tiny.out, "validation")


def test_a_split_that_is_not_here_cannot_be_read(validation: Path) -> None:
    with pytest.raises(UsageError, match="has no split 'train'; it has: validation"):
        dataprep.open(validation)


@pytest.mark.parametrize("level", ["hash", "records"])
def test_verify_checks_what_should_be_here(
    cli: Cli, second: Path, validation: Path, level: str
) -> None:
    result = cli("verify", second, "--level", level, "--workers", 1)
    assert result.code == 0, result
    assert result.out.startswith(f"{second}: 9 files, ")
    assert result.out.endswith(f" 14 records: all good ({level}), part 2 of 3\n")
    result = cli("verify", validation, "--level", level, "--workers", 1)
    assert result.out.startswith(f"{validation}: 5 files, ")
    assert result.out.endswith(f" 6 records: all good ({level}), only validation\n")


def test_verify_names_what_is_missing_from_a_part_and_what_is_of_another(
    cli: Cli, tiny: Made, second: Path, tmp_path: Path
) -> None:
    out = shutil.copytree(second, tmp_path / "out")
    (out / "train/train-00004-of-00006").unlink()
    result = cli("verify", out)
    assert result.out == "bad: train/train-00004-of-00006: is missing\n"
    assert result.error.endswith(
        f"{out}: 1 of 9 files bad; take it from another copy: "
        "`dataprep stage COPY --to NEW` or `dataprep convert COPY --to NEW`"
    )
    shutil.copy(second / "train/train-00004-of-00006", out / "train")
    shutil.copy(tiny.out / "train/train-00000-of-00006", out / "train")
    result = cli("verify", out)
    assert result.code == 1
    assert result.out == (
        "bad: train/train-00000-of-00006: is not in what should be here (part 2 of 3), but readers "
        "would take it in; move it away\n"
    )


def test_inspect_and_status_show_what_is_here(cli: Cli, second: Path, validation: Path) -> None:
    _, recipe, *lines = cli("inspect", second).out.splitlines()
    assert recipe.startswith("recipe: imagenet ")
    assert lines[0] == "part 2 of 3 is here"
    assert lines[1] == "train: 8 records of 24 images"
    assert lines[2].startswith("  2 shards of 4 records, ")
    assert lines[4] == "validation: 6 records of 6 images"
    lines = cli("inspect", validation).out.splitlines()
    assert lines[2] == "only validation is here"
    assert lines[3] == "validation: 6 records of 6 images"
    result = cli("inspect", second / "train/train-00001-of-00006", "--records", 1)
    assert result.code == 0
    assert result.out.startswith("0: ")
    assert cli("status", second).out == f"{second}: sealed, part 2 of 3\n"


def test_what_needs_a_whole_data_set_refuses_a_part(
    cli: Cli, tiny: Made, second: Path, tmp_path: Path
) -> None:
    for words in (("diff", tiny.out, second), ("diff", second, tiny.out)):
        error = cli(*words).error
        assert f"{second} holds a part of its data set (part 2 of 3)" in error
        assert "only a whole one can be compared; use the directory that it was" in error
    error = cli("convert", second, "--to", tmp_path / "out", "--sink", "tfrecord").error
    assert "only a whole one can be converted" in error
    assert not (tmp_path / "out").exists()
    with pytest.raises(DatasetError, match="only a whole one can be staged"):
        read_inventory(second)


@pytest.mark.parametrize("ours", [True, False])
def test_overwriting_takes_a_note_of_ours_along(
    cli: Cli, tiny: Made, second: Path, tmp_path: Path, ours: bool
) -> None:
    out = tiny.copy(tmp_path / "out")
    note = (second / "part.json").read_text() if ours else '{"name": "left wing"}'
    (out / "part.json").write_text(note)
    assert cli(*tiny.command(out, "--overwrite")).code == 0
    assert (out / "part.json").exists() == (not ours)


def test_a_part_counts_what_is_here(tiny: Made, second: Path) -> None:
    whole, here = SealedSet.read(tiny.out), SealedSet.read(second)
    assert here.splits["validation"].shards == whole.splits["validation"].shards
    train, all_of_it = here.splits["train"], whole.manifest.splits["train"]
    assert train.shards == (all_of_it.shards[1], all_of_it.shards[4])
    assert [*train.numbers] == [1, 4]
    assert train.records == 8
    assert train.records_per_shard == (4, 4)
    assert train.bytes == sum(
        (second / file.path).stat().st_size for shard in train.shards for file in shard.files
    )
    assert train.whole == all_of_it
    assert here.manifest == whole.manifest


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"format": "dataprep-part-1"}, "its format is 'dataprep-part-1'"),
        ({"manifest_sha256": 64 * "0"}, "is of another data set"),
        ({"splits": {"test": [0]}}, "names shards of test that there are not"),
        ({"splits": {"train": []}}, "names shards of train that there are not"),
        ({"splits": {"train": [1, 6]}}, "names shards of train that there are not"),
        ({"splits": {"a\nb": [1]}}, r"regex .* - at `key` in `\$.splits`"),
        ({"split_files": None}, r"at `\$.split_files`"),
        ({"of": "another version"}, "unknown field `of`"),
        ({"nodes": "2"}, r"Expected `int`, got `str` - at `\$.nodes`"),
        ({"splits": {"train": [-1]}}, r"at `\$.splits\[...\]\[0\]`"),
        ({"splits": {"train": [1, 1]}}, "names shards of train that there are not"),
        ({"splits": {"train": [4, 1]}}, "names shards of train that there are not"),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else None,
)
def test_what_cannot_be_a_part_is_refused(
    second: Path, tmp_path: Path, change: dict[str, Any], what: str
) -> None:
    said = json.loads((second / "part.json").read_text())
    (tmp_path / "part.json").write_bytes(rehashed({**said, **change}))
    with pytest.raises(DatasetError, match=what) as caught:
        read_part(tmp_path, SealedSet.read(second).manifest)
    assert str(caught.value).startswith(f"{tmp_path}/part.json")
    assert str(caught.value).endswith("; stage the data set again")


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '"\udcff"', '{"format": ["a"]}'],
    ids=["torn", "list", "no text", "odd format"],
)
def test_what_does_not_state_our_format_is_somebody_else_s(
    second: Path, tmp_path: Path, text: str
) -> None:
    (tmp_path / "part.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert not has_part(tmp_path)
    assert read_part(tmp_path, SealedSet.read(second).manifest) is None


def test_a_damaged_part_is_one_line_in_every_command(
    cli: Cli, second: Path, tmp_path: Path
) -> None:
    out = shutil.copytree(second, tmp_path / "out")
    (out / "part.json").write_text('{"format": "dataprep-part-2"}')
    for command in ("verify", "inspect", "status"):
        assert "part.json: Object missing required field" in cli(command, out).error
