"""The image is built as a site builds it, and run as its users run it: `make test-container`."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import dataprep
from tests.conftest import Made, hashes
from tests.containers.buildah import Buildah, Container
from tests.containers.compose import cluster_script
from tests.containers.conftest import CALLER
from tests.containers.image import SECRET

pytestmark = pytest.mark.container


def shards(out: Path) -> dict[str, str]:
    """The hashes of the data alone: a manifest names its input and its versions too."""
    return {name: digest for name, digest in hashes(out).items() if "/" in name}


def owners(path: Path) -> set[tuple[int, int]]:
    found = [entry.lstat() for entry in (path, *path.rglob("*"))]
    return {(entry.st_uid, entry.st_gid) for entry in found}


def test_nobody_is_root_and_nothing_is_lost_in_the_container(
    buildah: Buildah, image: str, container: Container
) -> None:
    configuration = buildah.configuration(image)["config"]
    assert configuration["User"] == "1000:1000"
    assert configuration["WorkingDir"] == "/data"
    assert container("id", "-u").strip() == "1000"
    assert container("ls", "-A", "/data") == ""
    done = container.run("dataprep", "synthesize", "imagenet", "raw", user=CALLER)
    assert done.returncode == 1
    assert "Permission denied" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_labels_say_what_it_is(buildah: Buildah, image: str) -> None:
    labels = buildah.configuration(image)["config"]["Labels"]
    names = ("title", "version", "revision")
    assert [labels[f"org.opencontainers.image.{name}"] for name in names] == [
        *("dataprep", dataprep.__version__, "0123abc")
    ]


def test_nothing_is_in_it_that_only_building_needs(container: Container) -> None:
    size = sum(path.lstat().st_size for path in container.rootfs.rglob("*"))
    print(f"the image is {size / 1e6:.0f} MB, uncompressed")  # noqa: T201  seen by make test-container
    programs = {path.name for path in container.rootfs.glob("usr/**/bin/*")}
    assert "dataprep" in programs
    assert not {"pip", "pip3", "gcc", "cc", "make", "git", "curl", "wget"} & programs
    installed = next(container.rootfs.glob("usr/local/dataprep/lib/python3*/site-packages"))
    assert (installed / "dataprep").is_dir()
    assert not (installed / "pip").exists()
    assert list(installed.glob("**/tests/**/test_*.py")) == []
    # A checkout, the wheel, the packages' archives.
    for name in ("pyproject.toml", "*.whl", "*.deb", ".git", "src"):
        found = [path for path in container.rootfs.glob(f"*/{name}") if path.parent.name != "usr"]
        assert found == list(container.rootfs.glob(name)) == []


def test_compiled_code_knows_no_time(container: Container) -> None:
    compiled = list(container.rootfs.glob("usr/**/*.pyc"))
    assert compiled
    # Its header's flags: checked neither against a time nor against the source.
    flags = {path: path.read_bytes()[4:8] for path in compiled}
    assert [path for path, flag in flags.items() if flag != b"\x01\0\0\0"] == []


def test_a_site_s_secrets_do_not_stay(buildah: Buildah, image: str, container: Container) -> None:
    search = ["grep", "-rlF", "--devices=skip", SECRET, str(container.rootfs)]
    assert subprocess.run(search, capture_output=True, text=True, check=False).stdout == ""
    assert SECRET not in buildah("inspect", "--type", "image", image)
    assert (
        "mirror.invalid" in (container.rootfs / "etc/apt/sources.list.d/debian.sources").read_text()
    )


def test_a_caller_can_write_only_where_everybody_can(container: Container) -> None:
    # Links are left out, as everybody may write all of them; some directories nobody may look into.
    done = container.run("find", "/", "-xdev", "-writable", "-not", "-type", "l", user=CALLER)
    assert set(done.stdout.splitlines()) == {"/tmp", "/var/tmp", "/run/lock"}


def test_there_is_no_network_in_these_tests(container: Container) -> None:
    # 192.0.2.1 is nobody's; where there is a network, packets would be sent to it.
    program = "import socket; socket.create_connection(('192.0.2.1', 80), timeout=5)"
    done = container.run("python3", "-c", program)
    assert "Network is unreachable" in done.stderr


def test_a_stranger_s_files_are_the_stranger_s(container: Container, shared: Path) -> None:
    def run(*words: str) -> str:
        return container(*words, user=CALLER, volumes=(f"{shared}:/data",))

    assert run("dataprep", "--version") == f"dataprep, version {dataprep.__version__}\n"
    run("dataprep", "synthesize", "imagenet", "raw", "--images_per_class", "4")
    run("dataprep", "imagenet", "--raw_data_dir", "raw", "--local_scratch_dir", "out")
    assert "all good (decode)" in run("dataprep", "verify", "out", "--level", "decode")
    assert owners(shared) == {CALLER}


def test_the_bytes_are_those_of_a_run_outside(
    container: Container, shared: Path, tiny: Made
) -> None:
    places = ("--raw_data_dir", "/raw", "--local_scratch_dir", "/data/out")
    volumes = (f"{tiny.raw.path}:/raw:ro", f"{shared}:/data")
    container("dataprep", "imagenet", *places, *tiny.raw.options, user=CALLER, volumes=volumes)
    assert shards(shared / "out") == shards(tiny.out)
    assert shards(tiny.out)


def test_what_a_stop_leaves_the_next_run_finishes(
    container: Container, shared: Path, photos: Made
) -> None:
    volumes = (f"{photos.raw.path}:/raw:ro", f"{shared}:/data")
    words = ["dataprep", "imagenet", "--raw_data_dir", "/raw", "--local_scratch_dir", "/data/out"]
    words += photos.raw.options
    # Like `docker stop`, it signals the entrypoint, long before 4 MB are through.
    wait = "until test -e out/.dataprep/lock; do kill -0 $!; sleep 0.1; done"
    script = f'set -e; "$@" & {wait}; kill -TERM $!; wait $!'
    slow = (*container.entrypoint, *words, "--io_limit", "100KB")
    done = container.run("sh", "-c", script, "sh", *slow, user=CALLER, volumes=volumes)
    assert "exited with status 143" in done.stderr, done.stderr
    assert not (shared / "out" / "manifest.json").exists()
    container(*words, user=CALLER, volumes=volumes)
    container("dataprep", "verify", "out", user=CALLER, volumes=volumes)


def test_dask_is_there(container: Container) -> None:
    program = "import dask_jobqueue, distributed, apache_beam.runners.dask.dask_runner"
    container("python3", "-c", program, user=CALLER)
    assert "version" in container("dask", "scheduler", "--version", user=CALLER)


def test_the_compose_file_s_cluster_makes_the_same_bytes(
    container: Container, shared: Path, tiny: Made
) -> None:
    (shared / "out").mkdir()
    shutil.chown(shared / "out", *CALLER)
    volumes = (f"{tiny.raw.path}:/data/raw:ro", f"{shared}/out:/data/out")
    script = cluster_script(workers=2, options=tiny.raw.options)
    container("sh", "-c", script, user=CALLER, volumes=volumes)
    assert shards(shared / "out") == shards(tiny.out)
    assert owners(shared / "out") == {CALLER}
