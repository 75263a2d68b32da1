"""The box list of ChestX-ray14: where radiologists marked a finding."""

from __future__ import annotations

from typing import Final

from dataprep.datasets.chestxray14.files import ListFile
from dataprep.datasets.chestxray14.findings import FINDINGS
from dataprep.datasets.chestxray14.rules import (
    FILLED,
    Rules,
    one_of,
    read_lines,
    require,
    take_header,
)
from dataprep.index.database import Database

GRID: Final = 1024
"""The width and height, in pixels, of the published images, on which boxes are given."""

BOXES: Final = """
create table boxes (
  line bigint, key text, finding text, xmin double, ymin double, xmax double, ymax double,
  clipped bool
)
"""
"""Where there is no box list, the table stays empty."""

_HEADER: Final = "Image Index,Finding Label,Bbox [x"  # commas in the header are not quoted
_READ: Final = f"""
create table box_rows as
select
  line,
  {FILLED} as filled,
  trim(fields[1]) as key,
  replace(trim(fields[2]), 'Infiltrate', 'Infiltration') as finding,
  array_to_string(fields[3:], ',') as box,
  try_cast(fields[3] as double) as x,
  try_cast(fields[4] as double) as y,
  try_cast(fields[5] as double) as width,
  try_cast(fields[6] as double) as height,
from (select *, string_split(text, ',') as fields from box_lines)
"""
_CLIPPED: Final = f"""
select
  line,
  key,
  finding,
  greatest(x / {GRID}, 0.0::double) as xmin,
  greatest(y / {GRID}, 0.0::double) as ymin,
  least((x + width) / {GRID}, 1.0::double) as xmax,
  least((y + height) / {GRID}, 1.0::double) as ymax,
  x < 0 or y < 0 or x + width > {GRID} or y + height > {GRID} as clipped,
from box_rows
"""
# Not a number counts as greater than all others.
_INSIDE: Final = f"""
  x < {GRID} and y < {GRID} and width > 0 and height > 0 and x + width > 0 and y + height > 0
  and isfinite(x + width) and isfinite(y + height)
"""
_RULES: Final[Rules] = {
    f"not list_contains({one_of(FINDINGS)}, finding)": (
        f"'has the finding ''' || coalesce(finding, '') || '''; expected {', '.join(FINDINGS)}'"
    ),
    f"filled <> 6 or ({_INSIDE}) is not true": (
        "'has the box ''' || box || '''; expected x, y, width and height in pixels of an image of "
        f"{GRID} x {GRID}'"
    ),
}


def read_boxes(database: Database, file: ListFile) -> None:
    """Fill the table ``boxes``.

    Its columns are ``line``, ``key`` (an image's file name), ``finding``, the sides as fractions of
    width and height, within the image, and ``clipped``: whether the list has it reach beyond.

    Raises:
        SourceError: the file cannot be read, is not the box list, or has a row that does not fit;
            the row's line is named.
    """
    read_lines(database, "box_lines", file)
    take_header(database, "box_lines", file, _HEADER, "name the right file with --bbox_csv")
    database.execute(_READ)
    require(database, "box_rows", file, _RULES)
    database.execute("insert into boxes " + _CLIPPED)
