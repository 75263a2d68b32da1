"""Output that is closed or full, and names that cannot be printed: a word, and the right code."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.conftest import DATAPREP, Cli, Made, hashes


def run(redirection: str, *words: object) -> subprocess.CompletedProcess[str]:
    """A command through a shell that closes or redirects its streams."""
    script = f'exec "$@" {redirection}'
    return subprocess.run(
        ["sh", "-c", script, "sh", *DATAPREP, *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize(
    "redirection",
    [
        "<&- >&- 2>&-",
        *(pytest.param(it, marks=pytest.mark.thorough) for it in ("2>&-", "2>/dev/full", ">&-")),
    ],
)
def test_a_job_goes_on_though_nobody_can_be_told(
    tiny: Made, tmp_path: Path, redirection: str
) -> None:
    done = run(redirection, *tiny.command(tmp_path / "out"))
    assert done.returncode == 0, done
    assert hashes(tmp_path / "out") == tiny.files


def test_a_job_says_once_that_its_messages_find_no_room(tiny: Made, tmp_path: Path) -> None:
    done = run(">/dev/full", *tiny.command(tmp_path / "out"))
    assert hashes(tmp_path / "out") == tiny.files
    assert done.stderr.count("stdout cannot be written: No space left on device") == 1


def test_an_error_keeps_its_code_and_is_said_where_it_can_be() -> None:
    done = run("2>/dev/full", "stage")
    assert done.stdout.startswith("dataprep: error: SRC is missing")
    assert done.returncode == 2


@pytest.mark.thorough
def test_an_error_keeps_its_code_where_it_can_be_said_nowhere(tmp_path: Path) -> None:
    assert run("2>&-", "stage").returncode == 2
    assert run("2>/dev/full", "inspect", tmp_path / "nowhere").returncode == 1


def test_an_answer_that_finds_no_room_is_an_error(tiny: Made) -> None:
    done = run(">/dev/full", "inspect", tiny.out)
    said = "dataprep: error: stdout cannot be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, said)


@pytest.mark.parametrize("sink", ["tfrecord", "lmdb"])
def test_an_output_directory_that_is_not_utf_8_is_refused_in_a_line(
    cli: Cli, tiny: Made, tmp_path: Path, sink: str
) -> None:
    out = Path(os.fsdecode(os.fsencode(tmp_path) + b"/o\xff"))
    for words in (tiny.command(out, "--sink", sink), ["convert", tiny.out, "--to", out]):
        result = cli(*words, *(["--sink", sink] if words[0] == "convert" else []))
        assert result.code == 2
        assert r"/o\udcff is not UTF-8" in result.error
        assert not out.exists()


def test_a_newline_in_a_name_breaks_no_line(cli: Cli, tiny: Made, tmp_path: Path) -> None:
    result = cli(*tiny.command(tmp_path / "o\nsealed: forged"))
    assert result.code == 0
    assert rf"{tmp_path}/o\nsealed: forged/manifest.json" in result.out
    assert not any(line.startswith("sealed: forged") for line in result.out.splitlines())


def test_a_directory_is_printed_for_a_program_byte_for_byte(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "data").write_bytes(b"12345")
    to = os.fsencode(tmp_path) + b"/t\xffo"
    words = [*DATAPREP, "stage", str(tmp_path / "plain"), "--to", os.fsdecode(to), "--print_dir"]
    done = subprocess.run(words, stdout=subprocess.PIPE, check=True, timeout=60)
    assert done.stdout == to + b"\n"


def test_too_little_address_space_is_refused_before_anything_starts(
    tiny: Made, tmp_path: Path
) -> None:
    """With 1.5 GB, libraries waited for ever for threads that could not be started."""
    words = [*DATAPREP, *tiny.command(tmp_path / "out", "--workers", 6)]
    done = subprocess.run(
        ["sh", "-c", 'ulimit -v 1500000; exec "$@"', "sh", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 2
    assert "a process may map 1.5 GB of address space here (ulimit -v 1500000)" in done.stderr
    assert not (tmp_path / "out").exists()
