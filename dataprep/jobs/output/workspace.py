"""Where things are in an output directory.

::

    OUT/train/train-00000-of-01024    finished shards (or directly in OUT, --layout flat)
    OUT/index/train/…                 sidecars of the format
    OUT/manifest.json                 written last; its presence means the data set is sealed
    OUT/records.parquet               a row for every image that was found
    OUT/.dataprep/job.json            what this directory is being made from, and how
    OUT/.dataprep/index/              a table a scanned directory or archive
    OUT/.dataprep/raw-…/              what stands for raw data in a bucket
    OUT/.dataprep/order/              the images of every split as tables, in writing order
    OUT/.dataprep/unmatched.csv       images that are listed but missing, or there but not listed
    OUT/.dataprep/splits.parquet  what --splits_from OUT keeps, since --overwrite deletes the table
    OUT/.dataprep/commits/            a record of each finished shard, and its rows of the table
    OUT/.dataprep/progress/           how far unfinished shards are
    OUT/.dataprep/task-…              what the workers of a run are to do
    OUT/.dataprep/failure-…           what they failed at
    OUT/.dataprep/slurm/              logs of the jobs of --dask_slurm
    OUT/.dataprep/append/             what --append or compact is making: a directory like OUT
    OUT/.dataprep/grow.json           the renames by which that becomes a part of OUT, or all of it
    OUT/.dataprep/lock                who is working here
"""

from __future__ import annotations

import secrets
import stat
from pathlib import Path, PurePosixPath

from dataprep.errors import DatasetError
from dataprep.sealed.set import NAME as MANIFEST
from dataprep.system.durable_files import make_durably
from dataprep.system.messages import printable
from dataprep.system.ownership import require_own
from dataprep.system.state_files import read_document
from dataprep.tables.records import NAME as RECORDS
from dataprep_schemas.state import ShardName, StoredJob


class Workspace:
    """The paths of one output directory, as the module's text has them."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.manifest = out / MANIFEST
        self.records = out / RECORDS
        self.private = out / ".dataprep"
        self.job = self.private / "job.json"
        self.index = self.private / "index"
        self.order = self.private / "order"
        self.unmatched = self.private / "unmatched.csv"
        self.kept_splits = self.private / "splits.parquet"
        self.commits = self.private / "commits"
        self.progress = self.private / "progress"
        self.lock = self.private / "lock"
        self.generation = self.private / "append"
        self.journal = self.private / "grow.json"
        self._looked_at: set[Path] = set()

    def record(self, shard: ShardName) -> Path:
        """The commit record of a shard."""
        return self.commits / f"{shard}.json"

    def rows(self, shard: ShardName) -> Path:
        """The rows of a shard in the table of records."""
        return self.commits / f"{shard}.parquet"

    def new_failure_file(self) -> Path:
        """Where the first failure of a new run is told, so that its other workers stop.

        Every run has its own: a worker that outlived a killed run must not stop the next one.
        """
        return self.private / f"failure-{secrets.token_hex(4)}.json"

    def run_files(self) -> list[Path]:
        """What runs told their workers and these told them: of earlier runs, and of this one."""
        return sorted([*self.private.glob("failure-*.json"), *self.private.glob("task-*.pickle")])

    def private_directories(self) -> tuple[Path, ...]:
        """Every directory that dataprep keeps for itself."""
        return self.private, self.index, self.order, self.commits, self.progress

    def require_own(self) -> None:
        """Refuse an output directory that somebody else has put there, or could exchange.

        Raises:
            DatasetError: it is one.
        """
        remedy = "choose an output directory of your own"
        require_own(self.out, remedy, linked=True)
        for directory in (*self.private_directories(), self.generation):
            require_own(directory, remedy)
        if self.generation.exists():
            Workspace(self.generation).require_own()

    def open_to_all(self) -> list[Path]:
        """Of the output directory and what is private in it, that which everybody may write."""
        paths = (self.out, *self.private_directories())
        return [path for path in paths if path.exists() and path.stat().st_mode & stat.S_IWOTH]

    def make(self) -> None:
        """Create the output directory and the private ones, before anything is put into them."""
        for directory in self.private_directories():
            make_durably(directory)

    def path_of(self, name: str | PurePosixPath) -> Path:
        """Where a file of the data set is, whose name somebody may have forged.

        OUT is nobody else's (`require_own`), so that what is found out here stays so.

        Raises:
            DatasetError: the name leads out of the directory, or to what dataprep keeps for
                itself, or there is a link on the way.
        """
        parts = str(name).split("/")
        private = parts[0] == self.private.name
        if private or any(not part or part in (".", "..") or part[0] == "-" for part in parts):
            raise DatasetError(
                f"{self.out}: {printable(str(name))!r} is no file of a data set, so what names it "
                "was changed; take the data set from another copy, or make it again"
            )
        above = self.out
        for part in parts[:-1]:
            above /= part
            if above in self._looked_at:
                continue
            if above.is_symlink():
                raise DatasetError(
                    f"{above} is a symbolic link; expected a directory, since what is written or "
                    "deleted there would be somewhere else; remove the link"
                )
            self._looked_at.add(above)
        return above / parts[-1]


def read_job(workspace: Workspace) -> StoredJob:
    """The stored job.

    Raises:
        DatasetError: it is damaged.
    """
    return read_document(workspace.job, StoredJob, "run the same command with --overwrite")
