"""Directories and archives alike: what they are, what is in them, and what is refused."""

from __future__ import annotations

import gzip
import io
import os
import zipfile
from collections.abc import Callable, Iterable

import pytest

from dataprep.archives.containers import list_container, stat_fingerprint
from dataprep.errors import SourceError
from tests.datasets.conftest import RawData

NAMES = ["b.png", "x/y/c.JPEG", "x/a.jpg", "x/notes.txt", ".git/d.png", "@eaDir/e.jpg", "x/.f.png"]
IMAGES = ["b.png", "x/a.jpg", "x/y/c.JPEG"]
Forms = Callable[[list[str]], dict[str, str]]


def zipped(names: Iterable[str]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name in names:
            archive.writestr(name, name)
    return stream.getvalue()


@pytest.fixture
def forms(raw: RawData) -> Forms:
    """Write the same files as a folder and as each archive: {container: restarts name}."""

    def write(names: list[str]) -> dict[str, str]:
        members = [(name, name.encode()) for name in names]
        raw.write("a.tar", raw.tar(members))
        raw.write("a.tar.gz", gzip.compress(raw.tar(members)))
        raw.write("a.zip", zipped(names))
        return {"a.tar": "", "a.tar.gz": "a.restarts", "a.zip": ""}

    return write


def paths(raw: RawData, container: str, *, deep: bool) -> list[str]:
    return [image.path for image in list_container(raw.path, container, deep=deep).images]


def test_every_form_lists_the_same(raw: RawData, forms: Forms) -> None:
    archives = forms(NAMES)
    for name in NAMES:
        raw.write(f"a/{name}", name.encode())
    assert paths(raw, "a", deep=True) == IMAGES
    for container, restarts in archives.items():
        found = list_container(raw.path, container, restarts_name=restarts)
        assert sorted(image.path for image in found.images) == IMAGES
        assert {ignored.name for ignored in found.ignored} == set(NAMES) - set(IMAGES)
        assert bool(found.restarts) == bool(restarts)


def test_names_are_cleaned_and_those_that_lead_out_are_left_out(raw: RawData, forms: Forms) -> None:
    names = ["./a.png", "/etc/b.png", "x//./c.png", "../d.png", "x/../e.png", "..f.png"]
    for container, restarts in forms(names).items():
        found = list_container(raw.path, container, restarts_name=restarts)
        assert [image.path for image in found.images] == ["a.png", "etc/b.png", "x/c.png"]
        assert [image.name for image in found.images] == ["a.png", "b.png", "c.png"]
        assert [(ignored.name, ignored.reason) for ignored in found.ignored] == [
            ("../d.png", "path with .. in it, which may lead elsewhere"),
            ("x/../e.png", "path with .. in it, which may lead elsewhere"),
            ("..f.png", "hidden file"),
        ]


@pytest.mark.parametrize(
    ("container", "content", "message"),
    [
        (
            "a.csv",
            b"Image Index,Finding\n",
            "cannot be read in place; expected a folder, .tar, .tar.g",
        ),
        ("a.tgz", b"<html>", "is damaged or truncated: Not a gzipped file"),
        ("a.tar", b"<html>", "is damaged or not a tar archive"),
        ("a.tar", b"<html>" * 100, "is damaged or not a tar archive"),
        ("a.zip", b"<html>", "is damaged or not a zip archive"),
        ("a.tar", b"", "has 0 bytes"),
        ("a.tar", gzip.compress(b"x" * 999, mtime=0), ".* must be called .tar.gz"),
    ],
    ids=["list", "tgz", "short", "tar", "zip", "empty", "gzip"],
)
def test_anything_else_is_refused(
    raw: RawData, container: str, content: bytes, message: str
) -> None:
    raw.write(container, content)
    with pytest.raises(SourceError, match=f"{container} {message}") as caught:
        list_container(raw.path, container, restarts_name="r")
    assert "\n" not in str(caught.value)


def test_what_is_gone_or_no_file_is_refused(raw: RawData) -> None:
    for function in (list_container, stat_fingerprint):
        with pytest.raises(SourceError, match=r"cannot read gone.tar: No such file"):
            function(raw.path, "gone.tar")
    os.mkfifo(raw.path / "pipe.tar")
    with pytest.raises(SourceError, match=r"pipe.tar cannot be read in place"):
        list_container(raw.path, "pipe.tar")


def test_a_folder_is_only_searched_below_if_asked(raw: RawData) -> None:
    for name in NAMES:
        raw.write(f"a/{name}", b"x")
    found = list_container(raw.path, "a")
    assert [image.path for image in found.images] == ["b.png"]
    assert {ignored.name: ignored.reason for ignored in found.ignored} == dict.fromkeys(
        ["x", ".git", "@eaDir"], "folder, not searched for images"
    )
    found = list_container(raw.path, "a", deep=True)
    assert [(image.path, image.container) for image in found.images] == [
        (name, f"a/{name}") for name in IMAGES
    ]
    assert [(ignored.name, ignored.reason.partition(" (")[0]) for ignored in found.ignored] == [
        (".git", "hidden or system folder, not searched for images"),
        ("@eaDir", "hidden or system folder, not searched for images"),
        ("x/.f.png", "hidden file"),
        ("x/notes.txt", "not an image name"),
    ]


def test_linked_folders_are_followed_but_not_in_circles(raw: RawData) -> None:
    raw.write("elsewhere/one.png", b"1")
    raw.write("a/inner/two.png", b"2")
    (raw.path / "a" / "linked").symlink_to(raw.path / "elsewhere")
    (raw.path / "a" / "inner" / "circle").symlink_to(raw.path / "a")
    found = list_container(raw.path, "a", deep=True)
    assert [image.path for image in found.images] == ["inner/two.png", "linked/one.png"]
    assert [(ignored.name, ignored.reason) for ignored in found.ignored] == [
        ("inner/circle", "symbolic link to a folder that it is in")
    ]


def test_a_link_that_leads_nowhere_is_named(raw: RawData) -> None:
    raw.write("a/x/one.png", b"1")
    (raw.path / "a" / "x" / "two.png").symlink_to("gone.png")
    with pytest.raises(SourceError, match=r"cannot read a/x/two.png: No such file"):
        list_container(raw.path, "a", deep=True)


def test_an_empty_folder_is_named(raw: RawData) -> None:
    (raw.path / "a" / "b").mkdir(parents=True)
    for deep in (True, False):
        found = list_container(raw.path, "a/b", deep=deep)
        assert [(ignored.container, ignored.reason) for ignored in found.ignored] == [
            ("a/b", "empty class folder")
        ]
