"""Help and wrong usage: complete, quick, one clear line, exit code 2."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import click
import pytest

from dataprep.api.options import prepare_options
from dataprep.api.parameters import SECTIONS
from dataprep.cli import _COMMANDS, _DATASETS
from dataprep.cli import command as root
from dataprep.cli.sets import JobCommand
from dataprep.plugins import dataset_class
from tests.conftest import Cli, Made, hashes

WAYS = [
    (),
    *((name,) for name in (*_DATASETS, *_COMMANDS)),
    ("synthesize", "imagenet"),
    ("synthesize", "chestxray14"),
]

# Runs commands one after another, and tells which modules they took.
_MODULES = """
import json, sys
from dataprep.cli import main
codes = [main(words) for words in json.loads(sys.argv[1])]
print()
print(json.dumps([codes, sorted({name.partition(".")[0] for name in sys.modules})]))
"""


def find(way: tuple[str, ...]) -> click.Command:
    found: click.Command = root
    context = click.Context(root)
    for name in way:
        assert isinstance(found, click.Group)
        command = found.get_command(context, name)
        assert command is not None
        found = command
    return found


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
def test_help_mentions_every_option_and_command(cli: Cli, way: tuple[str, ...]) -> None:
    sectioned = isinstance(find(way), JobCommand)
    result = cli(*way, "--help-all" if sectioned else "-h")
    assert result.code == 0
    assert result.err == ""
    command = find(way)
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            assert parameter.opts[0] in result.out
            assert parameter.help
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            assert name in result.out
    assert max(map(len, result.out.splitlines())) <= 100


def test_help_shows_the_common_options_in_sections_and_where_the_rest_is(cli: Cli) -> None:
    short, everything = cli("folder", "--help").out, cli("folder", "--help-all").out
    titles = [line for line in short.splitlines() if re.fullmatch(r"[A-Z][a-z ]+:", line)]
    assert titles == [f"{title}:" for title in [*SECTIONS, "Help"]]
    assert "--listing" in short  # a data set's own
    assert "--raw, --raw_data_dir RAW" in short
    rare = {it.name for it in prepare_options(dataset_class("folder")).table if it.rare}
    assert all(f"--{name} " not in short for name in rare)
    assert all(f"--{name}" in everything for name in rare)
    assert f"{len(rare)} more options: dataprep folder --help-all" in short
    assert "more options" not in everything


def modules_of(*commands: Sequence[str]) -> set[str]:
    """What commands that succeed have loaded in the end."""
    words = [sys.executable, "-c", _MODULES, json.dumps(commands)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    codes, modules = json.loads(done.stdout.splitlines()[-1])
    assert codes == [0] * len(commands)
    return set(modules)


def test_help_loads_nothing_heavy() -> None:
    heavy = {"apache_beam", "tensorflow", "numpy", "PIL", "google", "grpc"}
    ways: list[list[str]] = [[], ["imagenet"], ["stage"], ["synthesize"]]
    assert not heavy & modules_of(*([*way, "--help"] for way in ways))


def test_looking_at_a_data_set_does_not_load_beam(tiny: Made) -> None:
    looks = ([name, str(tiny.out)] for name in ("inspect", "verify", "status"))
    assert "apache_beam" not in modules_of(*looks)


def test_options_are_spelled_with_either_dash(cli: Cli, tiny: Made, tmp_path: Path) -> None:
    result = cli(
        "imagenet",
        f"--raw-data-dir={tiny.raw.path}",
        "--local-scratch-dir",
        tmp_path,
        "--num-shards",
        "train=6,validation=2",
        "--max-bad=0",
        "--center_crop",
        16,
    )
    assert result.code == 0, result
    assert (tmp_path / "train" / "train-00005-of-00006").exists()


RAW = ("imagenet", "--raw_data_dir", "raw", "--local_scratch_dir", "out")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("imagnet",), "No such command 'imagnet'; did you mean imagenet? See `dataprep --help`."),
        (("imagefolder",), "did you mean folder?"),
        (("rank",), "No such command 'rank'. See"),
        (("xyzzy",), "No such command 'xyzzy'. See"),
        (("--no_such_option",), "No such option --no_such_option. See"),
        ((*RAW, "--format", "lmdb"), "No such option --format; did you mean sink?"),
        ((*RAW, "--output", "x"), "did you mean out?"),
        ((*RAW, "--threads", "2"), "did you mean workers?"),
        ((*RAW, "--seed", "-1"), "-1 is not in the range"),
        (("imagenet", "--out", "out"), "Missing option '--raw' / '--raw_data_dir'"),
        (("imagenet", "--raw", "raw"), "Missing option '--out' / '--local_scratch_dir'"),
        ((*RAW, "--layout", "deep"), "'deep' is not one of"),
        ((*RAW, "--limit", "0%"), "'0%': expected a number such as 1000, or a share such as 10%."),
        ((*RAW, "--limit", "1.5"), "'1.5': expected a number such as 1000, or a share such as"),
        ((*RAW, "--max_bad", "few"), "'--max_bad': few: expected a number such as 5"),
        ((*RAW, "--resize", "big"), "--resize"),
        ((*RAW, "--resize", "0"), "--resize"),
        ((*RAW, "--quality", "0"), "--quality"),
        ((*RAW, "--center_crop", "0"), "--center_crop"),
        ((*RAW, "--num_shards", "0"), "expected SPLIT=COUNT"),
        ((*RAW, "--num_shards", "train=1,train=2"), "expected SPLIT=COUNT once a split"),
        ((*RAW, "stray"), "Got unexpected extra argument 'stray'"),
        (("convert", "a", "b", "--to", "c", "--sink", "lmdb"), "extra argument 'b'"),
        (("convert", "a", "--to", "c", "--sink", "lmdb", "b", "--", "--x=y"), "argument 'b'"),
        (("verify",), "Missing argument"),
        (("synthesize", "cifar"), "No such command 'cifar'"),
    ],
)
def test_wrong_usage_is_said_in_one_line_and_exits_with_2(
    cli: Cli,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    result = cli(*words)
    assert result.code == 2
    assert message in result.error
    assert list(tmp_path.iterdir()) == []


def test_debug_shows_the_traceback_and_nothing_else_changes(cli: Cli, tmp_path: Path) -> None:
    plain = cli("status", tmp_path)
    for words in (("--debug", "status", tmp_path), ("status", tmp_path, "--debug")):
        debug = cli(*words)
        assert debug.code == plain.code == 1
        assert "Traceback (most recent call last)" in debug.err
        assert debug.err.endswith(plain.err)
    assert "Traceback" not in plain.err


def test_an_unexpected_error_is_one_line_that_asks_for_debug(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(out: Path) -> None:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr("dataprep.jobs.running.status.read_status", fail)
    result = cli("status", tmp_path)
    assert result.code == 1
    assert "unexpected ZeroDivisionError: a defect; add --debug" in result.error


def test_output_into_a_closed_pipe_is_no_traceback(cli: Cli, tiny: Made) -> None:
    shard = next((tiny.out / "train").iterdir())
    process = cli.start("inspect", shard)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert "Traceback" not in process.stderr.read()
    assert process.wait(60) == 1
    process.stderr.close()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--num_shards", "train=25"), "train has 24 images; expected 1 to 24"),
        (("--splits", "train,test"), "--splits names test; the splits are train, validation"),
        (("--sink", "lmbd"), r"no sink called 'lmbd' is installed \(did you mean lmdb\?\)"),
        (("--", "--no_such_option"), "Beam has no option '--no_such_option'"),
    ],
)
def test_what_the_raw_data_or_beam_cannot_do_is_wrong_usage_too(
    cli: Cli, tiny: Made, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    result = cli(*tiny.command(tmp_path / "out", *words))
    assert result.code == 2, result
    assert re.search(message, result.error), result.error
    assert hashes(tmp_path / "out") == {}
