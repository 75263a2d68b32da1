"""Names from archives are data: whatever they say, no file appears outside OUT."""

from __future__ import annotations

import io
import os
import stat
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

import dataprep
from dataprep.errors import UsageError
from dataprep.sealed.set import SealedSet
from dataprep.system.state_files import file_sha256
from tests.conftest import Cli, Made, everyday, leftovers, rows_of
from tests.forging import forge

NAMES = (
    "../n01440764_1.JPEG",
    "../../../n01440764_2.JPEG",
    "/n01440764_3.JPEG",
    "/etc/../n01440764_4.JPEG",
    "./n01440764_5.JPEG",
    "a/../../n01440764_6.JPEG",
    "n01440764_7;touch pwned.JPEG",
    "n01440764_8\nrejected: a line of its own.JPEG",
    "n01440764_9\x1b[2J.JPEG",
    "n01440764_" + "long" * 60 + ".JPEG",
    "n01440764_..JPEG",
)


def tar(members: list[tarfile.TarInfo], contents: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", errors="surrogateescape") as archive:
        for member in members:
            content = contents.get(member.name, b"")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def good_image() -> tuple[tarfile.TarInfo, bytes]:
    """One that is not rejected, since an empty shard is never sealed."""
    stream = io.BytesIO()
    Image.new("RGB", (16, 16)).save(stream, "JPEG")
    return tarfile.TarInfo("n01440764_99.JPEG"), stream.getvalue()


def link(name: str, kind: bytes, target: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


def test_hostile_names_create_nothing_outside(cli: Cli, tmp_path: Path) -> None:
    raw, out = tmp_path / "world" / "raw", tmp_path / "world" / "out"
    contents = {name: f"no image {number}".encode() for number, name in enumerate(NAMES)}
    members = [tarfile.TarInfo(name) for name in NAMES]
    members += [
        link("n01440764_70.JPEG", tarfile.SYMTYPE, "/etc/passwd"),
        link("n01440764_71.JPEG", tarfile.LNKTYPE, "../../secret"),
        link("n01440764_72.JPEG", tarfile.FIFOTYPE, ""),
        link("n01440764_73.JPEG", tarfile.CHRTYPE, ""),
        link("n01440764_74.JPEG", tarfile.DIRTYPE, ""),
    ]
    good, data = good_image()
    (raw / "train").mkdir(parents=True)
    (raw / "train" / "n01440764.tar").write_bytes(
        tar([*members, good], {**contents, good.name: data})
    )
    before = set(tmp_path.rglob("*"))
    words = ("--raw_data_dir", raw, "--local_scratch_dir", out, "--splits", "train")
    result = cli("imagenet", *words, "--max_bad", "100%")
    assert result.code == 0, result
    made = set(tmp_path.rglob("*")) - before
    assert all(path == out or out in path.parents for path in made)
    assert not any(path.is_symlink() for path in made)
    inside = [name for name in NAMES if ".." not in name.split("/")]
    assert 0 < len(inside) < len(NAMES)
    assert len(rows_of(out, "rejected")) == len(inside)
    outside = set(NAMES) - set(inside)
    ignored = {row["key"] for row in rows_of(out, "ignored")} - outside
    assert ignored == {f"n01440764_{number}.JPEG" for number in range(70, 74)}


def test_hostile_names_never_reach_the_terminal_raw(cli: Cli, tmp_path: Path) -> None:
    raw, out = tmp_path / "raw", tmp_path / "out"
    contents = dict.fromkeys(NAMES[6:9], b"no image")
    members = [tarfile.TarInfo(name) for name in contents]
    members.append(link("n01440764\x1b[2J\nignored.JPEG", tarfile.SYMTYPE, "x"))
    good, data = good_image()
    (raw / "train").mkdir(parents=True)
    (raw / "train" / "n01440764.tar").write_bytes(
        tar([*members, good], {**contents, good.name: data})
    )
    words = ("--raw_data_dir", raw, "--local_scratch_dir", out, "--splits", "train")
    results = [cli("imagenet", *words, "--max_bad", "9"), cli("status", out), cli("inspect", out)]
    for result in results:
        assert result.code == 0, result
        shown = result.out + result.err
        assert "\x1b" not in shown
        assert not any(
            line.startswith(("rejected: a line", "ignored.JPEG")) for line in shown.splitlines()
        )
    assert results[0].out.count("rejected: train: ") == 3


FORGED: dict[str, Any] = {
    "container": "../../secret",
    "restarts": "../secret",
    "size": -1,
    "packing": "unheard-of",
}


@pytest.mark.parametrize(
    "column",
    [pytest.param(name, marks=[pytest.mark.thorough] * (name != "container")) for name in FORGED],
)
def test_a_forged_index_opens_nothing_outside_of_the_raw_data(
    cli: Cli, tiny: Made, tmp_path: Path, column: str
) -> None:
    """What a shared index says of an image is not believed as far as it leads elsewhere."""
    raw = tiny.raw.copy(tmp_path / "a" / "raw")
    (tmp_path / "secret").write_text("private")
    shared = ("--index_dir", tmp_path / "index")
    assert cli(*raw.command(tmp_path / "first", *shared)).code == 0
    table, *_ = (tmp_path / "index").glob("*/train-*.parquet")
    rows = parquet.read_table(table)
    at = rows.schema.get_field_index(column)
    values = [FORGED[column], *rows.column(column).to_pylist()[1:]]
    parquet.write_table(rows.set_column(at, rows.schema[at], pa.array(values)), table)
    forge(table.with_suffix(".json"), lambda it: it.update(table=file_sha256(table)))
    error = cli(*raw.command(tmp_path / "second", *shared, "--max_bad", "100%")).error
    assert "the index has" in error
    assert str(FORGED[column]) in error
    assert leftovers(tmp_path / "second") == []


@pytest.mark.parametrize("mode", [0o775, 0o757])
def test_an_index_that_others_may_write_is_refused(
    cli: Cli, tiny: Made, tmp_path: Path, mode: int
) -> None:
    shared = ("--index_dir", tmp_path / "index")
    assert cli(*tiny.command(tmp_path / "first", *shared)).code == 0
    (directory,) = (tmp_path / "index").iterdir()
    directory.chmod(mode)
    error = cli(*tiny.command(tmp_path / "second", *shared)).error
    assert f"{directory} may be written by others" in error


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("place", ["", ".dataprep"])
def test_an_output_directory_of_somebody_else_is_refused(
    cli: Cli, tiny: Made, tmp_path: Path, place: str
) -> None:
    (tmp_path / "out" / place).mkdir(parents=True)
    os.chown(tmp_path / "out" / place, 12345, -1)
    assert "belongs to user 12345" in cli(*tiny.command(tmp_path / "out")).error
    assert [*(tmp_path / "out").rglob("*.json")] == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_an_index_directory_of_somebody_else_is_refused(
    cli: Cli, tiny: Made, tmp_path: Path
) -> None:
    (tmp_path / "index").mkdir()
    os.chown(tmp_path / "index", 12345, -1)
    words = tiny.command(tmp_path / "out", "--index_dir", tmp_path / "index")
    assert "belongs to user 12345" in cli(*words).error
    assert [*(tmp_path / "index").iterdir()] == []


def test_an_output_directory_that_everybody_may_write_is_told_of_once(
    cli: Cli, tiny: Made, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out").chmod(0o777)
    result = cli(*tiny.command(tmp_path / "out"))
    assert (result.out + result.err).count(f"everybody may write {tmp_path / 'out'}, and so") == 1


def test_private_state_behind_a_link_is_refused(cli: Cli, tiny: Made, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out/.dataprep").symlink_to(tmp_path / "elsewhere")
    assert "is a symbolic link" in cli(*tiny.command(tmp_path / "out")).error
    assert [*(tmp_path / "elsewhere").iterdir()] == []


def test_nothing_that_everybody_may_write_is_left(tiny: Made, tmp_path: Path) -> None:
    """Whatever the caller's umask."""
    words = [sys.executable, "-m", "dataprep", *tiny.command(tmp_path / "out")]
    subprocess.run(words, umask=0, check=True, capture_output=True)
    made = [tmp_path / "out", *(tmp_path / "out").rglob("*")]
    assert len(made) > 20
    assert [path for path in made if path.stat().st_mode & stat.S_IWOTH] == []


def test_no_message_is_longer_than_500_characters(cli: Cli, tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    (raw / "train").mkdir(parents=True)
    member = tarfile.TarInfo("a" * 5000 + ".JPEG")
    (raw / "train" / "n01440764.tar").write_bytes(tar([member], {member.name: b"x" * 2000})[:-3000])
    words = ("--raw_data_dir", raw, "--local_scratch_dir", tmp_path / "out", "--splits", "train")
    message = cli("imagenet", *words).error.removeprefix("dataprep: error: ")
    assert message.startswith("train/n01440764.tar is truncated")
    assert message.endswith("copy or download it again")
    assert len(message) == 500


HOSTILE = "x\x1b]0;title\x07\x9b2J\u202eevil\u2066\nsealed: forged"
NAME = "x\x9b2J\u202eevil\u2066"  # of splits and files, which have no control characters of ASCII


def say_hostile_things(manifest: dict[str, Any]) -> None:
    """Wherever a manifest may."""
    manifest["dataset_config"] = {"option": HOSTILE}
    manifest["classes"] = [[HOSTILE + text for text in each] for each in manifest["classes"]]
    manifest["versions"] = dict.fromkeys(manifest["versions"], HOSTILE)
    manifest["unmatched"]["first"] = {"missing": [HOSTILE]}
    manifest["counts"] = {HOSTILE: 1}
    for name, split in manifest["splits"].items():
        split["shards"][0]["files"][0]["path"] = NAME + name
        split["files"] = [{"path": f"{NAME}{name}.txt", "bytes": 1, "sha256": "0" * 64}]
    for part in ("splits", "num_shards", "shuffle", "input"):
        manifest[part] = {NAME + name: inner for name, inner in manifest[part].items()}


@pytest.mark.parametrize(
    "words",
    everyday(
        ["verify", "inspect", "status", "lint", "preview --split train", "stage", "diff"],
        [
            *("verify --json", "inspect --json", "lint --json", "card", "report", "convert"),
            *("stage --share node", "stage --split train", "stage --status"),
        ],
    ),
)
def test_a_hostile_manifest_does_nothing_to_a_terminal(
    cli: Cli, tiny: Made, tmp_path: Path, words: str
) -> None:
    out = tiny.copy(tmp_path / "out")
    forge(out / "manifest.json", say_hostile_things)
    assert SealedSet.read(out).splits  # it is believed
    command, *options = words.split()
    more: dict[str, list[object]] = {
        "stage": ["--to", tmp_path / "to"],
        "diff": [tiny.out],
        "convert": ["--local_scratch_dir", tmp_path / "new", "--sink", "lmdb", "--workers", 1],
    }
    result = cli(command, out, *more.get(command, []), *options)
    shown = result.out + result.err
    assert shown, result
    assert "unexpected" not in shown
    assert all(line.isprintable() for line in shown.split("\n")), shown
    assert not any(line.startswith("sealed: forged") for line in shown.split("\n")), shown


@pytest.mark.parametrize(
    "address",
    [
        "s3://me:hunter2@bucket/set",
        "--out=gs://me:hunter2@bucket/set",
        "https://account.blob.core.windows.net/c/x?sv=1&sig=hunter2",
        "s3://bucket/set?X-Amz-Signature=hunter2",
    ],
)
@pytest.mark.parametrize("command", ["status", "folder", "push", "stage"])
def test_no_address_with_a_secret_is_shown_or_kept(cli: Cli, address: str, command: str) -> None:
    result = cli(command, address)
    assert "an address has a password or a signature in it" in result.error
    assert "hunter2" not in result.out + result.err


@pytest.mark.parametrize("call", [dataprep.open, dataprep.verify, dataprep.inspect])
def test_nor_by_a_call(call: Callable[[str], object]) -> None:
    with pytest.raises(UsageError, match="an address has a password"):
        call("s3://me:hunter2@bucket/set")


@pytest.mark.parametrize("place", ["class", "image", "list", "inside"])
def test_links_that_lead_out_are_told_of_or_refused(cli: Cli, tmp_path: Path, place: str) -> None:
    raw, elsewhere = tmp_path / "raw", tmp_path / "elsewhere" / "b"
    for folder in (raw / "a", elsewhere):
        folder.mkdir(parents=True)
        image = Image.new("RGB", (8, 8), len(folder.name) * 40)
        image.save(folder / "1.png")
    links = {"class": raw / "b", "list": raw / "b", "image": raw / "a/2.png", "inside": raw / "c"}
    there = {"image": elsewhere / "1.png", "inside": raw / "a"}
    links[place].symlink_to(there.get(place, elsewhere))
    words = ["folder", "--raw", raw, "--dry_run", "--out", tmp_path / "out"]
    if place == "list":
        (raw / "list.txt").write_text("a/1.png 0\nb/1.png 1\n")
        words += ["--listing", "list.txt"]
    result = cli(*words)
    assert result.code == 0, result.err
    told = f"links that lead out of {raw} are followed: {links[place].relative_to(raw)}; --links"
    assert (told in result.out + result.err) is (place != "inside")
    result = cli(*words, "--links", "inside")
    if place == "inside":
        assert result.code == 0
    else:
        assert f"leads out of {raw} by a link, to {elsewhere}" in result.error
