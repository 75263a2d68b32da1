"""A small job is done by the command itself; who asks for Beam gets Beam, and the same bytes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import BEAM, Made, hashes


@pytest.mark.parametrize("beam", [(), pytest.param(BEAM, marks=pytest.mark.thorough)])
def test_only_who_asks_for_beam_waits_for_it(
    tiny: Made, tmp_path: Path, beam: tuple[str, ...]
) -> None:
    program = (
        "import sys; from dataprep.cli import main; from dataprep_pipelines import scan; "
        "scan._ALONE_SECONDS = 600; "  # however slow this machine is
        "code = main(sys.argv[1:]); print('apache_beam' in sys.modules); sys.exit(code)"
    )
    words = [str(word) for word in tiny.command(tmp_path, "--workers", 2, *beam)]
    done = subprocess.run(
        [sys.executable, "-c", program, *words], stdout=subprocess.PIPE, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == str(bool(beam))
    assert hashes(tmp_path) == tiny.files


def test_where_beam_is_not_installed_this_machine_does_all_of_it(
    tiny: Made, tmp_path: Path
) -> None:
    program = (
        "import sys; sys.modules['apache_beam'] = None; "
        "from dataprep_pipelines import run; run._FEW_IMAGES = 0; "  # as in a large job
        "from dataprep.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    words = [str(word) for word in tiny.command(tmp_path, "--workers", 2)]
    subprocess.run([sys.executable, "-c", program, *words], check=True)
    assert hashes(tmp_path) == tiny.files
    words = [str(word) for word in tiny.command(tmp_path, "--runner", "PortableRunner")]
    done = subprocess.run(
        [sys.executable, "-c", program, *words], stderr=subprocess.PIPE, text=True, check=False
    )
    assert done.returncode == 2
    assert "needs Apache Beam, which is not installed: pip install apache-beam" in done.stderr
