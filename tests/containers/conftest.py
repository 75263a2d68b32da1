"""An image is built only when it is asked for: that takes minutes and downloads packages."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.containers.base_image import NoBaseError, base_image
from tests.containers.buildah import Buildah, Container, NoBuildahError
from tests.containers.image import build

CALLER = (54321, 54322)  # a user and a group that no machine knows


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "container" in config.getoption("markexpr"):
        return
    skip = pytest.mark.skip(reason="builds an image, which takes minutes: make test-container")
    for item in items:
        if item.get_closest_marker("container"):
            item.add_marker(skip)


@pytest.fixture(scope="session")
def buildah(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Buildah]:
    """A store of its own, with Debian in it under the name that the Dockerfile starts from."""
    root = tmp_path_factory.mktemp("buildah")
    try:
        buildah = Buildah.here(root)
        buildah.load_base(base_image(root))
    except (NoBuildahError, NoBaseError) as reason:
        pytest.skip(str(reason))
    yield buildah
    # pytest keeps the directories of three sessions; these are gigabytes.
    shutil.rmtree(root)


@pytest.fixture(scope="session")
def image(buildah: Buildah, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The image, built as a site builds it."""
    return build(buildah, tmp_path_factory.mktemp("secrets"))


@pytest.fixture(scope="session")
def container(buildah: Buildah, image: str) -> Iterator[Container]:
    """One container for all tests: with vfs each is a copy, and they only write into volumes."""
    with buildah.container(image) as container:
        yield container


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A directory of somebody who is in no list of users, for the container to write into."""
    path = tmp_path / "shared"
    path.mkdir()
    shutil.chown(path, *CALLER)
    return path
