"""A Dask worker's memory is kept for the next image."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

pytest.importorskip("distributed", reason="the extra dask is not installed")

# Pages that the kernel had to bring for a hundred images of a megabyte, one after the other.
_FAULTS = """
import resource, sys
if "keep" in sys.argv:
    from dataprep_pipelines.runners.dask import keep_memory
    keep_memory()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
bytes(1 << 20).find(b"x")
before = faults()
for _ in range(100):
    bytearray(1 << 20).find(b"x")
print(faults() - before)
"""


def faults(*arguments: str) -> int:
    command = [sys.executable, "-c", _FAULTS, *arguments]
    as_dask_does = {**os.environ, "MALLOC_TRIM_THRESHOLD_": "65536"}
    done = subprocess.run(command, env=as_dask_does, capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
def test_memory_of_one_image_serves_the_next() -> None:
    assert faults("keep") * 5 < faults()
