"""A stand-in for a training: reads every record of a copy, and says in a line what it saw.

``python read_all.py DIR``, once a node. Ends with 1 if there is anything else than the manifest, or
``part.json`` beside it, says.
"""

from __future__ import annotations

import sys
from pathlib import Path
from socket import gethostname

import dataprep
from dataprep.errors import DataprepError
from dataprep.sealed.set import SealedSet, described


def main(out: Path) -> str:
    """Read all splits that are here; returns what was seen.

    Raises:
        DataprepError: a record cannot be read, or is not what the manifest says.
        SystemExit: there are more or fewer than it says.
    """
    sealed = SealedSet.read(out)
    seen = []
    for name, split in sealed.splits.items():
        keys = set()
        with dataprep.open(out, split=name) as records:
            for example in records:
                keys.add(example.key)
        if len(keys) != split.records:
            sys.exit(f"{out}: {len(keys)} records of {name}, but {split.records} should be here")
        seen.append(f"{len(keys)} records of {name} in {len(split.shards)} shards")
    part = "all of it" if sealed.part is None else described(sealed.part)
    return f"{gethostname()}: read {', '.join(seen)}; {part}"


if __name__ == "__main__":
    try:
        sys.stdout.write(main(Path(sys.argv[1])) + "\n")  # at once, so that lines stay whole
    except DataprepError as error:
        sys.exit(str(error))
