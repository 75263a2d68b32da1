"""Removing staged files and the directories made for them; what others put there stays."""

from __future__ import annotations

import errno
import os
import stat
from collections import defaultdict
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePosixPath

from dataprep.staging.private import PRIVATE
from dataprep.staging.target.beneath import opened_parent
from dataprep.staging.target.descent import remove_made
from dataprep.staging.target.directory import StageDirectory
from dataprep.staging.target.node_lock import LOCK
from dataprep.staging.target.partials import partials_of
from dataprep.system.messages import counted, printable, some_of

_NOT_A_FOLDER = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_NOT_EMPTY = frozenset({errno.ENOTEMPTY, errno.EEXIST})


class Removal:
    """Takes a copy out of a target, by descriptors only: never through a link, or into a mount.

    Attributes:
        files: how many were removed.
        bytes: of those.

    Args:
        directory: the target; its lock is held.
        paths: of the files that staging put there, or was about to; relative, staying inside.
    """

    def __init__(self, directory: StageDirectory, paths: Collection[str]) -> None:
        self.files = 0
        self.bytes = 0
        self._directory = directory
        self._mount = _mount_of(directory.descriptor)
        self._paths = paths
        self._folders = {str(above) for path in paths for above in PurePosixPath(path).parents}
        self._folders.discard(".")
        self._strange: list[str] = []  # what stays because staging did not make it
        self._failed: dict[str, str] = {}  # what should have gone, and why it did not

    def run(self) -> None:
        """Remove the files, then what was made for them; what failed can be tried again."""
        by_folder: dict[str, set[str]] = defaultdict(set)
        for path in self._paths:
            folder, _, name = path.rpartition("/")
            by_folder[folder].add(name)
        for folder, names in sorted(by_folder.items()):
            self._remove_files(folder, names)
        for folder in sorted(self._folders, key=lambda each: each.count("/"), reverse=True):
            self._remove_folder(folder)
        made = self._directory.made()
        self._find_strange(made_too=bool(made))
        if not self._failed:
            self._remove_private()
            remove_made(made)

    def left(self) -> str | None:
        """What is still there, and why; None if nothing is."""
        reasons = []
        if self._strange:
            reasons.append(f"left what staging did not put there: {some_of(self._strange)}")
        if self._failed:
            path, reason = min(self._failed.items())
            failures = counted(len(self._failed), "thing")
            reasons.append(f"{failures} could not be removed: {printable(path or '.')} ({reason})")
        return "; ".join(reasons) or None

    @contextmanager
    def _entered(self, folder: str) -> Iterator[int | None]:
        """A descriptor of a folder; None if it is not there or not one of ours."""
        with ExitStack() as stack:
            try:
                opened = opened_parent(self._directory.descriptor, _joined(folder, "x"))
                inside, _ = stack.enter_context(opened)
            except OSError as error:
                if error.errno not in _NOT_A_FOLDER:
                    self._failed[folder] = _reason(error)
                yield None
                return
            ours = os.fstat(inside).st_uid == os.geteuid() and _mount_of(inside) == self._mount
            yield inside if ours else None

    def _names(self, folder: str, inside: int) -> list[str]:
        try:
            return sorted(os.listdir(inside))
        except OSError as error:
            self._failed[folder] = _reason(error)
            return []

    def _remove_files(self, folder: str, names: Collection[str]) -> None:
        """Remove a folder's staged files, and the temporary ones that were to become them."""
        with self._entered(folder) as inside:
            if inside is None:
                return
            is_partial = partials_of(names)
            for name in self._names(folder, inside):
                if name in names or is_partial(name):
                    self._remove_file(inside, name, _joined(folder, name))

    def _remove_file(self, parent: int, name: str, path: str) -> None:
        try:
            status = os.stat(name, dir_fd=parent, follow_symlinks=False)
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
                return
            os.unlink(name, dir_fd=parent)
        except FileNotFoundError:
            return
        except OSError as error:
            self._failed[path] = _reason(error)
            return
        self.files += 1
        self.bytes += status.st_size

    def _remove_folder(self, folder: str) -> None:
        with self._entered(folder) as inside:
            if inside is None:
                return
        above, _, name = folder.rpartition("/")
        with self._entered(above) as parent:
            if parent is None:
                return
            try:
                os.rmdir(name, dir_fd=parent)
            except OSError as error:
                if error.errno not in _NOT_A_FOLDER | _NOT_EMPTY:
                    self._failed[folder] = _reason(error)

    def _find_strange(self, *, made_too: bool) -> None:
        """Name what stays in the folders, and in the target if staging made that, too."""
        for folder in ("", *sorted(self._folders)):
            with self._entered(folder) as inside:
                if inside is None:
                    continue
                for name in self._names(folder, inside):
                    path = _joined(folder, name)
                    named = path in self._failed or path == PRIVATE or self._is_folder(path)
                    expected = folder or made_too or path in self._paths or path in self._folders
                    if expected and not named:
                        self._strange.append(path)

    def _is_folder(self, path: str) -> bool:
        """Whether it is a folder of staged files, whose contents speak for themselves."""
        if path not in self._folders:
            return False
        with self._entered(path) as inside:
            return inside is not None

    def _remove_private(self) -> None:
        private = self._directory.private
        # The lock goes last: with the directory still there, its absence would let copiers in.
        for name in [each for each in self._names(PRIVATE, private) if each != LOCK] + [LOCK]:
            try:
                os.unlink(name, dir_fd=private)
            except FileNotFoundError:
                continue
            except OSError as error:
                self._failed[_joined(PRIVATE, name)] = _reason(error)
                return
        # Somebody may just have begun to stage here again: then it is theirs.
        with suppress(OSError):
            os.rmdir(PRIVATE, dir_fd=self._directory.descriptor)


def _joined(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _reason(error: OSError) -> str:
    return error.strerror or str(error)


def _mount_of(descriptor: int) -> str:
    """What tells a mount from any other, also one of the same file system (proc(5), fdinfo)."""
    try:
        lines = Path(f"/proc/self/fdinfo/{descriptor}").read_text().splitlines()
    except OSError:
        return str(os.fstat(descriptor).st_dev)
    mount = next((line for line in lines if line.startswith("mnt_id:")), "")
    return f"{os.fstat(descriptor).st_dev} {mount}"
