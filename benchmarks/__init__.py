"""How fast and how large: dataprep beside other tools, bare loops, ``cp`` and plain files.

``python -m benchmarks QUESTION`` answers one question of docs/performance.md with a table. Each
module is a question, and its docstring asks it; nothing here is a test, and nothing fails for
being slow.
"""
