"""Hugging Face's column ``objects``: all boxes of an image in one cell, read as a row a box."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import islice
from pathlib import Path
from typing import Final

from dataprep.datasets.folder.options import FolderOptions
from dataprep.datasets.lists import ListFile
from dataprep.errors import SourceError
from dataprep.tables.database import identifier, open_database

_COLUMN: Final = "objects"
_LABELS: Final = ("category", "categories", "label", "labels", "class", "classes", "name", "names")
# A list of each thing, ``{"bbox": […], "category": […]}``, or a list of objects with both.
_ALL: Final = "json_extract(objects, '$.{0}[*]') || json_extract(objects, '$[*].{0}')"
_NAMES: Final = ", ".join(f"nullif({_ALL.format(name)}, [])" for name in _LABELS)
# A row of nulls, where there is no box; of what has none of the form, one that is broken.
_SHOWN: Final = f"""case
when len({_ALL.format("bbox")}) > 0 then list_zip({_ALL.format("bbox")}, coalesce({_NAMES}, []))
when objects is null or json_exists(objects, '$.bbox') or objects::varchar in ('[]', '{{}}', 'null')
then list_zip([null::json], [null::json]) else list_zip([objects], [null::json]) end"""
_SIDE: Final = """case when json_array_length(shown[1]) = 4 then {}
when coalesce(shown[1], shown[2]) is not null then 'no number' end"""
_AT: Final = "try_cast(shown[1]->>'$[{}]' as double)"
_END: Final = f"({_AT} + {_AT})::varchar"
_BOX: Final = {
    "label": "shown[2]",
    "xmin": _SIDE.format("shown[1]->>'$[0]'"),
    "ymin": _SIDE.format("shown[1]->>'$[1]'"),
    "xmax": _SIDE.format(_END.format(0, 2)),
    "ymax": _SIDE.format(_END.format(1, 3)),
}


class Objects(ListFile):
    """A list with such a column, in JSON lines or Parquet.

    Boxes are ``[x, y, width, height]``, as its documentation of imagefolder has them
    (https://huggingface.co/docs/datasets/image_dataset).
    """

    described = f"{_COLUMN}: a box each, x, y, width and height, and its class"

    def __init__(self, path: Path, form: str) -> None:
        super().__init__(path, form)
        self.columns = [it for it in self._there if it not in (_COLUMN, *_BOX)] + [*_BOX]

    @staticmethod
    def are_in(file: ListFile, options: FolderOptions) -> bool:
        """Whether a list has the labels there: they are named so, or are in no column."""
        absent = options.label_column == "label" and "label" not in file.columns
        wanted = (absent or options.label_column == _COLUMN) and not options.unlabelled
        there = file.has_json and _COLUMN in file.columns
        return there and wanted and not options.label_columns

    def cells(
        self, wanted: Mapping[str, str], *, as_json: Collection[str] = ()
    ) -> tuple[str, dict[str, object]]:
        """See `ListFile.cells`."""
        own = {name: it for name, it in wanted.items() if it not in _BOX}
        query, values = super().cells({**own, _COLUMN: _COLUMN}, as_json=(*as_json, _COLUMN))
        cells = [
            f"{_BOX.get(it, identifier(name))} as {identifier(name)}" for name, it in wanted.items()
        ]
        rows = f"select *, unnest({_SHOWN}) as shown from ({query})"
        return f"select blank, {', '.join(cells)} from ({rows})", values

    def wrong(self, row: int, reason: str) -> SourceError:
        """What is wrong with a row, of which there is one a box."""
        query, values = super().cells({_COLUMN: _COLUMN}, as_json=(_COLUMN,))
        with open_database(None, self.paths, ordered=True) as database, self.explaining():
            often = database.execute(f"select len({_SHOWN}) from ({query})", values).fetchall()
        lines = (line for line, (boxes,) in enumerate(often) for _ in range(boxes))
        return super().wrong(next(islice(lines, row, None)), reason)
