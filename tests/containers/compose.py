"""docker/compose.yml as compose reads it, and its commands as one script."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import yaml

PATH = Path(__file__).parents[2] / "docker" / "compose.yml"

_VARIABLE = re.compile(r"\$\$|\$\{(\w+)(?:(:-|:\?)([^}]*))?\}")


class UnsetError(Exception):
    """A variable that must be set is not; says what compose would."""


def composed(text: str, environment: dict[str, str]) -> Any:
    """The file with its variables replaced, as the specification of compose has it.

    Raises:
        UnsetError: one that must be set is not.
    """

    def replace(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: replace(entry) for key, entry in value.items()}
        if isinstance(value, list):
            return [replace(entry) for entry in value]
        return _VARIABLE.sub(of, value) if isinstance(value, str) else value

    def of(found: re.Match[str]) -> str:
        if found[0] == "$$":
            return "$"
        name, operator, rest = found.groups()
        value = environment.get(name, "")
        if value or operator is None:
            return value
        if operator == ":?":
            raise UnsetError(f"{name}: {rest.replace('$$', '$')}")
        return rest

    return replace(yaml.safe_load(text))


def services(**environment: str) -> dict[str, Any]:
    """The services, with the variables that must be set."""
    given = {"RAW": "/raw", "OUT": "/out", "DATAPREP_USER": "1:1", **environment}
    found: dict[str, Any] = composed(PATH.read_text(encoding="utf-8"), given)["services"]
    return found


def cluster_script(*, workers: int, options: tuple[str, ...]) -> str:
    """A script that does in one container what the services do in several; ends as the job does."""
    commands = {name: shlex.join(service["command"]) for name, service in services().items()}
    lines = [f"{commands['scheduler']} & others=$!"]
    lines += [f'{commands["worker"]} & others="$others $!"'] * workers
    lines += [f"{commands['job']} {shlex.join(options)}; ended=$?"]
    lines += ["kill $others; wait; exit $ended"]
    return "\n".join(lines)
