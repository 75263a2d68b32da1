"""The job of a data set that grew: deal its images over shards anew, as if made at once of all.

What decides where an image goes, its key, split and labels, is in the table of records, and seed
and shuffle are in the manifest; so nothing of the raw data is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from dataclasses import replace as with_options
from pathlib import Path
from typing import Any, ClassVar, Final

import xxhash
from msgspec.structs import replace

from dataprep import __version__
from dataprep.errors import DatasetError, SinkError, SourceError
from dataprep.jobs.convert_job import (
    KEPT_COLUMNS,
    ConvertJob,
    copied,
    kept_attributes,
)
from dataprep.jobs.identity import identity_of
from dataprep.jobs.image_job import order_images
from dataprep.jobs.job import Made, Rejected, SplitJob
from dataprep.jobs.lock import Lease
from dataprep.jobs.request import ConvertRequest
from dataprep.jobs.workspace import Workspace
from dataprep.sealed.records import Records
from dataprep.sealed.set import SealedSet, first_rows
from dataprep.sinks import ShardName
from dataprep.system.messages import printable, unreadable
from dataprep.system.throttle import pay
from dataprep.tables.order import shard_tables
from dataprep.tables.records import RecordsTable
from dataprep_schemas.manifest import Identity, Manifest

# Of a row of the order: which row of the table of records it is, and what that says.
_COLUMNS: Final = ("file_row_number", "key", "container", "xxh3", *KEPT_COLUMNS)


def read_grown(out: Path) -> SealedSet | None:
    """The data set, if it can be compacted; None: it is one generation already.

    Raises:
        DatasetError: there is none, or it cannot; says what to do instead.
    """
    sealed = SealedSet.read(out)
    sealed.require_whole("compacted")
    if sealed.manifest.lineage:
        raise DatasetError(
            f"{out} was converted, so it cannot be compacted; compact what it was made from, and "
            "convert that again"
        )
    return sealed if sealed.manifest.generations else None


def plan_compaction(
    request: ConvertRequest, sealed: SealedSet, lease: Lease
) -> tuple[CompactJob, Identity]:
    """Decide the shards: as many images in each as in the first generation.

    Returns:
        The job, and its identity, which is that of a data set made at once.
    """
    workspace, manifest = Workspace(Workspace(request.source).generation), sealed.manifest
    workspace.make()
    first = manifest.generations[0]
    splits = []
    for name, split in manifest.splits.items():
        largest = -(-first.input[name].images // first.splits[name].shards)
        images, shuffle = split.images_found, manifest.shuffle[name]
        splits.append(SplitJob(name, -(-images // largest), shuffle, images, split.bytes))
    request = with_options(
        request,
        out=workspace.out,
        sink=manifest.sink.name,
        sink_options=manifest.sink.config,
        layout=manifest.layout,
        num_shards={split.name: split.shards for split in splits},
    )
    with RecordsTable(request.source, manifest.records_table) as table:
        own = table.attributes
    times: dict[str, int] = {}  # not needed: every image is compared by its hash
    pixels, splits_made = manifest.image.max_pixels, tuple(splits)
    job = CompactJob(request, sealed.info, own, splits_made, lease, manifest.sha256, times, pixels)
    # Images are copied: the codecs are still those that made them.
    versions = {**manifest.versions, "dataprep": __version__, **job.sink.versions()}
    output = {**job.output_identity(), "versions": versions}
    return job, replace(identity_of(manifest), **output)


def order_records(job: CompactJob, manifest: Manifest) -> None:
    """Put the images of those splits in order whose order is not there."""
    from dataprep.tables.database import column_list
    from dataprep.tables.images import Images

    own = [name for name, _ in job.attributes]
    columns = f"numbers as labels, {column_list((*_COLUMNS, *own))}"
    rows = {"all": manifest.records_table.rows}
    table = Workspace(job.request.source).records
    private = job.workspace.private
    with Images([table], private, rows, own, None, recorded=True) as images:
        order_images(job, images, manifest.sha256, seed=manifest.seed, columns=columns)


@dataclass(frozen=True, slots=True)
class CompactJob(ConvertJob):
    """Makes shards of examples from anywhere in the data set, as `order_records` says."""

    remedy: ClassVar[str] = "free some space: the old shards stay until all new ones are there"

    def items(
        self,
        shard: ShardName,
        pool: Executor | None,  # noqa: ARG002 - nothing is done to the images
        window: int,  # noqa: ARG002
    ) -> Iterator[Made | Rejected]:
        """Every image of the shard, copied, and compared with what is known of it."""
        source, own = self.request.source, [name for name, _ in self.attributes]
        try:
            sealed = SealedSet.read(source)
            with Records(sealed, shard.split) as records:
                if sealed.manifest.sha256 != self.manifest_sha256:
                    raise SourceError(
                        f"{source} changed while it was compacted; run the same command again"
                    )
                first = first_rows(sealed.manifest)[shard.split][0]
                for labels, number, key, container, xxh3, *row in self._rows(shard, own):
                    if row[1] == "rejected":
                        yield Rejected(key, container, labels, row[2], kept_attributes(row, own))
                        continue
                    example = records[number - first]
                    pay(len(example.encoded))
                    if (example.key, xxhash.xxh3_128_hexdigest(example.encoded)) != (key, xxh3):
                        raise SinkError(
                            f"{source}: record {number - first} of {shard.split} is not "
                            f"{printable(key)} as records.parquet has it; `dataprep verify "
                            "--level records` names bad files"
                        )
                    yield copied(example, row, own)
        except OSError as error:
            raise unreadable(str(source), error) from error

    def _rows(self, shard: ShardName, own: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """The labels of each image, then its `_COLUMNS` and the data set's own."""
        for table in shard_tables(self.workspace.order, shard.split, shard.number):
            columns = (table.column(name).to_pylist() for name in (*_COLUMNS, *own))
            yield from zip(map(tuple, table.column("labels").to_pylist()), *columns, strict=True)
