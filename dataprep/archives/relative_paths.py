"""Paths that come from archives and lists: data until they were looked at."""

from __future__ import annotations

from dataprep.archives.names import is_clutter_folder


def clean_path(path: str) -> str:
    """A path below some root, without what says nothing: ``./a//x.jpg`` and ``/a/x.jpg`` alike.

    Raises:
        ValueError: it is empty, leads out of the root, or has a NUL character in it.
    """
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not parts:
        raise ValueError("empty path")
    if ".." in parts:
        raise ValueError("path with .. in it, which may lead elsewhere")
    if "\0" in path:
        raise ValueError("path with a NUL character in it")
    return "/".join(parts)


def below(path: str, prefix: str) -> str:
    """What of a clean path is below another; empty if it is not. Everything is below ``""``."""
    if not prefix:
        return path
    return path[len(prefix) + 1 :] if path.startswith(f"{prefix}/") else ""


def folder_of(path: str) -> str:
    """All but the last component of a path; empty if there is only one."""
    return path.rpartition("/")[0]


def in_clutter(path: str) -> bool:
    """Whether a hidden folder or one of the system's is on the way to a file."""
    return "/" in path and any(map(is_clutter_folder, folder_of(path).split("/")))
