"""The image's pins: exact, proven by hashes, and enough for what the project asks for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import dataprep

ROOT = Path(__file__).parents[2]
FILES = ("requirements.txt", "build-requirements.txt")
REFRESH = "refresh the pins as docs/installing.md says"

ENTRY = re.compile(r"[\w.-]+==\S+( ; [^-]+?)?(\s+--hash=sha256:[0-9a-f]{64})+")

# What the image is made with, whatever this interpreter is.
IMAGE = {"python_version": "3.11", "python_full_version": "3.11.2", "sys_platform": "linux"}


def entries(name: str) -> list[str]:
    """A requirement and its hashes each, in one line."""
    text = (ROOT / "docker" / name).read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    return "\n".join(lines).replace("\\\n", " ").splitlines()


def pins(name: str) -> dict[str, str]:
    """The version of each package in the image."""
    found: dict[str, str] = {}
    for entry in entries(name):
        requirement = Requirement(entry.partition(" --hash")[0])
        if requirement.marker is None or requirement.marker.evaluate(IMAGE):
            (specifier,) = requirement.specifier
            assert specifier.operator == "==", entry
            found[canonicalize_name(requirement.name)] = specifier.version
    return found


def wanted() -> dict[str, list[str]]:
    """What pyproject.toml asks for, by file of pins."""
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    own = project["project"]
    return {
        "requirements.txt": [
            *own["dependencies"],
            *own["optional-dependencies"]["dask"],
            *own["optional-dependencies"]["report"],
        ],
        "build-requirements.txt": project["build-system"]["requires"],
    }


@pytest.mark.parametrize("name", FILES)
def test_the_pins_are_what_the_project_asks_for(name: str) -> None:
    found = pins(name)
    for line in wanted()[name]:
        requirement = Requirement(line)
        version = found.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement.name} is not in docker/{name}; {REFRESH}"
        assert version in requirement.specifier, (
            f"{line}, but docker/{name} has {version}; {REFRESH}"
        )


@pytest.mark.parametrize("name", FILES)
def test_every_pin_is_proven_by_hashes_and_names_no_index(name: str) -> None:
    assert entries(name)
    for entry in entries(name):
        assert ENTRY.fullmatch(entry), entry


def test_the_dockerfile_says_the_version_of_the_project() -> None:
    text = (ROOT / "docker" / "Dockerfile").read_text(encoding="utf-8")
    assert f'image.version="{dataprep.__version__}"' in text
