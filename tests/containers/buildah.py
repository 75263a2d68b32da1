"""Building and running images without a daemon, in a store of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Stands in for the Debian that the Dockerfile starts from, so that nothing is pulled.
BASE_NAME = "debian:bookworm-slim"

# Loopback only, as on a node without internet.
_OFFLINE = ("unshare", "--net", "sh", "-ec", 'ip link set lo up; exec "$@"', "sh")


class NoBuildahError(Exception):
    """This machine cannot build images; says why."""


@dataclass(frozen=True)
class Buildah:
    """The program and its store."""

    root: Path

    @classmethod
    def here(cls, root: Path) -> Buildah:
        """Use this machine's.

        Raises:
            NoBuildahError: it cannot be used.
        """
        missing = [name for name in ("buildah", "unshare", "ip") if shutil.which(name) is None]
        if missing:
            raise NoBuildahError(f"no image can be built: {', '.join(missing)} not installed")
        if os.getuid() != 0:
            raise NoBuildahError("no image can be built: chroot isolation needs root")
        return cls(root)

    def __call__(self, *words: object, offline: bool = False) -> str:
        """Run a command of buildah; returns what it printed."""
        done = self.run(*words, offline=offline)
        assert done.returncode == 0, f"{done.args}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
        return done.stdout

    def run(self, *words: object, offline: bool = False) -> subprocess.CompletedProcess[str]:
        """The same, whatever comes of it."""
        store = ("--storage-driver", "vfs", "--root", self.root / "store", "--runroot")
        command = (*(_OFFLINE if offline else ()), "buildah", *store, self.root / "run", *words)
        return subprocess.run(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def load_base(self, archive: Path) -> None:
        """Make an image of a tar of files, under the name of the Dockerfile's base."""
        context = self.root / "base"
        context.mkdir()
        (context / "Dockerfile").write_text(f'FROM scratch\nADD {archive.name} /\nCMD ["bash"]\n')
        try:
            (context / archive.name).hardlink_to(archive)
        except OSError:
            shutil.copy(archive, context)
        self("bud", "--isolation", "chroot", "--tag", f"localhost/{BASE_NAME}", context)

    def configuration(self, image: str) -> dict[str, Any]:
        """What the image says of itself, as the standard of images has it."""
        found: dict[str, Any] = json.loads(self("inspect", "--type", "image", image))["OCIv1"]
        return found

    @contextmanager
    def container(self, image: str) -> Iterator[Container]:
        """A container in which commands can be run."""
        pull = ("--pull-never", "--add-host", "scheduler:127.0.0.1")
        name = self("from", *pull, image).strip()
        entrypoint = tuple(self.configuration(image)["config"]["Entrypoint"])
        try:
            yield Container(self, name, Path(self("mount", name).strip()), entrypoint)
        finally:
            self("rm", name)


@dataclass(frozen=True)
class Container:
    """A container; ``rootfs`` are its files as they are seen from outside."""

    buildah: Buildah
    name: str
    rootfs: Path
    entrypoint: tuple[str, ...]

    def run(
        self,
        *words: object,
        user: tuple[int, int] | None = None,
        volumes: tuple[str, ...] = (),
    ) -> subprocess.CompletedProcess[str]:
        """`docker run [--user] [--volume]… IMAGE words`, without a network."""
        options = [option for volume in volumes for option in ("--volume", volume)]
        if user is not None:
            options += ["--user", f"{user[0]}:{user[1]}"]
        # `docker run` puts the entrypoint before the command, `buildah run` does not.
        command = (*options, self.name, "--", *self.entrypoint, *words)
        return self.buildah.run("run", "--isolation", "chroot", *command, offline=True)

    def __call__(self, *words: object, **options: Any) -> str:
        """The same, which must work; returns what was printed."""
        done = self.run(*words, **options)
        assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"
        return done.stdout
