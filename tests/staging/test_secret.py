"""By what nodes know each other: the environment, MUNGE, or a file of the home directory."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dataprep.errors import StagingError
from dataprep.staging.secret import SECRET, _unsealed, accept, offer
from tests.staging.conftest import eventually
from tests.staging.test_rendezvous import count_reports, meet, placed, token

__all__ = ["token"]

FILE = Path(".config", "dataprep", "rendezvous")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory, a PATH without MUNGE, and no secret in the environment."""
    for name in ("home", "bin"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv(SECRET, raising=False)
    return tmp_path / "home"


@pytest.fixture
def munge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A MUNGE daemon of the test's own."""
    path = "/usr/bin:/usr/sbin:/bin:/sbin"
    daemon = shutil.which("munged", path=path)
    if daemon is None:
        pytest.skip("munged is not installed")
    key, there = tmp_path / "key", tmp_path / "socket"
    key.write_bytes(bytes(range(64)))
    key.chmod(0o600)
    own = {"socket": there, "key-file": key, "pid-file": tmp_path / "pid"}
    own |= {"seed-file": tmp_path / "seed", "log-file": tmp_path / "log"}
    for name in ("munge", "unmunge"):
        script = tmp_path / "bin" / name
        script.write_text(f'#!/bin/sh\nexec {shutil.which(name, path=path)} -S {there} "$@"\n')
        script.chmod(0o755)
    words = [f"--{name}={place}" for name, place in own.items()]
    with subprocess.Popen([daemon, "--foreground", "--force", *words]) as process:
        try:
            eventually(lambda: there.exists() or process.poll() is not None)
            monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin")
            yield
        finally:
            process.terminate()


def met(token: str) -> list[str]:
    """What three nodes were told that meet."""
    told: list[str] = []

    def one(node: int) -> int:
        with meet(placed(node, 3), token, line=told.append) as peers:
            return count_reports(peers)

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(one, range(3))) == [3, 3, 3]
    return told


def test_a_secret_in_the_environment_counts_and_need_not_be_told(
    token: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SECRET, "hush")
    assert met(token) == []
    assert not [*home.iterdir()]


def test_munge_is_taken_where_its_daemon_runs(token: str, home: Path, munge: None) -> None:
    assert met(token) == ["nodes know each other by munge"]
    assert not [*home.iterdir()]


def test_what_munge_holds_is_the_secret_again_and_again(munge: None) -> None:
    offered = offer(60)
    assert offered.secret not in offered.credential.encode()
    for _ in range(2):
        assert accept("munge", offered.credential) == offered.secret
        _unsealed.cache_clear()  # unmunge itself is asked again


def test_a_credential_of_another_user_proves_nothing(
    munge: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["munge", "--string=mine"]
    theirs = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    monkeypatch.setattr("os.getuid", lambda: 4711)
    with pytest.raises(ValueError, match="another user's process answers"):
        accept("munge", theirs)
    with pytest.raises(ValueError, match="unmunge fails here"):
        accept("munge", "MUNGE:x:")


def test_else_a_file_of_the_home_directory_is_made_and_told(token: str, home: Path) -> None:
    assert met(token) == [f"nodes know each other by {home / FILE}"]
    assert (home / FILE).stat().st_mode & 0o777 == 0o600
    assert (home / FILE).parent.stat().st_mode & 0o777 == 0o700
    before = (home / FILE).read_bytes()
    met(token)
    assert (home / FILE).read_bytes() == before


def test_a_file_that_others_may_read_or_that_is_none_is_refused(home: Path, tmp_path: Path) -> None:
    offer(60)
    file = home / FILE
    file.chmod(0o640)
    with pytest.raises(
        StagingError, match=rf"{FILE} is not a file of yours alone.* export {SECRET}"
    ):
        offer(60)
    file.rename(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").chmod(0o600)
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StagingError, match="cannot be used"):
        offer(60)
    file.unlink()
    file.write_text("password\n")
    file.chmod(0o600)
    with pytest.raises(StagingError, match="64 hexadecimal digits; delete it"):
        offer(60)


def test_who_does_not_come_by_node_0s_secret_is_told_why(
    token: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ThreadPoolExecutor(1) as pool:
        zero = pool.submit(meet, placed(0, 2), token, seconds=3)
        eventually((home / FILE).exists)
        monkeypatch.setenv(SECRET, "hush")
        with pytest.raises(StagingError, match=rf"port [0-9]+: \${SECRET} is set here, but not on"):
            meet(placed(1, 2), token, seconds=0.5)
        monkeypatch.delenv(SECRET)
        (home / FILE).unlink()
        with pytest.raises(StagingError, match=r"which cannot be read here \(No such file"):
            meet(placed(1, 2), token, seconds=0.5)
        assert "did not come" in str(zero.exception())
