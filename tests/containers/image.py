"""Building the project's image with this machine's package index, certificates and mirror."""

from __future__ import annotations

import os
import re
import ssl
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tests.containers.base_image import mirror
from tests.containers.buildah import Buildah

ROOT = Path(__file__).parents[2]

# In the certificates, the pip.conf and the build argument: it must be nowhere in the image.
SECRET = "0a1b2c3d-secret-of-the-site"

_BUILD_ARGUMENTS = ("index-url", "extra-index-url", "trusted-host")
_IN_THE_FILE = ("find-links", "no-index", "proxy", "timeout", "default-timeout")


def pip_configuration() -> dict[str, str]:
    """What this machine's pip was told, files and environment together."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "config", "list"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    options: dict[str, str] = {}
    # The weakest come first, the environment too: its names begin with a colon.
    for line in sorted(printed.splitlines(), key=lambda line: line.startswith(":env:")):
        found = re.match(r"(?:global|install|:env:)\.([\w-]+)='(.*)'$", line)
        if found:
            options[found[1]] = " ".join(found[2].split("\\n")).strip()
    return options


def directories(options: dict[str, str]) -> list[Path]:
    """What pip reads from this machine's own disk."""
    words = " ".join(options.get(name, "") for name in (*_BUILD_ARGUMENTS, "find-links")).split()
    paths = [Path(unquote(urlsplit(word).path)) for word in words if word.startswith("file:")]
    paths += [Path(word) for word in words if word.startswith("/")]
    # An index is a directory beside that of its files.
    paths = [path.parent if path.name == "simple" else path for path in paths]
    return sorted({path for path in paths if path.is_dir()})


def certificates(options: dict[str, str]) -> str:
    """Those that this machine trusts."""
    places = (
        options.get("cert"),
        os.environ.get("SSL_CERT_FILE"),
        ssl.get_default_verify_paths().cafile,
        "/etc/ssl/certs/ca-certificates.crt",
    )
    files = [Path(place) for place in places if place and Path(place).is_file()]
    return files[0].read_text() if files else ""


def build(buildah: Buildah, directory: Path) -> str:
    """Build the Dockerfile; returns the image's name."""
    options = pip_configuration()
    (directory / "ca.pem").write_text(f"# {SECRET}\n{certificates(options)}")
    lines = [f"{name} = {options[name]}" for name in _IN_THE_FILE if name in options]
    (directory / "pip.conf").write_text("\n".join([f"# {SECRET}", "[global]", *lines, ""]))
    arguments = {"DEBIAN_MIRROR": mirror(), "CA_CERTIFICATE": f"# {SECRET}", "REVISION": "0123abc"}
    for name in _BUILD_ARGUMENTS:
        if name in options:
            arguments[f"PIP_{name.upper().replace('-', '_')}"] = options[name]
    buildah(
        *("bud", "--isolation", "chroot", "--pull-never", "--layers=false"),
        *("--secret", f"id=ca,src={directory}/ca.pem"),
        *("--secret", f"id=pip,src={directory}/pip.conf"),
        *(word for pair in arguments.items() for word in ("--build-arg", "=".join(pair))),
        *(word for path in directories(options) for word in ("--volume", f"{path}:{path}:ro")),
        *("--file", ROOT / "docker" / "Dockerfile", "--tag", "dataprep", ROOT),
    )
    return "dataprep"
