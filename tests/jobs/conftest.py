"""An output directory that a run may begin in, and a job of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dataprep.formats import DatasetInfo
from dataprep.images import Recipe
from dataprep.jobs.output.lock import Lease
from dataprep.jobs.output.workspace import Workspace
from dataprep.jobs.preparing.raw_images import RawImages
from dataprep.jobs.request import MaxBad, Request
from dataprep.jobs.running.job import Job, SplitJob
from dataprep_schemas.fields import Fields


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    found = Workspace(tmp_path)
    found.make()
    return found


def job_of(
    out: Path,
    info: DatasetInfo,
    *splits: SplitJob,
    fields: Fields = (),
    **options: Any,
) -> Job:
    request = Request(
        dataset="imagenet", raw=out, out=out, recipe=Recipe(), max_bad=MaxBad(), **options
    )
    lease = Lease(Workspace(out).lock, "", out / "failure.json")
    return Job(request, info, fields, splits, lease, RawImages(out, out, Recipe()))
