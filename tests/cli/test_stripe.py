"""`dataprep stripe`, on a Lustre that is an ordinary directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Cli, everyday
from tests.system.lustre.lustre import PROGRESSIVE, Lustre, layout, make_lustre

MIB, GIB = 1 << 20, 1 << 30


@pytest.fixture
def lustre(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lustre:
    return make_lustre(tmp_path, monkeypatch)


def big_file(path: Path, size: int) -> None:
    """Of holes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(size)


# --- what is set ---


@pytest.mark.parametrize(
    ("words", "stripes", "size"),
    everyday(
        [
            ((), 1, 4 * MIB),
            (("--file_size", "42GB"), 7, 4 * MIB),
            (("--file_size", "10TB"), 16, 4 * MIB),  # as many as there are
            (("--count=-1", "--stripe_size", "64KiB"), -1, 64 << 10),
        ],
        [
            (("--file_size", "150MB"), 1, 4 * MIB),
            (("--file_size", "1GiB"), 2, 4 * MIB),
            (("--count", "5"), 5, 4 * MIB),
            (("--count", "-1"), -1, 4 * MIB),
        ],
    ),
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_the_directory_is_made_with_the_layout_of_the_rule(
    cli: Cli, lustre: Lustre, words: tuple[str, ...], stripes: int, size: int
) -> None:
    out = lustre.mount / "new" / "set"
    result = cli("stripe", out, *words)
    assert result.code == 0, result
    assert lustre.layout(out) == layout((stripes, size, None, ""))
    (line,) = result.out.splitlines()
    assert line.startswith(f"{out}: set to ")
    # Always both: setstripe sets both, whatever it is told.
    ((*_, c, count, s, given, path),) = lustre.calls("setstripe")
    assert (c, count, s, path) == ("-c", str(stripes), "-S", str(out))
    assert given == str(size)


def test_the_site_s_own_progressive_layout_is_left_alone(cli: Cli, lustre: Lustre) -> None:
    lustre.set(default=PROGRESSIVE)
    out = lustre.mount / "out"
    result = cli("stripe", out)
    assert result.code == 0, result
    assert result.out == (
        f"{out}: kept as it is (progressive: 1 stripe of 1 MiB to 256 MiB, "
        "4 stripes of 1 MiB to 4 GiB, stripes of 4 MiB on all targets to the end); the rule would "
        "be 1 stripe of 4 MiB\n"
    )
    assert out.is_dir()
    assert lustre.calls("setstripe") == []
    assert cli("stripe", out, "--count", "2").code == 0  # unless one is asked for
    assert lustre.stripes(out) == [2]


# --- what is there ---


def test_what_is_there_says_what_each_directory_needs(cli: Cli, lustre: Lustre) -> None:
    out = lustre.mount / "out"
    big_file(out / "train" / "data.mdb", 42_000_000_000)
    big_file(out / "validation" / "data.mdb", 2_000_000_000)
    big_file(out / "more" / "README", 100)
    big_file(out / "train" / ".data.mdb.0123abcd.partial", 10**13)
    big_file(out / ".dataprep" / "index", 10**13)
    (out / "more" / "link").symlink_to(out / "train" / "data.mdb")
    result = cli("stripe", out)
    assert result.code == 0, result
    found = {name: lustre.stripes(out / name) for name in ("train", "validation", "more")}
    assert found == {"train": [7], "validation": [2], "more": [1]}
    assert lustre.stripes(out) == [7]  # what is made here later is like the largest
    assert len(lustre.calls("setstripe")) == 4


# --- what goes wrong ---


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("restricted", "but in force is 1 stripe of 1 MiB: `lfs setstripe` succeeded"),
        ("mute", "what is in force cannot be read back"),
    ],
)
def test_a_site_that_refuses_silently_is_found_out(
    cli: Cli, lustre: Lustre, state: str, said: str
) -> None:
    lustre.set(**{state: True})
    result = cli("stripe", lustre.mount / "out", "--count", "4")
    assert result.code == 1
    assert said in result.out
    assert "1 of 1 directory did not get the layout that was asked for" in result.error


def test_a_failure_of_lfs_is_one_line(cli: Cli, lustre: Lustre) -> None:
    lustre.set(fails={"setstripe": 13})
    result = cli("stripe", lustre.mount / "out")
    assert result.code == 1
    failed = f"`lfs setstripe -c 1 -S 4194304 {lustre.mount / 'out'}` failed: exit code 13: "
    assert failed in result.error
    assert "it\\x1b[1m failed" in result.error  # nothing of it reaches the terminal


@pytest.mark.parametrize(
    "words",
    [
        *(("--count", count) for count in ("0", "-2", "2001", "off", "pfl")),
        *(("--stripe_size", size) for size in ("100KiB", "4GiB")),
        ("--file_size", "large"),
    ],
    ids=" ".join,
)
def test_what_lustre_cannot_do_is_wrong_usage(
    cli: Cli, lustre: Lustre, words: tuple[str, ...]
) -> None:
    result = cli("stripe", lustre.mount / "out", *words)
    assert result.code == 2
    assert words[0] in result.error
    assert lustre.calls() == []


# --- elsewhere ---


def test_elsewhere_nothing_is_done_and_that_is_said(
    cli: Cli, lustre: Lustre, tmp_path: Path
) -> None:
    out = tmp_path / "elsewhere"
    result = cli("stripe", out)
    assert result.code == 0
    (line,) = result.out.splitlines()
    assert line.endswith("not on Lustre: no layout is set")
    assert not out.exists()
    assert lustre.calls() == []


def test_without_the_tool_it_is_an_error(
    cli: Cli, lustre: Lustre, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    result = cli("stripe", lustre.mount / "out")
    assert result.code == 1
    assert "is on Lustre, but there is no `lfs` on PATH" in result.error
