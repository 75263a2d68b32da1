"""`--lustre_stripe` of the commands that write, on a Lustre that is an ordinary directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from dataprep.errors import DatasetError
from dataprep.jobs.running.build_directory import lay_out
from dataprep.jobs.running.job import Job
from tests.conftest import Cli, Made, everyday, hashes, leftovers
from tests.system.lustre.lustre import Lustre, layout, make_lustre

MIB = 1 << 20


@pytest.fixture
def lustre(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lustre:
    return make_lustre(tmp_path, monkeypatch)


STOPPED = "stopped before the first shard"


@pytest.fixture
def only_laid_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs stop once their directories have their layouts."""

    def stop(*given: object) -> None:
        lay_out(*given)  # type: ignore[arg-type]
        raise DatasetError(STOPPED)

    monkeypatch.setattr("dataprep_pipelines.run.lay_out", stop)


def almost(tiny: Made, out: Path) -> Path:
    """An output directory in which one training shard is missing; a job needs not scan again."""
    tiny.copy(out)
    next((out / "train").iterdir()).unlink()
    return out


def test_a_job_s_directories_are_laid_out_before_their_first_file(
    cli: Cli, lustre: Lustre, tiny: Made
) -> None:
    out = lustre.mount / "out"
    result = cli(*tiny.command(out))
    assert result.code == 0, result
    for split in ("train", "validation"):
        assert lustre.layout(out / split) == layout((1, 4 * MIB, None, ""))
        assert lustre.seen(out / split) == []
        assert f"layout of {out / split}: set to 1 stripe of 4 MiB" in result.out
    assert hashes(out) == tiny.files
    assert leftovers(out) == []


@pytest.mark.usefixtures("only_laid_out")
@pytest.mark.parametrize(
    ("words", "stripes"),
    everyday(
        [(("--lustre_stripe", "auto"), [7])],
        [(("--lustre_stripe", "4", "--lustre_pool", "flash"), [4])],
    ),
)
def test_one_large_file_is_striped(
    cli: Cli,
    lustre: Lustre,
    tiny: Made,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    stripes: list[int],
) -> None:
    sizes = {"train": 42_000_000_000, "validation": 2_000_000_000}
    monkeypatch.setattr(
        Job, "estimate_bytes", lambda job, shards: sum(sizes[one.split] for one in shards)
    )
    monkeypatch.setattr("dataprep_pipelines.run.check_free_space", lambda *_, **__: None)
    out = lustre.mount / "out"
    # The last --num_shards counts.
    result = cli(*tiny.command(out, "--sink", "hdf5", "--num_shards", "1", *words))
    assert STOPPED in result.error
    # Both are in the same directory; the larger one counts.
    assert [part["count"] for part in lustre.layout(out)] == stripes
    assert not {"train.h5", "validation.h5"} & set(lustre.seen(out))
    assert len(lustre.calls("setstripe")) == 1


def test_a_conversion_s_directories_are_laid_out_too(cli: Cli, lustre: Lustre, tiny: Made) -> None:
    out = lustre.mount / "out"
    words = ("--to", out, "--sink", "webdataset", "--workers", 1)
    result = cli("convert", tiny.out, *words, "--lustre_stripe", "3")
    assert result.code == 0, result
    assert lustre.stripes(out / "train") == lustre.stripes(out / "validation") == [3]
    assert lustre.seen(out / "train") == []


def test_a_job_keeps_what_somebody_chose_unless_it_is_asked(
    cli: Cli, lustre: Lustre, tiny: Made
) -> None:
    out = almost(tiny, lustre.mount / "out")
    train = out / "train"
    assert cli("stripe", out, "--count", "8").code == 0
    lustre.forget_calls()
    result = cli(*tiny.command(out))
    assert result.code == 0, result
    kept = f"layout of {train}: kept as it is (8 stripes of 4 MiB); the rule would be 1 stripe of 4"
    assert kept in result.out
    assert lustre.calls("setstripe") == []
    next(train.iterdir()).unlink()
    assert cli(*tiny.command(out, "--lustre_stripe", "auto")).code == 0
    assert lustre.stripes(train) == [1]


@pytest.mark.parametrize(
    ("state", "note"),
    everyday(
        [({"restricted": True}, "but in force is 1 stripe of 1 MiB")],
        [({"fails": {"setstripe": 5}}, "failed: exit code 5")],
    ),
)
def test_a_layout_that_nobody_asked_for_stops_no_job(
    cli: Cli, lustre: Lustre, tiny: Made, state: dict[str, object], note: str
) -> None:
    lustre.set(**state)
    out = almost(tiny, lustre.mount / "out")
    before = sorted((out / "train").iterdir())
    asked = cli(*tiny.command(out, "--lustre_stripe", "1"))
    assert asked.code == 1
    assert note in asked.error
    assert sorted((out / "train").iterdir()) == before
    result = cli(*tiny.command(out))
    assert result.code == 0, result
    assert any(line.startswith("note: ") and note in line for line in result.out.splitlines())
    assert hashes(out) == tiny.files
