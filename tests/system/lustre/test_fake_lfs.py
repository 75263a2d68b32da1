"""The stand-in behaves as the table that was read off a real `lfs`, off Lustre and on it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.system.lustre.lustre import PROGRESSIVE, Lustre


def run(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["lfs", *map(str, words)], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("words", "code", "leaves"),
    [
        ("setstripe -c 4 -S 1M new", 25, True),
        ("setstripe -c 4 -S 1M old", 25, False),
        ("setstripe -c 4 .", 25, False),
        ("setstripe -E 4M -c 1 -E -1 -c 4 new", 1, True),
        ("setstripe -S 100 new", 4, False),
        ("setstripe -S 4 new", 4, False),  # 4 KiB
        ("setstripe -S 100K new", 4, False),
        ("setstripe -c 3000 new", 4, False),
        ("setstripe -c abc new", 4, False),
        ("setstripe -i -2 new", 4, False),
        ("setstripe -E 100K new", 4, False),
        ("setstripe -x new", 4, False),
        ("setstripe --help", 4, False),
        ("setstripe -c 1", 4, False),
        ("setstripe -S 5G new", 22, False),
        ("setstripe -L mdt new", 22, False),
        ("setstripe -p pool new", 19, False),
        ("setstripe -c 1 none/new", 2, False),
        ("getstripe old", 25, False),
        ("getstripe -c old", 25, False),
        ("getstripe -y old", 25, False),
        ("migrate -c 4 old", 25, False),
        ("df .", 95, False),
        ("nonsense", 1, False),
    ],
)
def test_off_lustre(lustre: Lustre, tmp_path: Path, words: str, code: int, leaves: bool) -> None:
    place = tmp_path / "disk"
    place.mkdir()
    (place / "old").touch()
    paths = {name: place / name for name in ("new", "old", ".", "none/new")}
    done = run(*(paths.get(word, word) for word in words.split()))
    assert done.returncode == code, done
    assert done.stderr.startswith("lfs ")
    assert (place / "new").exists() is leaves
    assert ("usage" in done.stdout) is (code == 4)


def test_on_lustre(lustre: Lustre) -> None:
    old = lustre.mount / "old"
    old.touch()
    lustre.set(inactive=[3])
    assert run("setstripe", "-c", 4, old).returncode == 17
    assert run("setstripe", "-o", "1,3", lustre.mount / "new").returncode == 121
    assert run("setstripe", "-c", 4, lustre.mount / "made").returncode == 0
    assert (lustre.mount / "made").is_file()
    assert run("getstripe", "-c", lustre.mount / "made").stdout == "4\n"
    both = run("getstripe", "-c", "-S", lustre.mount / "made").stdout
    assert both == "lmm_stripe_count:  4\nlmm_stripe_size:  4194304\n"
    lustre.set(restricted=True)
    done = run("setstripe", "-c", 4, lustre.mount)
    assert (done.returncode, "restricted by your administrator" in done.stderr) == (0, True)
    assert run("getstripe", "-d", "-c", lustre.mount).stdout == "1\n"


def test_what_is_there_keeps_its_layout_and_what_is_new_inherits(lustre: Lustre) -> None:
    before, after = lustre.mount / "before", lustre.mount / "after"
    before.mkdir()
    (lustre.mount / "old").touch()
    assert run("setstripe", "-c", -1, "-S", "1M", lustre.mount).returncode == 0
    after.mkdir()
    (after / "new").touch()
    found = {
        place.name: run("getstripe", "-d", "-c", place).stdout.strip()
        for place in (before, after, lustre.mount / "old", after / "new")
    }
    assert found == {"before": "1", "after": "-1", "old": "1", "new": "16"}


@pytest.mark.parametrize(
    ("version", "line"),
    [([2, 12], "  component0:\n    lcme_id: "), ([2, 16], "  components:\n  - lcme_id: ")],
    ids=["old", "new"],
)
def test_the_yaml_of_components_changed(lustre: Lustre, version: list[int], line: str) -> None:
    lustre.set(default=PROGRESSIVE, version=version)
    assert line in run("getstripe", "-d", "-y", lustre.mount).stdout
