"""docker/compose.yml, as far as it can be tested without Docker."""

from __future__ import annotations

from typing import Any

import click
import pytest

from dataprep.cli import command as dataprep_command
from tests.containers.compose import UnsetError, services


def understood(command: click.Command, words: list[str]) -> dict[str, Any]:
    """What a command line is taken for; an unknown option is an error."""
    context = click.Context(command, token_normalize_func=lambda name: name.replace("-", "_"))
    options, rest, _ = command.make_parser(context).parse_args(list(words))
    assert rest == []
    return options


def own_command(words: list[str]) -> tuple[str, dict[str, Any]]:
    """The same of ``dataprep NAME …``."""
    assert isinstance(dataprep_command, click.Group)
    assert words[0] == "dataprep"
    name, found, rest = dataprep_command.resolve_command(
        click.Context(dataprep_command), list(words[1:])
    )
    assert name is not None
    assert found is not None
    return name, understood(found, rest)


def test_the_job_s_command_is_one_of_ours() -> None:
    name, options = own_command(services()["job"]["command"])
    assert name == "imagenet"
    assert options["runner"] == "dask"
    assert options["dask_client_address"] == "tcp://scheduler:8786"


def test_dask_s_commands_are_dask_s() -> None:
    pytest.importorskip("distributed", reason="no Dask: install the extra dask")
    from distributed.cli import dask_scheduler, dask_worker

    program, subcommand, *words = services()["scheduler"]["command"]
    assert (program, subcommand) == ("dask", "scheduler")
    options = understood(dask_scheduler.main, words)
    assert options["port"] == "8786"
    assert options["dashboard_address"].startswith("127.0.0.1:")

    program, subcommand, address, *words = services()["worker"]["command"]
    assert (program, subcommand, address) == ("dask", "worker", "tcp://scheduler:8786")
    options = understood(dask_worker.main, words)
    assert (options["nthreads"], options["memory_limit"]) == ("1", "0")
    assert options["dashboard_address"].startswith("127.0.0.1:")


def test_everybody_sees_the_same_paths_as_the_same_user() -> None:
    found = services(DATAPREP_USER="7:8")
    assert set(found) == {"scheduler", "worker", "job"}
    for service in found.values():
        assert service["user"] == "7:8"
        assert service["image"] == "dataprep"
        assert service["volumes"] == found["job"]["volumes"]
    _, options = own_command(found["job"]["command"])
    raw, out = found["job"]["volumes"]
    assert (raw["source"], raw["target"], raw["read_only"]) == ("/raw", "/data/raw", True)
    assert (out["source"], out["target"]) == ("/out", "/data/out")
    assert options["raw"] == raw["target"]
    assert options["out"] == out["target"]
    # Docker would make a missing one as root.
    assert not raw["bind"]["create_host_path"]
    assert not out["bind"]["create_host_path"]


def test_the_number_of_workers_can_be_said() -> None:
    assert services()["worker"]["deploy"]["replicas"] == "2"
    assert services(WORKERS="16")["worker"]["deploy"]["replicas"] == "16"


@pytest.mark.parametrize("name", ["RAW", "OUT", "DATAPREP_USER"])
def test_what_nobody_can_guess_must_be_said(name: str) -> None:
    with pytest.raises(UnsetError, match=f"{name}: set it to"):
        services(**{name: ""})
