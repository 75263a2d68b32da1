#!/usr/bin/env bash
# DuckDB for Python, in a program that has no file (`python -c`), draws its progress bar on stdout,
# though that is a file or a pipe: whatever the program itself writes there is spoilt.
#
# duckdb 2.0.1, Python 3.11. The same query, of a few seconds, with stdout in a file:
#
#     python query.py >FILE       0 bytes
#     python -c "$(cat query.py)" >FILE
#                                 1316 bytes: "\r 75% ▕██████████████████████████████ …"
#
# The package takes a `__main__` without `__file__` for an interactive session, and turns the bar on
# without asking whether stdout is a terminal. Queries of less than two seconds draw none, so it is
# seen under load only. Way out: `set enable_progress_bar = false` on each connection.
#
# Ends with 0 while that is so, and with 1 once it is not.
set -euo pipefail

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
python3 -m venv venv
venv/bin/pip install --quiet duckdb==2.0.1
cat >query.py <<'QUERY'
import sys, time, duckdb

connection = duckdb.connect(config={"threads": 1})
rows, begun = 10_000, time.monotonic()
while time.monotonic() - begun < 4:  # until one takes some seconds here
    rows, begun = int(rows * 1.6), time.monotonic()
    connection.execute(
        f"select sum(hash(a.range + b.range) % 7) from range({rows}) a, range({rows}) b"
    ).fetchall()
print("duckdb", duckdb.__version__, f"{time.monotonic() - begun:.1f} s", file=sys.stderr)
QUERY

venv/bin/python query.py >file.out
venv/bin/python -c "$(cat query.py)" >command.out
printf 'a file: %s bytes; -c: %s bytes\n' "$(wc -c <file.out)" "$(wc -c <command.out)"
[ ! -s file.out ] && [ -s command.out ]
