"""The site's defaults: read once, refused in one line, behind options and variables."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dataprep.api import calls
from dataprep.api.options import chosen_striping, convert_options, stage_options
from dataprep.system import site as module
from dataprep.system.filesystems import scratch_conventions, user_name
from dataprep.system.job_limits import usable_cores
from dataprep.system.site import VARIABLE, site, site_file
from dataprep_schemas.site import Site
from tests.conftest import Cli, Made
from tests.docs.pages import DOCS, said

WHOLE = """
scratch = ["/nvme/$SLURM_JOB_ID", "/nvme/$USER"]
login_workers = 1
login_io_limit = "200MB"
bandwidth = "500MB"
runner = "dask"
dask_slurm = "nodes=4,cores=32"
lustre_stripe = 4
lustre_pool = "flash"
"""
JOBS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID")


@pytest.fixture(autouse=True)
def _outside_of_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in JOBS:
        monkeypatch.delenv(name, raising=False)


def put(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str = WHOLE) -> Path:
    file = tmp_path / "dataprep.toml"
    file.write_text(text)
    monkeypatch.setenv(VARIABLE, str(file))
    return file


def test_the_file_is_named_by_a_variable_or_in_etc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = put(tmp_path, monkeypatch)
    found = site()
    assert found is not None
    assert (found.login_workers, found.lustre_stripe, found.runner) == (1, 4, "dask")
    monkeypatch.setenv(VARIABLE, "")
    assert (site_file(), site()) == (None, None)
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setattr(module, "PLACE", tmp_path / "absent")
    assert site() is None
    monkeypatch.setattr(module, "PLACE", file)
    assert site() == found


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("scrach = []", "unknown field `scrach`; it may have scratch, login_workers, login_io_"),
        ("login_workers = 0", "Expected `int` >= 1 - at `$.login_workers`"),
        ("scratch = '/nvme'", "Expected `array`, got `str` - at `$.scratch`"),
        ("runner", "; it may have scratch, "),
        (None, "No such file or directory"),
    ],
)
def test_a_wrong_file_is_one_line_of_every_command_that_needs_it(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, what: str
) -> None:
    file = put(tmp_path, monkeypatch, text or "")
    if text is None:
        file.unlink()
    # In processes of their own: a command makes its options once.
    commands = (("imagenet", "--help"), ("stage", "a", "--to", "b"), ("hook", "slurm", "a"))
    for words in commands if text is None else commands[:1]:
        result = cli.done(cli.start(*words))
        assert result.code == 2
        assert result.error.startswith(f"dataprep: error: {file}, the site's defaults: ")
        assert what in result.error
    assert cli("--help").code == 0
    told = cli("doctor")  # which goes on
    assert told.code == 0
    assert f"wrong: {file}, the site's defaults: " in told.out


def test_a_value_that_no_option_could_have_is_refused_with_the_file(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for text in ("login_io_limit = 'much'", "lustre_stripe = 'wide'", "bandwidth = '1'"):
        folder = tmp_path / text[:5]  # a file is read once
        folder.mkdir()
        file = put(folder, monkeypatch, text)
        result = cli.done(cli.start("stage" if "bandwidth" in text else "imagenet", "--help"))
        assert result.code == 2
        assert f"error: {file}, for --" in result.error


def values(**given: Any) -> dict[str, Any]:
    return convert_options().settle({"to": "a", "sink": "lmdb", **given})


def test_options_win_and_limits_of_login_nodes_are_for_login_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, monkeypatch)
    found = values()
    assert (found["runner"], found["dask_slurm"]) == ("dask", "nodes=4,cores=32")
    assert (found["io_limit"], usable_cores()) == (200_000_000, 1)
    assert stage_options().settle({})["bandwidth"] == 500_000_000
    given = values(runner="direct", io_limit="1GB")
    assert (given["runner"], given["io_limit"]) == ("direct", 1_000_000_000)
    for name in JOBS:
        with monkeypatch.context() as job:
            job.setenv(name, "7")
            assert values()["io_limit"] is None
            if name != "SLURM_JOB_ID":
                assert usable_cores() == len(os.sched_getaffinity(0))
    striping = chosen_striping(values())
    assert (striping.count, striping.pool, striping.asked) == (4, "flash", False)
    striping = chosen_striping(values(lustre_stripe="auto"))
    assert (striping.count, striping.pool, striping.asked) == ("auto", "", True)


def test_scratch_comes_behind_variables_and_before_guesses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, monkeypatch)
    found = scratch_conventions({"DATAPREP_SCRATCH": "/mine", "TMPDIR": "/tmpdir"})
    paths = [str(each.path) for each in found]
    assert paths[:2] == ["/mine", f"/nvme/{user_name()}"]
    assert "/tmpdir" in paths[2:]
    assert [each.promised for each in found][:2] == [True, False]
    in_job = scratch_conventions({"SLURM_JOB_ID": "7", "USER": "ann"})
    assert [str(each.path) for each in in_job][:2] == ["/nvme/7", "/nvme/ann"]


def test_what_says_nothing_to_the_engine_that_is_asked_for_is_left_out(
    cli: Cli, tiny: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, monkeypatch)
    out = tmp_path / "out"
    result = cli(*tiny.command(out, "--runner", "direct"))
    assert result.code == 0, result
    result = cli(*tiny.command(tmp_path / "other", "--runner", "direct", "--dask_slurm", "nodes=1"))
    assert result.code == 2
    assert "--dask_slurm is for Dask's workers" in result.error
    given = {"to": out, "sink": "lmdb", "dask_client_address": "tcp://a:1"}
    engine = calls._Call(convert_options(), given, ()).engine
    assert (engine.runner, engine.dask_client_address) == ("dask", "tcp://a:1")
    assert engine.dask_slurm is None


def test_help_and_doctor_show_them(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = put(tmp_path, monkeypatch)
    text = " ".join(cli("imagenet", "--help-all").out.split())
    for value in ("dask", "200MB", "nodes=4,cores=32", "4", "flash"):
        assert f"[default: {value}, by" in text
    assert f"defaults of the site: {file}: scratch = ['/nvme/$SLURM" in "".join(
        cli("doctor").out.splitlines()
    ).replace("(", "[").replace(")", "]")


def test_the_page_for_sites_names_every_key() -> None:
    named = {found[1] for _, found in said(r"^\| `(\w+)` \|", DOCS / "installing.md")}
    assert named == {*Site.__struct_fields__}
    ((_, example),) = said(r"```toml\n([\s\S]*?)```", DOCS / "installing.md")
    assert msgspec.toml.decode(example[1], type=Site).scratch
