#!/usr/bin/env bash
# Copies a data set to every node's own storage, trains from there, and removes the copies.
# Printed by `dataprep hook lsf`. Save it, look at the places marked EDIT, then: bsub < FILE
#
# EDIT: what your site wants; a line with two # is not in force. Where jobs are started with jsrun,
# -nnodes takes the place of -n and -R, and -alloc_flags nvme gives the nodes' own storage.
#BSUB -J train
#BSUB -n 4
#BSUB -R "span[ptile=1]"
##BSUB -nnodes 4
##BSUB -alloc_flags nvme
#BSUB -W 01:00
#BSUB -o train.%J
##BSUB -P PROJECT
##BSUB -q QUEUE

set -euo pipefail

# EDIT: what brings `dataprep` and your program, such as: module load …; source …/bin/activate

program=$(command -v dataprep) || {
  echo "dataprep is not on the PATH: activate the environment it is installed in" >&2
  exit 127
}
# More options may be added here, such as --shared or --verify reread.
stage=(
  "$program" stage /lustre/project/imagenet
)
# yes: a job that is stopped (bkill, brequeue, end of its time) leaves its copies where they are.
# The next run finds them, if it gets the same nodes and your site does not wipe them in between.
keep=no

# One process a node, with all of the node's cores. Under jsrun this script runs on a node of its
# own, which takes no part; blaunch is everywhere else.
if command -v jsrun >/dev/null; then
  every_node=(
    jsrun --nrs ALL_HOSTS --rs_per_host 1 --tasks_per_rs 1 --cpu_per_rs ALL_CPUS --bind none
  )
else
  mapfile -t hosts < <(sort -u "$LSB_DJOB_HOSTFILE")
  every_node=(blaunch -no-shell -z "${hosts[*]}")
fi

# --- At the end: clean, at most a minute long. ---

# A job that is stopped has JOB_TERMINATE_INTERVAL seconds for it (lsb.params). What remains can be
# done afterwards: dataprep hook lsf --epilog
stopped=no

# shellcheck disable=SC2317  # the trap calls it
finish() {
  local code=$?
  trap '' INT TERM USR2
  trap - EXIT
  if [ "$stopped" = no ] || [ "$keep" = no ]; then
    timeout --kill-after=10 60 "${every_node[@]}" "${stage[@]}" --clean ||
      echo "cleaning failed on a node; see above" >&2
  fi
  exit "$code"
}
trap finish EXIT
# LSF sends USR2 at the end of the time, INT and then TERM for bkill.
trap 'stopped=yes; if [ "${!:-}" ]; then kill "$!" || true; fi; exit 143' INT TERM USR2

# --- Before: stage. ---

# A node says where its copy is, or, for exit code 4, that there is no room: all nodes find that out
# together, before anything is copied, so that it is no reason to end the others.
# shellcheck disable=SC2016  # for the shells on the nodes
answer='"$@" || { code=$?; if [ "$code" -eq 4 ]; then echo no-room; else exit "$code"; fi; }'
DATA_DIR=$("${every_node[@]}" bash -c "$answer" stage "${stage[@]}" --print_dir | sort -u)
case $DATA_DIR in
  no-room)
    # EDIT: to train from the parallel file system then, replace the next two lines:
    # DATA_DIR=/lustre/project/imagenet
    echo "a node has too little room for the data set; nothing was copied anywhere" >&2
    exit 4
    ;;
  *$'\n'*)
    printf 'the nodes do not agree where their copies are:\n%s\n' "$DATA_DIR" >&2
    exit 1
    ;;
esac
export DATA_DIR
export HDF5_USE_FILE_LOCKING=FALSE # nobody writes to the copies, and not all storage has locks

# --- The training. ---

# EDIT: your command, which reads from $DATA_DIR. The & stays: bash handles no signal while a
# command runs in the foreground.
"${every_node[@]}" ls "$DATA_DIR" &
code=0
wait "$!" || code=$?
exit "$code"
