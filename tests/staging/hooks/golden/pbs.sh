#!/usr/bin/env bash
# Copies a data set to every node's own storage, trains from there, and removes the copies.
# Printed by `dataprep hook pbs`. Save it, look at the places marked EDIT, then: qsub FILE
#
# EDIT: what your site wants; a line with two # is not in force.
#PBS -N train
#PBS -l select=4
#PBS -l place=scatter
#PBS -l walltime=01:00:00
#PBS -j oe
##PBS -A ACCOUNT
##PBS -q QUEUE

set -euo pipefail
cd "$PBS_O_WORKDIR"

# EDIT: what brings `dataprep`, MPI and your program: module load …; source …/bin/activate

program=$(command -v dataprep) || {
  echo "dataprep is not on the PATH: activate the environment it is installed in" >&2
  exit 127
}
# More options may be added here, such as --shared or --verify reread.
stage=(
  "$program" stage /lustre/project/imagenet
)
# yes: a job that is stopped (qdel, qrerun, end of its time) leaves its copies where they are.
# The next run finds them, if it gets the same nodes and your site does not wipe them in between.
keep=no

# One process a node. Open MPI says that in one way; MPICH, Intel MPI and Cray's PALS in another.
# EDIT: a site without MPI may have pbsdsh, which runs once a chunk, or ssh; then give every node
# its number: dataprep stage … --rank N --world_size NODES
nodes=$(sort -u "$PBS_NODEFILE" | wc -l)
if mpiexec --version 2>&1 | grep -qiE 'open ?mpi|openrte'; then
  every_node=(mpiexec -n "$nodes" --map-by ppr:1:node --bind-to none)
else
  every_node=(mpiexec -n "$nodes" --ppn 1)
fi

# --- At the end: clean, at most a minute long. ---

# A job that is stopped has kill_delay seconds for it, 10 as a rule. A site's epilogue can do what
# remains: dataprep hook pbs --epilog
stopped=no

# shellcheck disable=SC2317  # the trap calls it
finish() {
  local code=$?
  trap '' TERM
  trap - EXIT
  if [ "$stopped" = no ] || [ "$keep" = no ]; then
    timeout --kill-after=10 60 "${every_node[@]}" "${stage[@]}" --clean ||
      echo "cleaning failed on a node; see above" >&2
  fi
  exit "$code"
}
trap finish EXIT
trap 'stopped=yes; if [ "${!:-}" ]; then kill "$!" || true; fi; exit 143' TERM

# --- Before: stage. ---

# A node says where its copy is, or, for exit code 4, that there is no room: all nodes find that out
# together, before anything is copied, so that it is no reason for mpiexec to end the others.
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
