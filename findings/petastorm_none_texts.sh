#!/usr/bin/env bash
# Petastorm 0.13.1, the newest: make_batch_reader gives the text "None" where a Parquet file has
# null, so a class, or a view, that nobody knows is one called None; leaves out every column that is a
# struct, such as the images of Hugging Face's data sets, with no error; and refuses a column of lists
# that are not equally long. Whole numbers with gaps are floats, as in pandas.
#
# Output seen:
#   petastorm 0.13.1, pyarrow 11.0.0
#   columns in the file:     ['id', 'view', 'image']
#   columns that are given:  ['id', 'view']
#   views in the file:       ['PA', None, 'AP']
#   views that are given:    ['PA', 'None', 'AP']
#   lists of 1, 0 and 2:     RuntimeError: Length of all values in column 'boxes' are expected to be the
#
# Ends with 0 while that is so, with 1 if it has changed.
set -euo pipefail
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/venv"
# Without pyspark, which reading does not need; what else it imports, of versions that it fits.
"$place/venv/bin/pip" install --quiet --no-deps "petastorm==0.13.1"
"$place/venv/bin/pip" install --quiet "pyarrow==11.0.0" "numpy==1.26.4" "pandas==2.1.4" diskcache \
  dill future psutil pyzmq six packaging fsspec "setuptools<70"
cat > "$place/read.py" <<'PYTHON'
import sys
from importlib.metadata import version

import pyarrow as pa
from petastorm import make_batch_reader
from pyarrow import parquet

views = ["PA", None, "AP"]
images = [{"bytes": b"\xff\xd8\xff", "path": f"{number}.jpg"} for number in range(3)]
table = pa.table({"id": [1, 2, 3], "view": views, "image": images})
parquet.write_table(table, sys.argv[1] + "/set.parquet")
with make_batch_reader(f"file://{sys.argv[1]}/set.parquet", workers_count=1) as reader:
    (batch,) = reader
found = batch.view.tolist()
lists = pa.table({"id": [1, 2, 3], "boxes": [[0.5], [], [0.5, 1.0]]})
parquet.write_table(lists, sys.argv[1] + "/lists.parquet")
try:
    with make_batch_reader(f"file://{sys.argv[1]}/lists.parquet", workers_count=1) as reader:
        refused = str(next(reader))
except RuntimeError as error:
    refused = f"RuntimeError: {error}"
print(f"petastorm {version('petastorm')}, pyarrow {pa.__version__}")
print("columns in the file:    ", table.column_names)
print("columns that are given: ", list(batch._fields))
print("views in the file:      ", views)
print("views that are given:   ", found)
print("lists of 1, 0 and 2:    ", refused[:76])
as_seen = "image" not in batch._fields and refused.startswith("RuntimeError: Length of all")
sys.exit(0 if found == ["PA", "None", "AP"] and as_seen else 1)
PYTHON
"$place/venv/bin/python" -W ignore "$place/read.py" "$place" 2> "$place/log" ||
  { status=$?; tail -5 "$place/log"; exit "$status"; }
