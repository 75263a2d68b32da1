"""The variables for a batch script: whatever the names, a shell reads them as they are."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from dataprep.errors import StagingError
from dataprep.staging.stage import write_environment

NAMES = [b"/scratch/plain", b"/s/it's", b"/a b;$(false)`false`", b"/line\nbreak", b"/\xff\xc3\xa9"]


@pytest.mark.parametrize("name", NAMES, ids=["plain", "quote", "shell", "newline", "no text"])
def test_a_shell_reads_every_name_as_it_is(tmp_path: Path, name: bytes) -> None:
    file = tmp_path / "env.sh"
    write_environment(file, {"DATA_DIR": os.fsdecode(name), "OTHER": "x"})
    read = ["sh", "-c", '. "$1" && printf %s "$DATA_DIR"', "sh", str(file)]
    assert subprocess.run(read, capture_output=True, check=True).stdout == name


def test_a_file_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(StagingError) as raised:
        write_environment(tmp_path / os.fsdecode(b"no\xff\n") / "env.sh", {"A": "b"})
    said = str(raised.value)
    assert said.endswith("No such file or directory; the copy itself is whole")
    assert said.isprintable()
    assert list(tmp_path.iterdir()) == []
