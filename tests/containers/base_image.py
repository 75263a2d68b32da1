"""The files of a minimal Debian, from the mirror that this machine's apt uses."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

RELEASE = "bookworm"

# Where nothing is: the build must replace it by the site's mirror. Written as in Debian's images.
_SOURCES = f"""\
Types: deb
URIs: http://mirror.invalid/debian
Suites: {RELEASE}
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
"""

# Debian's own small images lack them too.
_LEFT_OUT = ("usr/share/doc", "usr/share/man", "usr/share/locale", "var/cache/apt", "var/lib/apt")


class NoBaseError(Exception):
    """No Debian can be made here; says why."""


def mirror() -> str:
    """The mirror of Debian of this machine's apt.

    Raises:
        NoBaseError: it has none.
    """
    if shutil.which("apt-get") is None:
        raise NoBaseError("no image can be built: no apt-get, so no mirror of Debian")
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = {line.rstrip("/") for line in printed.split()}
    mirrors = sorted(line for line in found if line.endswith("/debian"))
    if not mirrors:
        raise NoBaseError("no image can be built: this machine's apt has no mirror of Debian")
    return mirrors[0]


def base_image(root: Path) -> Path:
    """A tar of a minimal Debian; kept in $DATAPREP_CONTAINER_BASE, if that names a directory.

    Raises:
        NoBaseError: it cannot be made here.
    """
    kept = os.environ.get("DATAPREP_CONTAINER_BASE")
    archive = Path(kept or root) / f"{RELEASE}.tar"
    if archive.exists():
        return archive
    if shutil.which("debootstrap") is None:
        raise NoBaseError("no image can be built: debootstrap not installed")
    tree = root / RELEASE
    command = ["debootstrap", "--variant=minbase", RELEASE, str(tree), mirror()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
    for path in _LEFT_OUT:
        shutil.rmtree(tree / path)
        (tree / path).mkdir()
    (tree / "etc/apt/sources.list").unlink()
    (tree / "etc/apt/sources.list.d/debian.sources").write_text(_SOURCES)
    partial = archive.with_suffix(".partial")
    subprocess.run(["tar", "-C", tree, "-cf", partial, "."], check=True)
    shutil.rmtree(tree)
    return partial.rename(archive)
