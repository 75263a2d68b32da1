#!/usr/bin/env bash
# Grain 0.2.18: a DataLoader of shards loses the records that the number of shards does not divide,
# although ShardOptions(drop_remainder=False), the default, says "distribute the remainder N over the
# first N shards". It takes floor(len(sampler) / shards) of each (_SamplerMapDataset in
# grain/_src/python/data_loader.py), with any number of workers. So 26 records on 4 ranks train on 24
# an epoch, and an evaluation leaves out 2. Slicing a MapDataset, [rank::world_size], loses none.
#
# Output seen:
#   grain 0.2.18, 26 records, 4 shards
#   DataLoader, drop_remainder=False: 24 records, per shard [6, 6, 6, 6]
#   even_split of the same options:   26 records, per shard [7, 7, 6, 6]
#   MapDataset[rank::4]:              26 records, per shard [7, 7, 6, 6]
#
# Ends with 0 while that is so, with 1 if it has changed.
set -euo pipefail
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/venv"
"$place/venv/bin/pip" install --quiet "grain==0.2.18" "numpy>=2"
cat > "$place/count.py" <<'PYTHON'
import sys
from importlib.metadata import version

import grain
import numpy as np
from grain._src.core.sharding import even_split

RECORDS, SHARDS = 26, 4


def loader(rank):
    options = grain.sharding.ShardOptions(rank, SHARDS, drop_remainder=False)
    sampler = grain.samplers.IndexSampler(
        RECORDS, num_epochs=1, shuffle=True, seed=1, shard_options=options
    )
    return grain.DataLoader(data_source=np.arange(RECORDS), sampler=sampler, worker_count=0)


def split(rank):
    return range(*even_split(RECORDS, grain.sharding.ShardOptions(rank, SHARDS)))


def sliced(rank):
    return grain.MapDataset.source(np.arange(RECORDS)).shuffle(seed=1)[rank::SHARDS]


print(f"grain {version('grain')}, {RECORDS} records, {SHARDS} shards")
found = []
for name, of_rank in (
    ("DataLoader, drop_remainder=False:", loader),
    ("even_split of the same options:  ", split),
    ("MapDataset[rank::4]:             ", sliced),
):
    shards = [[int(record) for record in of_rank(rank)] for rank in range(SHARDS)]
    found.append(len(set().union(*shards)))
    print(name, found[-1], "records, per shard", list(map(len, shards)))
sys.exit(found != [24, 26, 26])
PYTHON
"$place/venv/bin/python" "$place/count.py"
