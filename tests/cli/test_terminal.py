"""What a person sees: a bar on a terminal, plain lines everywhere else."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
from pathlib import Path

from tests.conftest import DATAPREP, Cli, Made


def test_without_a_terminal_there_are_plain_lines(cli: Cli, tiny: Made, tmp_path: Path) -> None:
    result = cli.done(cli.start(*tiny.command(tmp_path)))
    assert result.code == 0
    assert "\r" not in result.out + result.err
    assert "\x1b" not in result.out + result.err
    assert "write: " not in result.out
    lines = result.err.splitlines()
    assert all(line.startswith(("index: ", "write: ")) for line in lines), result.err
    assert "100% 30/30" in lines[-1]


def test_standard_output_holds_no_progress(cli: Cli, tiny: Made, tmp_path: Path) -> None:
    result = cli(*tiny.command(tmp_path))
    assert "%" not in result.out
    assert result.out.splitlines()[-1].startswith("sealed ")


def test_on_a_terminal_a_bar_is_drawn(tiny: Made, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 25, 100, 0, 0))
    process = subprocess.Popen(
        [*DATAPREP, *tiny.command(tmp_path)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 4096):
            shown += piece
    except OSError:  # how Linux says that the other side is closed
        pass
    os.close(ours)
    assert process.wait(60) == 0
    text = shown.decode()
    assert "\rwrite: " in text
    assert "100%|" in text
    assert "30/30" in text
    assert text.rstrip().splitlines()[-1].startswith("sealed ")
