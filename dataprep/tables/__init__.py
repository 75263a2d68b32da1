"""Tables of images: what scanning found, the order they are written in, what became of them.

All of it loads pyarrow or DuckDB, and is imported where it is needed.
"""
