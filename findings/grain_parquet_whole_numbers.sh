#!/usr/bin/env bash
# Grain 0.2.18: ParquetIterDataset gives whole numbers as floats in every row group that has a null, and
# as whole numbers in the others. So an identifier beyond 2^53 becomes another, without a word, if
# somewhere in its row group one is missing; and one column has two types, by which group a record is
# from. pyarrow, polars and DuckDB give the numbers that are there.
#
# Output seen, of int64 [9007199254740993, 9007199254740995] and [9007199254740997, null]:
#   grain 0.2.18, pyarrow 25.0.1
#   row group without null: int64 9007199254740993, int64 9007199254740995
#   row group with one:     float64 9007199254740996, float64 nan
#
# Ends with 0 while that is so, with 1 if it has changed.
set -euo pipefail
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/venv"
"$place/venv/bin/pip" install --quiet "grain==0.2.18" "pyarrow==25.0.1" "numpy>=2"
cat > "$place/read.py" <<'PYTHON'
import sys
from importlib.metadata import version

import grain
import pyarrow as pa
from pyarrow import parquet

numbers = [2**53 + 1, 2**53 + 3, 2**53 + 5, None]
path = sys.argv[1] + "/set.parquet"
parquet.write_table(pa.table({"id": pa.array(numbers, pa.int64())}), path, row_group_size=2)
assert parquet.read_table(path)["id"].to_pylist() == numbers
found = [row["id"] for row in grain.experimental.ParquetIterDataset(path)]
said = [f"{type(it).__name__} {'nan' if it != it else int(it)}" for it in found]
print(f"grain {version('grain')}, pyarrow {pa.__version__}")
print("row group without null:", ", ".join(said[:2]))
print("row group with one:    ", ", ".join(said[2:]))
sys.exit(0 if found[:2] == numbers[:2] and int(found[2]) == 2**53 + 4 else 1)
PYTHON
"$place/venv/bin/python" -W ignore "$place/read.py" "$place"
