"""Everything that a data set finds and scans, for the tests of the suite."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from dataprep.build.index_parts import attribute_columns
from dataprep.datasets.base import Dataset, Found, ScanUnit
from dataprep.index import Row, Scanned

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Scan:
    """What `Dataset.find` found, and what `Dataset.scan` made of each unit.

    Attributes:
        found: what was found.
        units: the scan units, and what they hold.
        images: the split and row of every image, whose labels may be in a list.
        class_count: how many classes the labels may be.
    """

    found: Found
    units: Sequence[tuple[ScanUnit, Scanned]]
    images: Sequence[tuple[str, Row]]
    class_count: int

    def rows(self) -> Iterator[tuple[str, Row]]:
        """Every image with its split."""
        return iter(self.images)

    def splits(self) -> tuple[str, ...]:
        """Those announced or, if only scanning could tell, those there are; sorted then."""
        if self.found.splits is not None:
            return self.found.splits
        return tuple(sorted({split for split, _ in self.images}))


def scan_all(dataset: Dataset, raw: Path, splits: Sequence[str] | None = None) -> Scan:
    """Find and scan everything."""
    from dataprep.index.tables import index_tables

    found = dataset.find(raw, splits)
    units = [(unit, dataset.scan(raw, unit)) for unit in found.units]
    known = dataset.classes()
    tables: list[pa.Table] = []
    names: set[str] = set()
    for _, scanned in units:
        classes = [name for name, _ in known] if known is not None else scanned.classes or ()
        names.update(classes)
        tables += index_tables(scanned, classes, attribute_columns(dataset))
    for table in tables:
        names.update(table["labels"].combine_chunks().flatten().to_pylist())
    ordered = known if known is not None else dataset.order_classes(names)
    images = _joined(dataset, tables, [name for name, _ in ordered])
    return Scan(found, units, images, len(ordered))


def _joined(
    dataset: Dataset, tables: Sequence[pa.Table], classes: Sequence[str]
) -> list[tuple[str, Row]]:
    """The images as workers get them, but with their groups."""
    import pyarrow as pa
    from pyarrow import parquet

    from dataprep.index.images import Images
    from dataprep.index.tables import order_rows
    from dataprep_schemas.tables import schema_of

    attributes = attribute_columns(dataset)
    index = pa.concat_tables([schema_of("index", attributes).empty_table(), *tables])
    with TemporaryDirectory() as place:
        path = Path(place) / "index.parquet"
        parquet.write_table(index, path)
        statuses = Counter(index["status"].to_pylist())
        with Images([path], Path(place), statuses, [name for name, _ in attributes], None) as all_:
            found = all_.database.sql("select * from images order by split, key").to_arrow_table()
    number = {name: position for position, name in enumerate(classes)}
    numbered = found.drop(["split", "group"])
    for column in ("labels", "box_labels"):
        names = found[column].to_pylist()
        values = [None if some is None else [number[name] for name in some] for some in names]
        place_ = numbered.schema.get_field_index(column)
        numbered = numbered.set_column(place_, column, pa.array(values, pa.list_(pa.int32())))
    groups = found["group"].to_pylist()
    return [
        (split, replace(row, group=group or ""))
        for split, group, row in zip(
            found["split"].to_pylist(), groups, order_rows(numbered), strict=True
        )
    ]


def made_again(dataset: Dataset) -> Dataset:
    """Another object with the same options, as another process has it."""
    return type(dataset)(**dataset.options)
