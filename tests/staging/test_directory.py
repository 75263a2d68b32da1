"""Target directories: what is made, what is refused, and what only looks like ours."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.errors import NoRoomError, StagingError
from dataprep.staging.directory import PRIVATE, StageDirectory, private_name
from dataprep.staging.sentinel import add_lease
from dataprep_schemas.state import JobLease

STRANGER = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")


@contextmanager
def somebody_else() -> Iterator[None]:
    """Root stops being root."""
    os.seteuid(STRANGER)
    try:
        yield
    finally:
        os.seteuid(0)


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@pytest.fixture
def public() -> Iterator[Path]:
    """A directory that every user can reach, unlike pytest's."""
    path = Path(tempfile.mkdtemp(dir=tempfile.gettempdir()))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def make(path: Path) -> None:
    StageDirectory.make(path).close()


def descriptors() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


def test_what_is_missing_is_made_for_this_user_alone(tmp_path: Path) -> None:
    with StageDirectory.make(tmp_path / "job" / "imagenet") as directory:
        assert os.fstat(directory.descriptor).st_ino == (tmp_path / "job/imagenet").stat().st_ino
        assert directory.is_current()
    for made in ("job", "job/imagenet", f"job/imagenet/{PRIVATE}"):
        assert mode(tmp_path / made) == 0o700


@pytest.mark.parametrize("mask", [0o000, 0o077], ids=oct)
def test_no_umask_changes_the_modes(tmp_path: Path, mask: int) -> None:
    with umask(mask), StageDirectory.make(tmp_path / "a" / "b") as directory:
        directory.write_private("note", JobLease("x"))
        assert directory.read_private("note", JobLease) is not None
    assert [mode(tmp_path / each) for each in ("a", "a/b", f"a/b/{PRIVATE}")] == [0o700] * 3
    assert mode(tmp_path / "a" / "b" / PRIVATE / "note") == 0o600


def test_nothing_staged_means_nothing_exists(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert StageDirectory.existing(tmp_path / "empty") is None
    assert StageDirectory.existing(tmp_path / "absent" / "deeper") is None
    assert not (tmp_path / "absent").exists()
    make(tmp_path / "made")
    found = StageDirectory.existing(tmp_path / "made")
    assert found is not None
    found.close()


def test_nothing_was_staged_where_everybody_may_write() -> None:
    assert StageDirectory.existing(Path("/")) is None


@pytest.mark.parametrize("target", ["{}/real", "real", "./elsewhere/../real"])
def test_links_of_this_user_are_followed_on_the_way(tmp_path: Path, target: str) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(target.format(tmp_path))
    with StageDirectory.make(tmp_path / "link" / "job") as directory:
        assert directory.is_current()
    assert (tmp_path / "real" / "job" / PRIVATE).is_dir()


def refuse_file(path: Path) -> None:
    (path / "target").write_text("")


def refuse_everybody(path: Path) -> None:
    (path / "target").mkdir()
    (path / "target").chmod(0o1777)


def refuse_private_link(path: Path) -> None:
    (path / "elsewhere").mkdir()
    (path / "target").mkdir()
    (path / "target" / PRIVATE).symlink_to(path / "elsewhere")


def refuse_open_private(path: Path) -> None:
    (path / "target" / PRIVATE).mkdir(parents=True)
    (path / "target" / PRIVATE).chmod(0o777)


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        (refuse_file, "Not a directory; mend that"),
        (refuse_everybody, "may be written by others; choose a directory of your own, e.g. --to "),
        (refuse_private_link, "Not a directory; mend that"),
        (refuse_open_private, "may be written by others"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_what_is_not_safe_is_refused_in_one_line(
    tmp_path: Path, prepare: Callable[[Path], None], words: str
) -> None:
    prepare(tmp_path)
    before, open_before = sorted(tmp_path.rglob("*")), descriptors()
    with pytest.raises(StagingError) as caught:
        StageDirectory.make(tmp_path / "target")
    assert words in str(caught.value)
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert sorted(tmp_path.rglob("*")) == before
    assert descriptors() == open_before


def test_a_full_node_has_no_room(small_disk: Callable[[str], Path]) -> None:
    disk = small_disk("64k")
    (disk / "mine").mkdir()
    fill(disk / "full")
    open_before = descriptors()
    with StageDirectory.make(disk / "mine") as directory:
        with pytest.raises(NoRoomError, match="no space left"):
            add_lease(directory, "slurm-1")
        with pytest.raises(StagingError, match="no space left") as raised:
            directory.write_private("complete.json", JobLease("x"))
        assert not isinstance(raised.value, NoRoomError)  # something may be copied by then
        assert directory.private_names() == []
    assert descriptors() == open_before


def fill(path: Path) -> None:
    """Until not a byte more can be written where it is."""
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(1024))


@needs_root
def test_a_directory_that_another_user_put_into_a_shared_place_is_refused(public: Path) -> None:
    public.chmod(0o1777)
    (public / "me").mkdir(mode=0o777)
    os.chown(public / "me", STRANGER, STRANGER)
    for path in (public / "me", public / "me" / "imagenet"):
        with pytest.raises(StagingError, match=r"me belongs to nobody"):
            StageDirectory.make(path)


@needs_root
def test_a_link_that_another_user_put_into_a_shared_place_is_not_followed(public: Path) -> None:
    public.chmod(0o1777)
    (public / "real").mkdir()
    (public / "link").symlink_to("real")
    os.chown(public / "link", STRANGER, STRANGER, follow_symlinks=False)
    for path in (public / "link", public / "link" / "job"):
        for opening in (StageDirectory.make, StageDirectory.existing):
            with pytest.raises(StagingError, match="link belongs to nobody, in"):
                opening(path)
    assert list((public / "real").iterdir()) == []


@needs_root
def test_a_place_where_anybody_can_replace_anything_is_refused(public: Path) -> None:
    (public / "scratch").mkdir()
    (public / "scratch").chmod(0o777)
    with (
        somebody_else(),
        pytest.raises(StagingError, match="everybody may write it"),
    ):
        StageDirectory.make(public / "scratch" / "job")


@needs_root
def test_a_private_directory_of_another_user_is_refused(public: Path) -> None:
    (public / "mine" / PRIVATE).mkdir(parents=True)
    os.chown(public / "mine" / PRIVATE, STRANGER, STRANGER)
    for opening in (StageDirectory.make, StageDirectory.existing):
        with pytest.raises(StagingError, match=f"{PRIVATE} belongs to nobody"):
            opening(public / "mine")


def test_a_directory_that_was_removed_or_replaced_is_noticed(tmp_path: Path) -> None:
    with StageDirectory.make(tmp_path / "job") as directory:
        (tmp_path / "job").rename(tmp_path / "old")
        assert not directory.is_current()
        (tmp_path / "job" / PRIVATE).mkdir(parents=True)
        assert not directory.is_current()
    with StageDirectory.make(tmp_path / "other") as directory:
        shutil.rmtree(tmp_path / "other" / PRIVATE)
        assert not directory.is_current()
        with pytest.raises(StagingError, match="No such file"):
            directory.write_private("note", JobLease("x"))


@given(st.text(), st.text())
def test_private_names_are_safe_and_different(one: str, other: str) -> None:
    names = [private_name("lease", one), private_name("lease", other)]
    assert (names[0] == names[1]) == (one == other)
    for name in names:
        assert name.isascii()
        assert "/" not in name
        assert len(name) < 200
