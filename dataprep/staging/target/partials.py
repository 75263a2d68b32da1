"""Files in a target that are not finished, or never will be."""

from __future__ import annotations

import os
import re
import secrets
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress

from dataprep.staging.target.beneath import opened_parent, place_of
from dataprep.staging.target.refusals import target_error
from dataprep.system.durable_files import PARTIAL

_END = re.compile(rf"\.[0-9a-f]{{8}}{re.escape(PARTIAL)}")
_END_LENGTH = len(f".{'0' * 8}{PARTIAL}")
_MAX_NAME = 255 - 1 - _END_LENGTH  # NAME_MAX, less what a temporary name adds


def partial_name(name: str) -> str:
    """Like `durable_files.partial_path`, for names that leave no room for it too."""
    return f".{_shortened(name)}.{secrets.token_hex(4)}{PARTIAL}"


def partials_of(names: Iterable[str]) -> Callable[[str], bool]:
    """What tells whether a name is one that `partial_name` may have made of one of ``names``."""
    shortened = frozenset(map(_shortened, names))

    def is_one(name: str) -> bool:
        middle, end = name[1:-_END_LENGTH], name[-_END_LENGTH:]
        return name[:1] == "." and middle in shortened and _END.fullmatch(end) is not None

    return is_one


def remove_partials(target: int, files: Iterable[str]) -> None:
    """Delete what killed copiers left half-done of ``files``. The node's lock must be held.

    Others' temporary files stay, also where they have names of the same kind.

    Args:
        target: an open descriptor of the directory.
        files: paths of what was, or will be, copied into it.

    Raises:
        StagingError: one cannot be deleted; a directory cannot be looked into.
    """
    by_parent: dict[str, set[str]] = defaultdict(set)
    for path in files:
        parent, _, name = path.rpartition("/")
        by_parent[parent].add(name)
    for parent, names in sorted(by_parent.items()):
        try:
            _sweep(target, parent, names)
        except OSError as error:
            raise target_error(error, place_of(target), parent or ".") from error


def _sweep(target: int, parent: str, names: Collection[str]) -> None:
    is_one = partials_of(names)
    inside = f"{parent}/x".lstrip("/")  # any name will do: only the directory it is in is opened
    with (
        suppress(FileNotFoundError, NotADirectoryError),
        opened_parent(target, inside) as (directory, _),
    ):
        for left in filter(is_one, os.listdir(directory)):  # noqa: PTH208 - a descriptor
            try:
                os.unlink(left, dir_fd=directory)
            except OSError as error:
                path = f"{parent}/{left}".lstrip("/")
                raise target_error(error, place_of(target), path) from error


def _shortened(name: str) -> str:
    return os.fsdecode(os.fsencode(name)[:_MAX_NAME])
