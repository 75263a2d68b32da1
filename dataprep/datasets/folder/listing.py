"""A file that lists images, as rows of the index.

What there are few of, labels and splits, is looked at once a distinct cell; the rest is SQL, which
says what is wrong with a row.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import compress, islice, repeat
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dataprep.datasets.base import refuse_reserved
from dataprep.datasets.folder.columns import (
    CLASS,
    KEPT,
    MARKS,
    POINT,
    RUNS,
    Labels,
    attribute_columns,
    find_columns,
    labelled,
    unread_columns,
)
from dataprep.datasets.folder.headers import Headers, header_fields
from dataprep.datasets.folder.joining import (
    BOX,
    FORM,
    SEVERAL,
    box_columns,
    box_sql,
    in_fractions,
    joined,
    with_sizes,
)
from dataprep.datasets.folder.layout import BoxForm, ListingUnit
from dataprep.datasets.folder.lookup import Stems, look_up, placed, with_columns
from dataprep.datasets.folder.options import FolderOptions
from dataprep.datasets.lists import ClassList, ListFile
from dataprep.datasets.splits import split_name
from dataprep.errors import SourceError
from dataprep.rows import Row
from dataprep.system.messages import some_of
from dataprep.tables.database import Database, identifier, open_database
from dataprep_schemas.fields import (
    BOX_LABELS,
    BOXES,
    CAPTIONS,
    KINDS,
    MASK,
    UNCERTAIN,
    Field,
    Fields,
)
from dataprep_schemas.tables import arrow_type

_ROWS: Final = 1 << 17  # rows at once
_DRAWN_ROWS: Final = 1 << 12  # of runs of pixels, which are up to some 100 KB a row
_MEANINGS: Final = ("path", "label", "split", "size", "group", "caption")  # of columns
_FEW: Final = 10  # times as many -1 as 0 or nothing: then -1 may be what 0 is elsewhere
_KINDS: Final = [kind for kind in KINDS.values() if kind.pattern]  # others fit any cell
_JOINED: Final = "rows joined with another one of the same image"
_STEMS: Final = "images listed without their suffix"
_BELOW_TOP: Final = "images listed without their folder"
_NO_BOX: Final = "box: expected four numbers and one label, or no number in these columns"
_UNCERTAIN: Final = "a label is uncertain (--uncertain exclude)"
_LEFT_OUT: Final = f"images left out: {_UNCERTAIN}"

# As `clean_path` does; null where that refuses a path.
_KEY: Final = r"""case
when not regexp_matches(path, '(^|/)\.{0,2}(/|$)|\x00') then path
when regexp_matches(path, '(^|/)\.\.(/|$)|\x00') then null
else nullif(array_to_string(
    list_filter(string_split(path, '/'), lambda part: part not in ('', '.')), '/'), '')
end"""
# As in an archive, those of Windows where there is no other.
_SLASHES: Final = "case when contains(path, '/') then path else replace(path, chr(92), '/') end"
_BELOW: Final = """case
when starts_with(path, $top) then substr(path, length($top) + 1)
when starts_with(path, $resolved) then substr(path, length($resolved) + 1)
else path end"""
_FOLDER: Final = "coalesce(nullif(regexp_extract(key, '^(.*)/', 1), ''), '.')"
_GROUP: Final = rf"""case when lower(trim("group", ' ' || chr(9))) not in ('', 'nan')
then regexp_replace(trim("group", ' ' || chr(9)), '{POINT}', '\1') end"""
_SIZE: Final = r"""case when regexp_full_match(size, '[0-9]{1,18}(\.0)?')
then split_part(size, '.', 1)::bigint end"""
# Of what no row may lack.
_NEEDED: Final = {
    "key": "no usable path; expected one below the raw directory, without .. in it, and a label",
    "size": "no size in bytes; expected a whole number; rename the column if it is no size",
    "group": "empty group, or NaN; expected the image's in the column that --group_by names",
}
_QUERY: Final = """
with cells as not materialized ({cells}),
keyed as not materialized (
    select *, {key} as key, {size} as bytes
    from (select * replace ({below} as path)
    from (select * replace (trim({slashes}, ' ' || chr(9)) as path) from cells))),
grouped as not materialized (select * replace ({group} as "group") from keyed)
select blank, key, label, bytes as size, "group", {split} as split{more} from grouped
"""
# So that all rows of an image are together.
_SORTED: Final = "select *, row_number() over () - 1 as row from ({}) order by key, row"


class Listing:
    """A list of images.

    Args:
        file: what it is read through.
        options: those that hold for it.
        known: the only classes there may be; None if any may.

    Attributes:
        columns: names of its columns by what they say: path, label, split, size, group, caption;
            and of those that are classes.
        boxes: those of boxes, likewise.
        unread: what to say of columns that nothing reads.
        counts: how many rows were left out or joined so far, and why.

    Raises:
        SourceError: it is unreadable, or its columns are not what the options say.
        UsageError: it and headers both tell what images are grouped by.
    """

    def __init__(self, file: ListFile, options: FolderOptions, known: ClassList | None) -> None:
        self.file = file
        self.options = options
        self.counts: Counter[str] = Counter()
        self.columns = find_columns(self.file, options)
        self.boxes = box_columns(self.file.columns) if "label" in self.columns else {}
        used = {**self.columns, **self.boxes}
        self._own = attribute_columns(self.file, used, options)
        self.unread = unread_columns(self.file, {*used.values(), *self._own.values()})
        self._labels = Labels(options, known, typed=self.file.has_json, optional=bool(self.boxes))
        self._several = ["labels"] * bool(options.label_separator)  # where rows are joined
        self._several += [CAPTIONS.name] * ("caption" in self.columns)
        # A row may have the runs of one of an image's classes, or things, as Kaggle's have.
        one = options.mask_runs is not None and len(options.mask_column) == 1
        self._several += [MASK.name] * (one and (options.unlabelled or bool(self._several)))
        self._by_label = MASK.name in self._several and not options.unlabelled
        self._numbered: set[bool] = set()  # whether labels of runs so far are numbers

    def fields(self) -> Fields:
        """What its columns say of each image: of the first kind that all cells are, or text.

        And, if any are kept, which of its labels are uncertain.

        Raises:
            SourceError: it cannot be read, or a column has the name of one of dataprep's own.
        """
        keeps = self.options.label_columns and self.options.uncertain in (None, "keep")
        if not (self._own or keeps):
            return ()
        said = [
            f"coalesce(bool_and(regexp_full_match(trim({cell}), '({kind.pattern})?'))"
            f" and bool_or(trim({cell}) <> ''), false)"
            for cell in map(_marked, self._own)
            for kind in _KINDS
        ]
        cells = [identifier(f"{CLASS}{name}") for name in self.options.label_columns if keeps]
        unsure = [f"trim({cell}) in {MARKS[-1]}" for cell in cells]
        said += [f"coalesce(bool_or({' or '.join(unsure) or 'false'}), false)"]
        # Where -1 is no, as in CelebA, hardly a cell says no otherwise.
        no = [f"lower(trim(coalesce({cell}, ''))) in {MARKS[0]}" for cell in cells]
        sides = zip(unsure, no, strict=True)
        said += [f"[{', '.join(f'count_if({a}) > {_FEW} * count_if({b})' for a, b in sides)}]"]
        with self._reading() as database:
            query, values = self._cells()
            query = f"select {', '.join(said)} from ({query}) where not blank"
            *fits, has_uncertain, one_sided = database.execute(query, values).fetchone() or ()
        if any(one_sided) and not self.options.uncertain:
            raise SourceError(
                f"{self.file.name}: {some_of([*compress(self.options.label_columns, one_sided)])} "
                "has -1, and hardly any 0 or empty cell; expected -1 where nobody is sure; give "
                "--uncertain negative if it means no, as in CelebA, or --uncertain keep"
            )
        kinds, every = [kind.name for kind in _KINDS], iter(fits)
        found = [
            Field(name, next(compress(kinds, [*islice(every, len(kinds))]), "text"))
            for name in self._own
        ]
        refuse_reserved(found, f"{self.file.name}: --attribute_columns")
        return (*found, *[UNCERTAIN] * has_uncertain)

    def box_form(self) -> tuple[BoxForm, bool]:
        """How its boxes are given, and whether their images have several labels.

        Raises:
            SourceError: it cannot be read.
        """
        if not self.boxes:
            return "", False
        with self._reading(sorts=True) as database:
            query, values = self._cells()
            rows = f"select *, {box_sql(self.boxes)} from ({query}) where not blank"
            (form,) = database.execute(f"select {FORM} from ({rows})", values).fetchone() or ("",)
            (more,) = database.execute(SEVERAL.format(query), values).fetchone() or (False,)
        return form, bool(form and more)

    @contextmanager
    def _reading(self, *, sorts: bool = False) -> Iterator[Database]:
        """A database that reads it; what sorts gets files for what does not fit into memory."""
        with (
            TemporaryDirectory() if sorts else nullcontext() as scratch,
            open_database(
                Path(scratch) if scratch else None, self.file.paths, ordered=True
            ) as database,
            self.file.explaining(),
        ):
            yield database

    def tables(
        self,
        raw: Path,
        unit: ListingUnit,
        fields: Fields,
        headers: Headers,
    ) -> Iterator[pa.Table]:
        """Its rows as rows of the index.

        Of images in archives, they say what is listed; else they are images, or missing files.

        Args:
            fields: of the data set.
            headers: what completes the rows.

        Raises:
            SourceError: a row is wrong, or a file cannot be looked at.
        """
        place, stems, counts = self.file.name, Stems(raw, unit.top), self.counts
        complete = partial(_completed, headers, self.options)
        if unit.boxes:
            several = dict.fromkeys([*self._several, "labels", BOXES.name, BOX_LABELS.name])
            self._several = [*several]
        rows = self._rows(raw / unit.top, unit, fields)
        for listed, more in joined(rows, self._several) if self._several else zip(rows, repeat(0)):
            if more:
                counts[_JOINED] += more
            if self.options.mask_runs is not None:
                listed = with_columns(listed.drop(MASK.name), mask=self._drawn(listed))
            if self.options.uncertain == "exclude":
                names = listed.select(["key", "split"]).filter(listed["uncertain"])
                listed = listed.filter(pc.invert(listed["uncertain"]))
                if len(names):
                    counts[_LEFT_OUT] += len(names)
                    out = {"status": "excluded", "container": place, "reason": _UNCERTAIN}
                    yield complete(with_columns(names, **out), read=False)
            if unit.boxes in ("fractions", "pixels"):
                listed, cut = in_fractions(listed, unit)
                counts.update(cut)
            if unit.packed:
                yield with_columns(listed.drop("size"), status="listed", container=place)
                continue
            listed = with_columns(placed(listed, unit.top), reason=place)
            if "size" in self.columns:
                images = with_columns(listed, status="image", modified=0)
            else:
                images, missing = look_up(raw, listed.drop("size"), place, stems)
                yield complete(missing, read=False)
            if unit.boxes == "pixels of files":
                images, cut = in_fractions(with_sizes(raw, images), unit)
                counts.update(cut)
            yield complete(images)
        counts.update(
            self._labels.merged
            + headers.counts
            + Counter({_STEMS: stems.found, _BELOW_TOP: stems.below})
        )

    def _rows(self, top: Path, unit: ListingUnit, fields: Fields) -> Iterator[pa.Table]:
        """What each row says; sorted by key where rows are to be joined."""
        own = "".join(
            f", nullif(trim({cell}), '')::{field.rules.column} as {cell}"
            for field, cell in ((it, _marked(it.name)) for it in fields)
            if field.name in self._own
        )
        own += ", caption" * ("caption" in self.columns)
        own += f", {self._mask_sql()} as mask" if self.options.mask_column else ""
        for name in self.options.label_columns:
            own += f", {identifier(f'{CLASS}{name}')}"
        own += f", {box_sql(self.boxes)}" if unit.boxes else ""
        first = 0
        empty = True
        with self._reading(sorts=bool(self._several)) as database:
            query, values = self._query(own, top)
            most = _ROWS if self.options.mask_runs is None else _DRAWN_ROWS
            for batch in database.sql(query, params=values).to_arrow_reader(most):
                cells = pa.table(batch)
                if not self._several:
                    rows = np.arange(first, first + len(batch))
                    cells = cells.append_column("row", pa.array(rows))
                first += len(batch)
                cells = cells.filter(pc.invert(cells["blank"]))
                empty = empty and not len(cells)
                if self.options.label_columns:
                    cells = labelled(self.file, cells, self.options)
                yield self._listed(cells, unit, fields)
        if empty:
            raise SourceError(f"{self.file.name} lists no images; expected one image a line")

    def _cells(self) -> tuple[str, dict[str, object]]:
        """A query for the cells of its columns, and its parameters."""
        wanted = {meaning: self.columns.get(meaning, "") for meaning in _MEANINGS}
        wanted |= {f"{KEPT}{attribute}": name for attribute, name in self._own.items()}
        wanted |= {f"{CLASS}{name}": name for name in self.options.label_columns}
        wanted |= {f"{BOX}{side}": name for side, name in self.boxes.items()}
        wanted |= {f"{RUNS}{name}": name for name in self.options.mask_column}
        return self.file.cells(wanted, as_json=("label", "caption"))

    def _mask_sql(self) -> str:
        """What the columns of masks say: a path, or JSON of runs of pixels."""
        cells = [identifier(f"{RUNS}{name}") for name in self.options.mask_column]
        if self.options.mask_runs is None:
            return _KEY.replace("path", f"trim(replace({cells[0]}, chr(92), '/'))")
        numbers: Sequence[object] = range(1, len(cells) + 1)
        if self._by_label:
            number = "try_cast(trim(label, ' \"') as utinyint)"
            empty = f"trim(coalesce({cells[0]}, '')) = ''"
            # 0: its label is no number
            numbers = [f"case when {empty} then 1 when {number} < 255 then {number} else 0 end"]
        pairs = zip(numbers, cells, strict=True)
        runs = [f"json_array({n}, coalesce({cell}, ''))::varchar" for n, cell in pairs]
        return f"[{', '.join(runs)}]"

    def _drawn(self, listed: pa.Table) -> pa.Array:
        """JSON of all runs of each image, of that of its rows."""
        runs = listed[MASK.name].combine_chunks()
        texts = pc.binary_join(runs, ",")
        if self._by_label:
            several = pc.greater(pc.list_value_length(runs), 1)
            without = pc.match_substring(texts, "[0,")
            with_number = pc.match_substring_regex(texts, r'\[[1-9][0-9]*,"\s*[0-9]')
            seen = {True: with_number, False: without}
            self._numbered |= {it for it, where in seen.items() if pc.any(where).as_py()}
            # Else two classes would have the number 1.
            if pc.any(pc.and_(several, without)).as_py() or len(self._numbered) > 1:
                raise SourceError(
                    f"{self.file.name} has runs of labels that are no numbers from 1 to 254, as "
                    "those in a mask are; give a --label_column of such, or leave "
                    "--label_separator out"
                )
            texts = pc.replace_substring(texts, "[0,", "[1,")
        head = f'{{"order":"{self.options.mask_runs}","runs":['
        return pc.binary_join_element_wise(head, texts, "]}", "")

    def _query(self, more: str, top: Path) -> tuple[str, dict[str, object]]:
        """The rows as the rules have them, null where one is broken, and more columns.

        And the parameters.
        """
        options = self.options
        cells, values = self._cells()
        for name, place in (("top", top), ("resolved", top.resolve())):
            values[name] = f"{place}/".encode(errors="ignore").decode()
        if "group" in self.columns:
            group = _GROUP
        elif options.group_by == "folder":
            group = _FOLDER
        else:  # the list says who is in which split: it may say so twice of one image
            group = "key" if "split" in self.columns else "null::varchar"
        if options.cut is not None and options.stratify:
            split = "null::varchar"  # for all images to tell
        elif options.cut is not None:
            split, cut = options.cut.split_sql('coalesce("group", key)')
            values |= cut
        elif "split" in self.columns:
            split = "split"
        else:
            split, values["split"] = "$split", options.split_name
        query = _QUERY.format(
            cells=cells,
            key=_KEY,
            below=_BELOW,
            slashes=_SLASHES,
            group=group,
            size=_SIZE,
            split=split,
            more=more,
        )
        query = _SORTED.format(query) if self._several else query
        return query, values

    def _listed(self, cells: pa.Table, unit: ListingUnit, fields: Fields) -> pa.Table:
        """What rows say: key, split, labels, group, size, fields, box."""
        for name, expected in _NEEDED.items():
            if cells[name].null_count and (name == "key" or name in self.columns):
                row = cells["row"].filter(cells[name].is_null())[0].as_py()
                raise self.file.wrong(row, expected)
        split = cells["split"]
        if "split" in self.columns:
            split = self._by_cell(cells, "split", split_name, pa.string())
        texts = pa.list_(pa.string())
        if self.options.label_columns:
            labels = cells["labels"]
        elif self.options.unlabelled:
            labels = pa.array([[]] * len(cells), texts)
        else:
            labels = self._by_cell(cells, "label", self._labels.of, texts)
        found = {"key": cells["key"], "split": split, "labels": labels}
        found |= {name: cells[name] for name in ("group", "size")}
        kept = {*self._own, UNCERTAIN.name}
        found |= {it.name: cells[f"{KEPT}{it.name}"] for it in fields if it.name in kept}
        if "caption" in self.columns:
            found[CAPTIONS.name] = self._by_cell(cells, "caption", self._captions_of, texts)
        if self.options.mask_column:
            found[MASK.name] = cells["mask"]
        if self.options.label_columns:
            found["uncertain"] = cells["uncertain"]
        if unit.boxes:
            box = cells["box"].combine_chunks()
            has_box, one = box.is_valid(), pc.equal(pc.list_value_length(labels), 1)
            wrong = pc.or_(cells["broken"], pc.and_not(has_box, one))
            if (at := pc.index(wrong, True).as_py()) >= 0:
                raise self.file.wrong(cells["row"][at].as_py(), _NO_BOX)
            ends = pa.array(
                np.append(0, has_box.to_numpy(zero_copy_only=False).cumsum()), pa.int32()
            )
            shown = labels.filter(has_box).flatten()
            found[BOXES.name] = pa.ListArray.from_arrays(ends, box.filter(has_box))
            found[BOX_LABELS.name] = pa.ListArray.from_arrays(ends, shown)
            found["drawn_on"] = cells["drawn_on"]
        return pa.table({**found, "row": cells["row"]})

    def _by_cell(
        self, cells: pa.Table, name: str, rule: Callable[[str], Any], kind: pa.DataType
    ) -> pa.Array:
        """What a rule makes of a column, each distinct cell looked at once."""
        encoded = cells[name].combine_chunks().fill_null("").dictionary_encode()
        values = []
        for code, cell in enumerate(encoded.dictionary.to_pylist()):
            try:
                values.append(rule(cell))
            except ValueError as error:
                row = cells["row"][pc.index(encoded.indices, code).as_py()]
                raise self.file.wrong(row.as_py(), f"{name} {cell or 'empty'}: {error}") from error
        return pa.array(values, kind).take(encoded.indices)

    def _captions_of(self, cell: str) -> tuple[str, ...] | None:
        """The texts in a cell; None if there are none."""
        value = json.loads(cell) if cell and self.file.has_json else cell
        texts = value if isinstance(value, list) else [value]
        if not all(text is None or isinstance(text, str) for text in texts):
            raise ValueError("expected a text, or a list of texts")
        return tuple(filter(None, (text.strip() for text in texts if text))) or None


def _completed(
    headers: Headers, options: FolderOptions, images: pa.Table, *, read: bool = True
) -> pa.Table:
    """With what headers tell of the images, and with keys as they are wanted."""
    if not (options.hash_keys or (read and (options.dicom_attributes or options.frames))):
        return images
    nothing = [0] * len(images)
    container, size = (
        images[name].to_pylist() if read else nothing for name in ("container", "size")
    )
    groups = images["group"].to_pylist() if read else nothing
    columns = (images["split"].to_pylist(), images["key"].to_pylist(), container, size, groups)
    # A row's number stands for its time of modification, which nobody reads here.
    found = [
        (split, Row(key, place, 0, size, number, (), group=group or ""))
        for number, (split, key, place, size, group) in enumerate(zip(*columns, strict=True))
    ]
    splits, rows = [], []
    for split, row in headers.complete(found, read=read):
        splits.append(split)
        rows.append(row)
    text = pa.string()
    if len(rows) > len(images):  # of a file of several frames
        images = images.take([row.modified for row in rows])
    changed = {"split": pa.array(splits, text), "key": pa.array([row.key for row in rows], text)}
    if read and (options.groups_by_header or options.frames):
        changed["group"] = pa.array([row.group or None for row in rows], text)
        changed["frame"] = pa.array([row.frame or None for row in rows], pa.list_(pa.int32()))
    for field in header_fields(options) if read else ():
        values = [row.fields.get(field.name) for row in rows]
        changed[field.name] = pa.array(values, arrow_type(field.rules.column))
    return with_columns(images.drop([it for it in changed if it in images.column_names]), **changed)


def _marked(attribute: str) -> str:
    """An attribute's column in SQL, where columns are called by their meanings, too."""
    return identifier(f"{KEPT}{attribute}")
