"""Planning a conversion: from a finished data set's manifest to a job."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dataprep import __version__
from dataprep.build.claim import claim
from dataprep.build.convert_job import ConvertJob
from dataprep.build.identity import CONVERTED
from dataprep.build.job import Output, SplitJob
from dataprep.build.leaving_out import left_out
from dataprep.build.lock import Lease
from dataprep.build.manifest import dataset_info, describe_info, read_manifest, refuse_part
from dataprep.build.request import EVERY_SPLIT
from dataprep.build.shard_counts import choose_shard_count
from dataprep.build.workspace import Workspace
from dataprep.errors import UsageError
from dataprep.images import codec_versions
from dataprep.index.records import RecordsTable
from dataprep.plugins import load_sink
from dataprep.sinks import DatasetInfo, Layout
from dataprep.system.lustre.rules import Striping
from dataprep.system.messages import counted, sized

if TYPE_CHECKING:
    import pyarrow as pa

# What the raw data was and what was done to it; early manifests lack some of it.
_KEPT = (
    *("dataset", "dataset_config", "seed", "limit", "shuffle", "image", "input"),
    *("unmatched", "counts", "classes_sha256"),
)


@dataclass(frozen=True, slots=True)
class ConvertRequest:
    """What the user asked for; the command line's options under their names."""

    source: Path
    out: Path
    sink: str
    sink_options: Mapping[str, str] = field(default_factory=dict)
    layout: Layout = "split"
    num_shards: Mapping[str, int] | None = None
    build_dir: Path | None = None
    overwrite: bool = False
    striping: Striping = field(default_factory=Striping)


def check_conversion(request: ConvertRequest) -> Mapping[str, Any]:
    """Refuse, before anything is made, what can only go wrong.

    Returns:
        The manifest of the data set that is to be converted.

    Raises:
        UsageError: the format cannot hold what the data set has.
        DatasetError: there is no intact manifest, or only a part of the data set.
    """
    manifest = read_manifest(request.source)
    refuse_part(request.source, manifest, "converted")
    sink = load_sink(request.sink, request.sink_options)
    source, out = request.source.resolve(), request.out.resolve()
    if source == out or source in out.parents:
        raise UsageError(
            f"--to {request.out} is in what is to be converted; choose another directory"
        )
    sink.check(dataset_info(manifest))
    if sink.needs_mean:
        raise UsageError("a mean image is made with the data set: make it with --stats mean")
    unknown = set(request.num_shards or {}) - set(manifest["splits"]) - {EVERY_SPLIT}
    if unknown:
        known = ", ".join(manifest["splits"])
        raise UsageError(f"--num_shards {min(unknown)}=…: the splits are {known}")
    return manifest


def plan_conversion(
    request: ConvertRequest,
    manifest: Mapping[str, Any],
    lease: Lease,
    *,
    report: Callable[[str], None],
) -> tuple[ConvertJob, Mapping[str, object]]:
    """Decide the shards, and check that the directory is this job's.

    Returns:
        The job, and its identity: everything that shapes the bytes of the output.

    Raises:
        UsageError: the shard counts do not fit.
        DatasetError: the directory is being made in another way, or holds foreign shards.
    """
    sink = load_sink(request.sink, request.sink_options)
    info, lost = left_out(dataset_info(manifest), sink)
    for line in lost:
        report(line)
    output = _output(request, info)
    splits = tuple(_split(request, manifest, name, output) for name in manifest["splits"])
    for split in splits:
        report(
            f"{split.name}: {counted(split.images, 'record')}, {sized(split.source_bytes)}, "
            f"in {counted(split.shards, 'shard')}, in the same order"
        )
    identity = _identity(manifest, splits, output)
    job = ConvertJob(
        output,
        splits,
        lease,
        request.source.absolute(),
        manifest["sha256"],
        manifest["image"]["max_pixels"],
    )
    units = {CONVERTED: manifest["sha256"]}
    claim(job, identity, units, overwrite=request.overwrite)
    return job, identity


def statistics_of(job: ConvertJob, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the data set that is converted, by split; none if images are stored otherwise."""
    splits = {} if job.works_on_images else manifest["splits"]
    return {name: split["statistics"] for name, split in splits.items()}


def others_of(source: Path, manifest: Mapping[str, Any]) -> Iterator[pa.Table]:
    """The rows of images that are not in the data set that is converted.

    Without the shards that they were to be in, which are others now.
    """
    with RecordsTable(source) as table:
        for rows in table.between(manifest["totals"]["records"]):
            yield rows.drop_columns(["shard"])


def _output(request: ConvertRequest, info: DatasetInfo) -> Output:
    with RecordsTable(request.source) as table:
        attributes = table.attributes
    return Output(
        workspace=Workspace(request.out.absolute()),
        sink=request.sink,
        sink_options=request.sink_options,
        layout=request.layout,
        info=info,
        attributes=attributes,
        build_dir=request.build_dir and request.build_dir.absolute(),
    )


def _split(
    request: ConvertRequest, manifest: Mapping[str, Any], name: str, output: Output
) -> SplitJob:
    split = manifest["splits"][name]
    same, usual = len(split["shards"]), output.load_sink().usual_shards
    like = same if 1 < same <= (usual or same) else None
    return SplitJob(
        name=name,
        shards=choose_shard_count(name, split["records"], request.num_shards, output, like=like),
        shuffle=manifest["shuffle"][name],
        images=split["records"],
        source_bytes=split["bytes"],
        digest=manifest["input"][name]["digest"],
    )


def _identity(
    manifest: Mapping[str, Any], splits: tuple[SplitJob, ...], output: Output
) -> dict[str, object]:
    """What the raw data was and what was done to it stays; the format is another."""
    sink = output.load_sink()
    kept = [name for name in _KEPT if name in manifest]
    ancestor = {
        "manifest_sha256": manifest["sha256"],
        "sink": manifest["sink"],
        "versions": manifest["versions"],
    }
    inherited = {name: manifest[name] for name in kept}
    return {
        **inherited,
        "num_shards": {split.name: split.shards for split in splits},
        "sink": {"name": sink.name, "config": dict(sink.config())},
        "examples": describe_info(output.info),
        "layout": output.layout,
        "lineage": [ancestor, *manifest.get("lineage", ())],
        "versions": {"dataprep": __version__, **codec_versions(), **sink.versions()},
    }
