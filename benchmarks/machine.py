"""What a figure was measured on, without saying whose machine it is."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks.measure import CommandFailedError, run
from benchmarks.setting import Setting

_LIBRARIES = (
    "dataprep-shards",
    "apache-beam",
    "numpy",
    "pillow",
    "cykooz_resizer",
    "simplejpeg",
    "google-crc32c",
    "lmdb",
    "h5py",
    "msgpack",
    "webdataset",
    "torch",
    "array-record",
    "grain",
    "datasets",
    "litdata",
    "tensorflow-cpu",
    "tensorflow",
    "distributed",
)
_QUICK = ", --quick: figures mean nothing"
_PEER_LIBRARIES = {
    "im2rec": ("mxnet", "numpy", "opencv-python-headless", "opencv-python"),
    "MDSWriter": ("mosaicml-streaming", "numpy", "pillow", "xxhash"),
}
_PEER_VERSIONS = """
import platform, sys
from importlib.metadata import distributions
found = {one.metadata["Name"].lower(): one.version for one in distributions()}
wanted = sys.argv[1:]
shown = [f"{name} {found[name]}" for name in wanted if name in found]
print("Python " + platform.python_version(), *shown, sep=", ")
"""


def describe(setting: Setting) -> dict[str, str]:
    """Processor, memory, file system and versions; no host name and no path."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    load = os.getloadavg()[0]
    described = {
        "processor": f"{_processor()}, {setting.cores} of {os.cpu_count()} cores usable",
        "memory": f"{memory / (1 << 30):.0f} GiB",
        "work directory": _file_system(setting.work),
        "load before": f"{load:.1f}",
        "kernel": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "libraries": ", ".join(_versions()),
        "images": "real, repeated" if setting.images else "made up, repeated",
        "pairs or rounds": f"{setting.repeat}{_QUICK if setting.quick else ''}",
    }
    for peer, python in (("im2rec", setting.mxnet_python), ("MDSWriter", setting.mds_python)):
        if python is not None:
            described[peer] = _peer_versions(python, _PEER_LIBRARIES[peer])
    return described


def _peer_versions(python: Path, libraries: Sequence[str]) -> str:
    try:
        return run([python, "-c", _PEER_VERSIONS, *libraries]).output.strip()
    except (CommandFailedError, OSError) as error:
        return f"its interpreter does not work: {type(error).__name__}"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()


def _versions() -> list[str]:
    found = []
    for name in _LIBRARIES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return found


def _file_system(directory: Path) -> str:
    """Type of the mounted file system that holds a directory: the deepest mount above it."""
    path, best, kind = directory.resolve(), -1, "unknown"
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        mount = Path(before.split()[4].replace("\\040", " "))
        if path.is_relative_to(mount) and len(mount.parts) >= best:
            best, kind = len(mount.parts), after.split()[0]
    return kind
