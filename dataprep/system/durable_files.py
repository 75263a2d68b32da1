"""Files that appear whole or not at all, even after a power cut."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dataprep.errors import SinkError, UsageError
from dataprep.system.messages import refusal, shortage

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_NO_LINKS = frozenset({errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.EMLINK})

_LIBC = ctypes.CDLL(None, use_errno=True)  # Python has sync(2), of all file systems, alone

PARTIAL = ".partial"  # suffix of every file that is not finished; hidden from readers' globs
_PARTIAL = re.compile(rf"\..+\.[0-9a-f]{{8}}{re.escape(PARTIAL)}")


def partial_path(final: Path) -> Path:
    """A new temporary name beside ``final``, hidden and unlike any other process's."""
    return final.with_name(f".{final.name}.{secrets.token_hex(4)}{PARTIAL}")


def is_partial(name: str) -> bool:
    """Whether `partial_path` gave a file its name."""
    return _PARTIAL.fullmatch(name) is not None


def sync_directory(directory: Path) -> None:
    """Make the renames in ``directory`` survive a power cut."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def reports_lost_writes(release: str = os.uname().release) -> bool:
    """Whether `sync_file_system` would say that something could not be written: since Linux 5.8."""
    found = re.match(r"(\d+)\.(\d+)", release)
    return found is not None and (int(found[1]), int(found[2])) >= (5, 8)


def sync_file_system(descriptor: int) -> None:
    """Make all that was written to a file system survive a power cut: many files at once.

    Args:
        descriptor: of anything there that was opened before those writes.

    Raises:
        OSError: something could not be written.
    """
    if _LIBC.syncfs(descriptor):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def make_durably(directory: Path) -> None:
    """Create a directory, and what is missing above it, so that no power cut takes it away."""
    missing = [each for each in (directory, *directory.parents) if not each.exists()]
    directory.mkdir(parents=True, exist_ok=True)
    for each in missing:
        with suppress(PermissionError):  # one may be allowed to enter it, and not to read it
            sync_directory(each.parent)


def rename(temporary: Path, path: Path, check: Callable[[], object] = lambda: None) -> None:
    """Give a finished file its name, if that is still allowed.

    Args:
        check: raises if it must not. Who is suspended behind that, for so long that another
            process has swept the directory, finds the temporary file gone and changes nothing.
    """
    check()
    try:
        temporary.replace(path)
    except FileNotFoundError:
        check()
        raise


@contextmanager
def whole(path: Path, check: Callable[[], object] = lambda: None) -> Iterator[Path]:
    """A temporary name for what is to be at ``path``: whole, or not at all.

    Args:
        check: as for `rename`.
    """
    temporary = partial_path(path)
    try:
        yield temporary
        rename(temporary, path, check)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_durably(
    path: Path,
    data: bytes,
    *,
    flush: bool = True,
    check: Callable[[], object] = lambda: None,
    mode: int = 0o666,
) -> None:
    """Put ``data`` at ``path``: whole or not at all, even after a power cut.

    Args:
        flush: False: after a power cut it may be torn, which whoever reads it must find out.
        check: as for `rename`.
        mode: its permissions, from the start; the umask takes from them.
    """
    with whole(path, check) as temporary:
        _write_new(temporary, data, flush=flush, mode=mode)


def write_beside(path: Path, data: bytes, way_out: str) -> None:
    """The same of what is no part of a data set, such as a page about it.

    Raises:
        UsageError: it cannot be written; the way out is what to do then.
    """
    try:
        write_durably(path, data)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {refusal(error)}; {way_out}") from error


def write_once(path: Path, data: bytes, *, mode: int = 0o666) -> bool:
    """The same, unless there is such a file: then that stays, and this is False.

    Of several processes, on any hosts, one succeeds. Where a file system has no hard links, the
    last one does.

    Args:
        mode: its permissions, from the start; the umask takes from them.
    """
    temporary = partial_path(path)
    try:
        _write_new(temporary, data, flush=True, mode=mode)
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return True


def _write_new(path: Path, data: bytes, *, flush: bool, mode: int = 0o666) -> None:
    with open(path, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
        file.write(data)
        if flush:
            file.flush()
            os.fsync(file.fileno())


def is_full(error: BaseException | None) -> bool:
    """Whether this is a file system's refusal to take more."""
    return isinstance(error, OSError) and error.errno in _FULL


def storage_error(error: OSError, out: Path, doing: str = "") -> SinkError:
    """What to tell the user when the output directory refuses something.

    Args:
        doing: what was being done, e.g. ``writing train-00000-of-00004``.
    """
    during = f" while {doing}" if doing else ""
    what = f"written{during}" if doing else "read or written"
    if is_full(error) and error.errno != errno.EFBIG:
        what, remedy = shortage(error, out)
        return SinkError(
            f"{out}: {what}{during}; {remedy} and run the same command again: finished shards are "
            "kept"
        )
    where = f" ({error.filename})" if error.filename else ""
    return SinkError(
        f"{out} cannot be {what}: {refusal(error)}{where}; mend that and run the same command again"
    )
