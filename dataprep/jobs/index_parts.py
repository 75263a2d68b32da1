"""The index on disk: a table a scan unit, and what all of them say together.

A part is reused while what it describes has not changed. ``UNIT.parquet`` is its table;
``UNIT.json``, written after it, is a state file with the table's hash and what identifies the raw
data that it was made from. The restart points of a gzip archive are in a file beside them.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from dataprep.datasets import Dataset, Found, ScanUnit, wanted_splits
from dataprep.datasets.splits import in_usual_order
from dataprep.errors import RejectedError, SourceError, UsageError
from dataprep.jobs.request import MaxBad, Request, check_splits
from dataprep.jobs.workspace import Workspace
from dataprep.system.durable_files import partial_path, storage_error
from dataprep.system.messages import counted, printable, some_of
from dataprep.system.ownership import require_own
from dataprep.system.state_files import (
    digest_of,
    file_sha256,
    is_intact,
    read_state,
    write_state,
)
from dataprep_schemas.manifest import SplitName, Unmatched
from dataprep_schemas.state import IndexPart, ScanSummary
from dataprep_schemas.tables import Kind

if TYPE_CHECKING:
    from dataprep.jobs.append import NoBase
    from dataprep.tables.images import Images


_NOT_ONE = "no image has, or several have"
_VERSION = 4  # raise it whenever the same scan would be kept in another way
_RULES = 3  # raise it whenever the same index would be summarized otherwise
_GROUP = 1 << 17  # rows; what DuckDB gives to one of its threads


@dataclass(frozen=True, slots=True)
class IndexParts:
    """The index: where it is, and what is kept of every unit."""

    directory: Path
    units: Mapping[ScanUnit, IndexPart]

    def tables(self) -> list[Path]:
        """Where the rows are."""
        return [self.directory / f"{unit.name}.parquet" for unit in self.units]

    def statuses(self) -> Counter[str]:
        """Rows by status."""
        total: Counter[str] = Counter()
        for part in self.units.values():
            total.update(part.statuses)
        return total

    def digests(self) -> dict[str, str]:
        """What identifies every piece of the input, by the unit's name.

        The tables have the times of archives and files: one whose images were exchanged for others
        of the same sizes is another one. A folder that was only touched is not.
        """
        return {unit.name: part.table for unit, part in self.units.items()}


def shared_index_directory(place: Path, dataset: Dataset, raw: Path) -> Path:
    """Where in a shared place the index of a data set with its options is kept.

    Two runs with other options would otherwise take each other's parts away.

    Raises:
        DatasetError: somebody else may write there.
    """
    made_of = [dataset.name, dict(dataset.config()), ascii(raw)]  # which need not be UTF-8
    name = f"{dataset.name}-{digest_of(made_of)[:12]}"
    directory = place.absolute() / name
    directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    # What is there is believed, and says which files are read.
    require_own(directory, "choose an --index_dir of your own", writers=0o022)
    return directory


def scan_into(directory: Path, dataset: Dataset, raw: Path, unit: ScanUnit) -> None:
    """Scan one unit and keep the result, which counts only when all of it is there.

    Raises:
        SourceError: see `Dataset.scan`; or a name is not UTF-8.
        SinkError: the index cannot be written.
    """
    import pyarrow as pa
    from pyarrow import parquet

    from dataprep.tables.arrow import index_tables
    from dataprep_schemas.tables import schema_of

    # Taken before the scan: a change during it must make the part stale, not valid.
    fingerprint = _fingerprint(dataset, raw, unit)
    scanned = dataset.scan(raw, unit)
    known = dataset.classes()
    classes = scanned.classes or () if known is None else [name for name, _ in known]
    attributes = attribute_columns(dataset)
    statuses: Counter[str] = Counter()
    final = directory / f"{unit.name}.parquet"
    temporary = partial_path(final)
    try:
        with parquet.ParquetWriter(
            temporary, schema_of("index", attributes), compression="zstd"
        ) as file:
            for table in index_tables(scanned, classes, attributes):
                for entry in table.column("status").value_counts().to_pylist():
                    statuses[entry["values"]] += entry["counts"]
                file.write_table(table, row_group_size=_GROUP)
        part = IndexPart(
            fingerprint=fingerprint,
            table=file_sha256(temporary),
            restarts=hashlib.sha256(scanned.restarts).hexdigest() if scanned.restarts else "",
            classes=tuple(classes) if known is None else (),
            statuses=dict(statuses),
            counts=dict(scanned.counts),
        )
        if scanned.restarts:
            (directory / unit.restarts_name).write_bytes(scanned.restarts)
        temporary.replace(final)
        write_state(_state_path(directory, unit), part)
    except (OSError, pa.ArrowException) as error:
        raise storage_error(error, directory, f"indexing {unit.name}") from error
    finally:
        temporary.unlink(missing_ok=True)


def read_part(directory: Path, unit: ScanUnit) -> IndexPart | None:
    """What is kept of a unit; None unless all of it is there, to the last bit."""
    part = read_state(_state_path(directory, unit), IndexPart)
    if part is None:
        return None
    restarts = directory / unit.restarts_name
    # Parts are not flushed to the disk one by one, so a power cut may have torn one.
    whole = is_intact(directory / f"{unit.name}.parquet", part.table) and (
        not part.restarts or is_intact(restarts, part.restarts)
    )
    return part if whole else None


def has_part(directory: Path, unit: ScanUnit) -> bool:
    """Whether a scan has finished with the unit since `forget_part`; its part may be damaged."""
    return _state_path(directory, unit).exists()


def forget_part(directory: Path, unit: ScanUnit) -> None:
    """Believe nothing that was found of a unit."""
    _state_path(directory, unit).unlink(missing_ok=True)


def is_current(part: IndexPart | None, dataset: Dataset, raw: Path, unit: ScanUnit) -> bool:
    """Whether there is no need to scan a unit: it is unchanged, and no file was missing.

    A file that was missing may be there by now.
    """
    return (
        part is not None
        and part.fingerprint == _fingerprint(dataset, raw, unit)
        and not part.statuses.get("missing")
    )


def check_unchanged(parts: IndexParts, dataset: Dataset, raw: Path) -> None:
    """What was read must be what was indexed: images cannot tell that they were exchanged.

    Raises:
        SourceError: a unit is not as it was when it was scanned.
    """
    for unit, part in parts.units.items():
        if part.fingerprint != _fingerprint(dataset, raw, unit):
            raise SourceError(
                f"{printable(unit.container)}, or a list of what is in it, changed while it "
                "was read; nothing was sealed: leave the raw data alone and run again with "
                "--overwrite"
            )


def attribute_columns(dataset: Dataset) -> tuple[tuple[str, Kind], ...]:
    """Name and kind of a data set's own columns."""
    return tuple((attribute.name, attribute.kind) for attribute in dataset.attributes)


def _state_path(directory: Path, unit: ScanUnit) -> Path:
    return directory / f"{unit.name}.json"


def _fingerprint(dataset: Dataset, raw: Path, unit: ScanUnit) -> str:
    made_of = [_VERSION, dataset.name, dict(dataset.config()), ascii(unit)]
    return f"{digest_of(made_of)} {dataset.fingerprint(raw, unit)!a}"


def open_images(parts: IndexParts, dataset: Dataset, request: Request, base: NoBase) -> Images:
    """The images of the index; nothing is read until something is asked."""
    from dataprep.tables.images import Images

    attributes = [attribute.name for attribute in dataset.attributes]
    return Images(
        parts.tables(),
        Workspace(request.out).private,
        parts.statuses(),
        attributes,
        request.splits,
        request.exclude,
        base.records,
        None if base.records else Workspace(request.out).records,
    )


def summarize(
    request: Request,
    dataset: Dataset,
    found: Found,
    parts: IndexParts,
    images: Images,
    base: NoBase,
) -> ScanSummary:
    """Check the images and put together what is known of them; at once if nothing changed.

    Args:
        base: what is added to: the input is what that does not have.

    Raises:
        DatasetError: the data set cannot grow by that.
        UsageError: a split was asked for that is not there.
        SourceError: there are no images, or no labels; a name or a group is where it must not be.
    """
    workspace = Workspace(request.out)
    path = workspace.order / "summary.json"
    known = dataset.classes()
    made_of = [
        *(_RULES, request.splits, request.limit, request.seed, found.splits, known),
        None if request.exclude is None else _sha256(request.exclude),
        [[unit.name, part.table, part.fingerprint] for unit, part in parts.units.items()],
        base.digest,
    ]
    key = digest_of(made_of)
    kept = read_state(path, ScanSummary)
    if kept is not None and kept.key == key:
        return kept
    unmatched = images.unmatched()
    if unmatched.first:
        images.write_unmatched(workspace.unmatched)
    else:
        workspace.unmatched.unlink(missing_ok=True)  # of an earlier run
    there = images.splits()
    if not there:
        others = "".join(f"; {what}, such as {names}" for what, names in _unmatched(unmatched))
        raise SourceError(
            f"no images found in {printable(str(request.raw))}{others}; check --raw, and "
            "what says which images there are"
        )
    splits = found.splits or wanted_splits(in_usual_order(there), request.splits)
    check_splits(request.num_shards, splits)
    for split in splits:
        if not _is_split(split):
            raise SourceError(
                f"{printable(split)!r} is no name of a split, since files are named after it; "
                "expected one without a slash that begins with neither a dot nor a hyphen"
            )
        if split not in there:
            raise SourceError(
                f"{split}: no images found; leave it out with --splits; or, if it was cut by a "
                "share, take a larger one or another --split_seed"
            )
    base.check_splits(splits)
    if known is None:
        names = images.class_names().union(*(part.classes for part in parts.units.values()))
        known = base.classes_with(dataset.order_classes(names))
    else:
        base.check_classes(known)
    if not known:
        raise SourceError("no image has a label; check where labels are taken from")
    images.check_splits_known()
    images.check_keys()
    images.check_groups(dataset.group)
    base.check_kept(images, same_sizes=request.recipe.keeps_bytes)
    images.choose(
        splits,
        [name for name, _ in known],
        multilabel=dataset.multilabel,
        seed=request.seed,
        limit=request.limit,
    )
    counts: Counter[str] = Counter()
    for part in parts.units.values():
        counts.update(part.counts)
    sums = images.summaries()
    summary = ScanSummary(
        key=key,
        splits=tuple(split for split in splits if split in sums),
        classes=tuple(known),
        input=sums,
        unmatched=unmatched,
        excluded=images.excluded(),
        ignored=images.ignored(),
        counts=dict(counts),
        lacking={
            split: tuple(names)
            for split, names in images.lacking().items()
            if split not in found.official_counts  # which are what they are
        },
    )
    write_state(path, summary)
    return summary


def _is_split(name: str) -> bool:
    try:
        msgspec.convert(name, SplitName)
    except msgspec.ValidationError:
        return False
    return True


def _sha256(path: Path) -> str:
    try:
        return file_sha256(path)
    except OSError as error:
        raise UsageError(f"--exclude {path} cannot be read ({error.strerror})") from error


def check_unmatched(
    summary: ScanSummary, max_bad: MaxBad, names: Path, before: tuple[int, int] = (0, 0)
) -> None:
    """Refuse early, before hours of work, what could not be sealed.

    Args:
        max_bad: how many images may be missing or not listed, or names to exclude no image's.
        before: as `dataprep.jobs.seal.seal` has it.

    Raises:
        RejectedError: more are than the user allows.
    """
    missing = summary.unmatched.missing
    images = before[0] + sum(split.images for split in summary.input.values())
    bad = before[1] + summary.bad
    if not max_bad.allows(bad, images + missing):
        what = [text for text, _ in _unmatched(summary.unmatched)]
        where = f"; {names} names all of them" if what else ""
        if summary.excluded is not None and (unknown := summary.excluded.unknown):
            what.append(f"{counted(unknown, 'name')} in --exclude that {_NOT_ONE}")
        if before[1]:
            what.append(f"{counted(before[1], 'image')} rejected before")
        raise RejectedError(
            f"{' and '.join(what)}, --max_bad allows {max_bad}; no shard was written{where}",
            rejected=bad,
        )


def report_summary(summary: ScanSummary, report: Callable[[str], None]) -> None:
    """Tell the user what may be a surprise."""
    if summary.excluded is not None:
        text = f"{counted(summary.excluded.images, 'image')} left out (--exclude)"
        if unknown := summary.excluded.unknown:
            text += f"; {counted(unknown, 'name')} there that {_NOT_ONE}"
        report(text)
    number, first = summary.ignored
    if number:
        report(f"{counted(number, 'file')} ignored, the first {first}")
    for what, count in summary.counts.items():
        report(f"{what}: {count:,} in the raw data")
    for what, names in _unmatched(summary.unmatched):
        report(f"{what}: {names}")
    for split, classes in summary.lacking.items():
        report(
            f"{split} has no image of {len(classes):,} of {len(summary.classes):,} classes: "
            f"{some_of(classes)}; if shares cut the splits, a larger one or another --split_seed "
            "may help"
        )


def _unmatched(found: Unmatched) -> list[tuple[str, str]]:
    """How many of what, and a few names, of the kinds of which there are any."""
    first, missing, unlisted = found.first, found.missing, found.unlisted
    said = []
    if missing:
        names = ", ".join(first.get("missing", ()))
        said.append((f"{counted(missing, 'image')} listed but not there", names))
    if unlisted:
        names = ", ".join(first.get("unlisted", ()))
        said.append((f"{counted(unlisted, 'image')} there but not listed", names))
    return said
