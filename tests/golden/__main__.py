"""Make the golden sets anew, with the present version: ``python -m tests.golden``.

Only while the formats may change, before 1.0; and then the CHANGELOG says so.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from dataprep.cli import main
from tests.conftest import FORMATS, write_tiny_raw

PLACE = Path(__file__).parent
SHARDS = ("--num_shards", "train=2,validation=1", "--workers", "1")


def make() -> None:
    """Four images of training and two of validation, in every format."""
    with tempfile.TemporaryDirectory() as scratch:
        raw = Path(scratch, "raw")
        write_tiny_raw(raw, classes=2, images=2, validation=2)
        for name, options in FORMATS.items():
            out = Path(scratch, name)
            words = ("imagenet", "--raw_data_dir", raw, "--local_scratch_dir", out)
            if main([*map(str, words), *SHARDS, *options]):
                raise SystemExit(1)
            shutil.rmtree(PLACE / name, ignore_errors=True)
            ignored = shutil.ignore_patterns(".dataprep", "lock.mdb")
            shutil.copytree(out, PLACE / name, ignore=ignored)


if __name__ == "__main__":
    make()
