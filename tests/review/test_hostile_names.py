"""What a stranger calls splits and places is text, not code, wherever it can be copied."""

from __future__ import annotations

import ast
import os
import re
import shlex
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from msgspec.structs import replace

import dataprep
from dataprep.errors import DataprepError
from dataprep.review.card import full_card, readme
from dataprep.review.report import loaders
from dataprep.sealed.set import SealedSet
from dataprep.staging.source import SourceFile, SourceReader
from dataprep.staging.writing import TargetWriter, Transfer
from dataprep.system.messages import printable
from dataprep_schemas.manifest import File, Manifest, Shard, SinkConfig
from tests.conftest import Made

NAME = "tr[a]*in\"); __import__('os').system('touch PWNED')  #\n| x |"
FILE = f"{NAME}/{NAME}-00000-of-00001.x"
SINKS = ("tfrecord", "lmdb", "hdf5-caffe", "recordio", "arrayrecord", "webdataset", "parquet")


@pytest.fixture(scope="module")
def hostile(tiny: Made) -> Manifest:
    manifest = SealedSet.read(tiny.out).manifest
    split = replace(
        manifest.splits["train"],
        records=1,
        bytes=1,
        images_found=1,
        records_per_shard=(1, 1),
        shards=(Shard(1, (File(FILE, 1, "0" * 64),)),),
    )
    return replace(
        manifest,
        splits={NAME: split},
        num_shards={NAME: 1},
        input={NAME: manifest.input["train"]},
        shuffle={NAME: "none"},
        totals=replace(manifest.totals, records=1),
    )


@pytest.mark.parametrize("sink", SINKS)
def test_lines_of_code_have_it_as_a_string(hostile: Manifest, sink: str) -> None:
    found = dict(loaders(replace(hostile, sink=SinkConfig(sink, {}))))
    assert found
    for trainer, lines in found.items():
        code = "\n".join(re.findall("source: (.+?)  [bs]", lines)) if trainer == "Caffe" else lines
        nodes = list(ast.walk(ast.parse(code)))
        assert "__import__" not in {node.id for node in nodes if isinstance(node, ast.Name)}
        values = [node.value for node in nodes if isinstance(node, ast.Constant)]
        named = [value for value in values if "PWNED" in str(value)]
        assert named
        for value in named:
            name = str(value).removeprefix("OUT/")
            assert name in (NAME, f"{NAME}.txt", FILE) or fnmatchcase(FILE, name)


def test_the_table_of_a_card_has_it_in_one_cell(hostile: Manifest) -> None:
    card = full_card("imagenet", {}, {})
    (row,) = (line for line in readme(card, hostile, ("JPEG",)).splitlines() if "PWNED" in line)
    assert re.findall(r"(?<!\\)[|`<>\[\]*]", row) == ["|"] * 4
    assert row.replace("\\", "") == f"| {NAME} | 1 | 1 |".replace("\n", "n")


PLACE = "set'\"; touch PWNED #\n"


def read_it(out: Path) -> None:
    (out / "a").write_bytes(b"")
    SourceReader(out, SourceFile("a", 1, "0"))


def write_it(out: Path) -> None:
    descriptor = os.open(out, os.O_RDONLY)
    try:
        with TargetWriter(Transfer(out, descriptor), SourceFile("a", 0, "0")) as writer:
            writer.finish()
    finally:
        os.close(descriptor)


def stage_over_it(out: Path) -> None:
    for name in ("one", "two"):
        (out.parent / name).mkdir()
        (out.parent / name / "file").write_text(name)
        dataprep.stage(out.parent / name, to=out)


@pytest.mark.parametrize("action", [read_it, write_it, stage_over_it])
def test_a_command_to_copy_has_it_as_one_word(
    action: Callable[[Path], None], tmp_path: Path
) -> None:
    place = tmp_path / PLACE
    place.mkdir()
    with pytest.raises(DataprepError) as raised:
        action(place)
    command = re.search(r"dataprep (verify|stage) [^`]*", printable(str(raised.value)))
    assert command is not None
    words = shlex.split(command[0])
    assert [word for word in words if "PWNED" in word] == [printable(str(place))]
