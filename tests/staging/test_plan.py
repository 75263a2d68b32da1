"""Where a copy goes: what the user and the site say, and what is refused or warned about."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dataprep.errors import StagingError
from dataprep.staging import plan
from dataprep.staging.placement import Placement
from dataprep.staging.plan import find_target
from dataprep.system import filesystems
from dataprep.system.filesystems import Scratch

ME = pwd.getpwuid(os.getuid()).pw_name
JOB = Placement("n0", 0, 1, 0, "slurm-4711", None, None, "Slurm")
NO_JOB = Placement("n0", 0, 1, 0, None, None, None, "nothing")

Find = Callable[..., Scratch]


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with one place of every kind, all on a local disk; ``kinds`` says otherwise."""
    for name in ("site", "slurm", "local", "jobfs", f"bb/{ME}", "tmpdir", "alcf", "tmp"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setattr(filesystems, "_BURST_BUFFER", tmp_path / "bb")
    monkeypatch.setattr(filesystems, "_LOCAL", tmp_path / "alcf")
    monkeypatch.setattr(filesystems, "_TMP", tmp_path / "tmp")
    return tmp_path


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Say which file systems places are on, by a part of their path."""

    def say(**kinds: str) -> None:
        def kind(path: Path) -> str:
            return next((kinds[part] for part in reversed(path.parts) if part in kinds), "ext4")

        monkeypatch.setattr(plan, "filesystem_of", kind)

    say()
    return say


@pytest.fixture
def find(node: Path, on: Callable[..., None]) -> Find:
    def find(to: Path | None = None, **options: object) -> Scratch:
        variables = {
            name: str(node / value) if isinstance(value, str) else str(value)
            for name, value in options.items()
            if name.isupper()
        }
        others = {name: value for name, value in options.items() if not name.isupper()}
        settings: dict[str, Any] = {"name": "imagenet", "placement": JOB, **others}
        return find_target(to, environment=variables, **settings)

    return find


ORDER = {
    "DATAPREP_SCRATCH": "site",
    "SLURM_TMPDIR": "slurm",
    "LOCAL_SCRATCH": "local",
    "PBS_JOBFS": "jobfs",
    "TMPDIR": "tmpdir",
}


def test_places_are_tried_in_the_order_of_how_explicit_they_are(node: Path, find: Find) -> None:
    variables = dict(ORDER)
    for name in list(ORDER)[:4]:
        assert find(**variables).why == f"${name}"
        assert find(**variables).path.parent.parent.parent == node / ORDER[name]
        del variables[name]
    assert find(**variables).why == str(node / "bb" / ME)
    (node / "bb" / ME).rmdir()
    assert find(**variables).why == "$TMPDIR"
    assert find().why == str(node / "alcf")
    (node / "alcf").rmdir()
    assert find().why == str(node / "tmp")


def test_what_the_user_names_is_used_as_it_is(
    node: Path, find: Find, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = find(node / "new" / "there", **ORDER)
    assert (target.path, target.why) == (node / "new" / "there", "--to")
    monkeypatch.chdir(node)
    assert find(Path("~/x")).path == node / "~" / "x"


def test_a_chosen_place_gets_a_directory_of_user_job_and_data_set(node: Path, find: Find) -> None:
    place = node / "slurm" / f"dataprep-{ME}"
    assert find(SLURM_TMPDIR="slurm").path == place / "slurm-4711" / "imagenet"
    assert find(SLURM_TMPDIR="slurm", placement=NO_JOB).path == place / "nojob" / "imagenet"
    assert find(SLURM_TMPDIR="slurm", shared=True).path == place / "shared" / "imagenet"
    assert not place.exists()


@pytest.mark.parametrize("name", ["", "..", "../../etc", "a b", "\udcff", "a\nb", "x" * 300, "-rf"])
def test_any_data_set_s_name_becomes_one_plain_directory(node: Path, find: Find, name: str) -> None:
    path = find(SLURM_TMPDIR="slurm", name=name).path
    assert path.parent == node / "slurm" / f"dataprep-{ME}" / "slurm-4711"
    assert path.name.isascii()
    assert path.name.isprintable()
    assert not path.name.startswith((".", "-"))
    assert 0 < len(path.name) < 120


@pytest.mark.parametrize(
    ("name", "trouble"),
    [("DATAPREP_SCRATCH", "absent"), ("SLURM_TMPDIR", "network"), ("PBS_JOBFS", "relative")],
)
def test_a_promise_that_is_not_kept_is_an_error_and_fills_no_other_place(
    node: Path, find: Find, on: Callable[..., None], name: str, trouble: str
) -> None:
    on(site="nfs4", slurm="lustre", local="gpfs", jobfs="beegfs")
    value: object = ORDER[name]
    if trouble == "absent":
        value = "nowhere"
    if trouble == "relative":
        value = Path("here")
    with pytest.raises(StagingError, match=r"--to$") as caught:
        find(**{name: value})
    message = str(caught.value)
    assert f"${name}" in message
    expected = {"absent": "of a directory", "network": "is on ", "relative": "absolute"}
    assert expected[trouble] in message
    assert "\n" not in message


def test_other_places_are_passed_over(node: Path, find: Find, on: Callable[..., None]) -> None:
    on(bb="lustre", tmpdir="nfs")
    assert find(TMPDIR="tmpdir").why == str(node / "alcf")
    assert find(TMPDIR="nowhere").why == str(node / "alcf")


@pytest.mark.parametrize("kind", ["lustre", "nfs4"])
def test_a_network_file_system_is_refused_by_name(
    node: Path, find: Find, on: Callable[..., None], kind: str
) -> None:
    on(project=kind)
    with pytest.raises(StagingError, match=rf"is on {kind}, .* --to$"):
        find(node / "project" / "new")
