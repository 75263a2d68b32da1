"""``dataprep doctor``."""

from __future__ import annotations

import os
import platform
import re
import resource
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

import click

from dataprep.cli.output import say
from dataprep.errors import DataprepError
from dataprep.plugins import OUR_PACKAGE
from dataprep.staging.placement import find_placement
from dataprep.staging.schedulers import find_job
from dataprep.system.filesystems import filesystem_of, scratch_conventions, space_of
from dataprep.system.job_limits import available_memory, group_cores, group_memory, usable_cores
from dataprep.system.messages import sized, some_of
from dataprep.version import __version__

_ENDLESS = 1 << 60  # the kernel has several numbers for no limit


@click.command()
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path(path_type=Path))
def command(paths: Sequence[Path]) -> None:
    """Print what to paste into a report of a problem: versions, storage, scheduler, limits.

    PATH is a directory that matters, besides the current one and this node's scratch. Of the
    environment nothing is told but the job's name and hosts, and where scratch is.
    """
    say(f"dataprep {__version__}, Python {platform.python_version()}, {platform.platform()}")
    names = {re.split(r"[^\w.-]", line)[0] for line in requires(OUR_PACKAGE) or ()}
    say(f"packages: {', '.join(map(_package, sorted(names)))}")
    say(*_storage(paths), *_job(), *_limits())


def _package(name: str) -> str:
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return f"{name} missing"


def _storage(paths: Sequence[Path]) -> Iterator[str]:
    places = [(str(path), path) for path in (*paths, Path.cwd())]
    places += [(f"{each.path}, scratch by {each.why}", each.path) for each in scratch_conventions()]
    for name, path in places:
        try:
            free = f"{sized(space_of(path).free)} free"
        except DataprepError:
            free = "not there, or not for this user"
        yield f"storage: {name}: {filesystem_of(path) or 'unknown'}, {free}"


def _job() -> Iterator[str]:
    try:
        job, here = find_job(os.environ), find_placement()
    except DataprepError as error:
        yield f"scheduler: {error}"
        return
    name = f"{job.name} on {some_of(job.hosts) or 'unnamed hosts'}" if job else "none"
    which = here.doubt or f"node {here.node} of {here.nodes}, known from {here.origin}"
    yield f"scheduler: {name}; this is {here.host}, {which}"


def _limits() -> Iterator[str]:
    yield f"cores: {usable_cores()} of {os.cpu_count()}, control group {_bound(group_cores())}"
    yield f"bytes of memory: {available_memory():,} left, control group {_bound(group_memory())}"
    for name in ("AS", "DATA", "FSIZE", "NOFILE", "NPROC"):
        soft, hard = map(_bound, resource.getrlimit(getattr(resource, f"RLIMIT_{name}")))
        yield f"RLIMIT_{name}: {soft}, at most {hard}"


def _bound(value: int | None) -> str:
    return "unlimited" if value is None or not 0 <= value < _ENDLESS else f"{value:,}"
