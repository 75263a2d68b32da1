#!/usr/bin/env bash
# Prepares a data set on a login node without being a nuisance there. Killed at any moment, the same
# command goes on where it was. EDIT: what is in capitals; then: nohup ./login-node.sh >log 2>&1 &
set -euo pipefail

raw=${RAW:-/PATH/TO/ILSVRC2012}
out=${OUT:-/PATH/TO/imagenet-tfrecord} # on the parallel file system
cores=${CORES:-2}
bytes_a_second=${IO_LIMIT:-100MB} # read and written, all processes together

# EDIT: what brings `dataprep`, such as: source …/bin/activate. Or from an image (docs/installing.md):
#   dataprep=(apptainer run --bind /lustre dataprep.sif dataprep)
#   dataprep=(podman run --rm --userns keep-id --user "$(id -u):$(id -g)" --volume /lustre:/lustre
#     dataprep dataprep)
dataprep=(dataprep)

# Reads and writes only when nobody else does, where the disk's scheduler knows of that.
idle=()
if command -v ionice >/dev/null; then idle=(ionice -c3 -t); fi

# exec: the signals of the system's cleaner and of yours reach dataprep, which stops in order.
# (docker and podman do not hand the niceness on: their containers have --cpu-shares: docs/installing.md.)
# (${a[@]+…}: before version 4.4, bash takes an empty array for one that is not set.)
exec nice -n 19 ${idle[@]+"${idle[@]}"} "${dataprep[@]}" imagenet \
  --raw_data_dir "$raw" --local_scratch_dir "$out" \
  --workers "$cores" --io_limit "$bytes_a_second" "$@"
