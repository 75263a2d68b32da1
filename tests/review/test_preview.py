"""`dataprep preview` draws in a terminal: here a pseudo terminal that answers as real ones do."""

import os
import pty
import re
import select
import sys
import termios

import pytest

from tests.conftest import Cli
from tests.review.conftest import Planted

_ASKED = b"\x1b[c"  # what are you?
_SIXEL = b"\x1b[?62;4c"  # a VT220 with sixel graphics


def on_terminal(*words: object, answer: bytes = b"", columns: int = 100) -> str:
    """What a command prints on a terminal of so many columns that gives this answer."""
    pytest.importorskip("textual_image", reason="textual-image is not installed")
    pid, terminal = pty.fork()
    if pid == 0:
        termios.tcsetwinsize(0, (40, columns))
        os.environ.update(TERM="xterm-256color", COLORTERM="truecolor")
        os.execv(sys.executable, [sys.executable, "-m", "dataprep", *map(str, words)])
    printed = b""
    while select.select([terminal], [], [], 60)[0]:
        try:
            said = os.read(terminal, 1 << 16)
        except OSError:  # the other end is closed
            break
        printed += said
        if _ASKED in said:
            os.write(terminal, answer)
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, printed
    return printed.decode()


def test_pictures_are_drawn_where_the_terminal_can(planted: Planted) -> None:
    for _ in range(20):  # an older library waits a tenth of a second for the answer
        printed = on_terminal("preview", planted.out, "--images", 8, answer=_SIXEL)
        if "\x1bP" in printed:
            break
    # Two rows of five pictures; what else ends alike is 0.14's question for Kitty's protocol.
    assert len(re.findall(r"\x1bP[^\x1b]+\x1b\\", printed)) == printed.count("\x1bP") == 2
    assert re.findall(r"c\d(?=\s)", printed) == ["c0", "c0", "c1", "c1", "c2", "c2"]
    assert "<script>alert(" in printed


def test_coloured_characters_are_drawn_elsewhere_the_same_for_the_same_seed(
    planted: Planted,
) -> None:
    words = ("preview", planted.out, "--split", "validation", "--images", 3, "--seed")
    printed = [on_terminal(*words, seed) for seed in (1, 1, 2)]
    assert "\x1bP" not in printed[0]
    assert len(set(re.findall(r"38;2;\d+;\d+;\d+", printed[0]))) > 50
    # Behind the question to the terminal, which has a random number.
    some, same, others = (text.partition("\x1b\\")[2] for text in printed)
    assert some
    assert some == same != others


def test_without_a_terminal_it_says_where_the_pictures_are(cli: Cli, planted: Planted) -> None:
    result = cli("preview", planted.out)
    assert (result.code, result.out) == (2, "")
    assert result.err.endswith(f"`dataprep report {planted.out}` makes a page\n")


def test_a_split_that_is_not_there_is_refused(planted: Planted) -> None:
    with pytest.raises(AssertionError, match="has no split 'nowhere'; it has: "):
        on_terminal("preview", planted.out, "--split", "nowhere")


def test_a_terminal_without_a_size_is_told(planted: Planted) -> None:
    with pytest.raises(
        AssertionError, match=r"this terminal has no columns or rows .* makes a page"
    ):
        on_terminal("preview", planted.out, columns=0)
