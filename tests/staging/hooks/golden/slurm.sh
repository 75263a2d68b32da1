#!/usr/bin/env bash
# Copies a data set to every node's own storage, trains from there, and removes the copies.
# Printed by `dataprep hook slurm`. Save it, look at the places marked EDIT, then: sbatch FILE
#
# EDIT: what your site wants; a line with two # is not in force.
#SBATCH --job-name=train
#SBATCH --nodes=4
#SBATCH --time=01:00:00
##SBATCH --account=ACCOUNT
##SBATCH --partition=PARTITION
##SBATCH --exclusive
# Nodes that have storage of their own, as your site asks for them: a constraint, a gres …
##SBATCH --constraint=NVME
# This shell gets USR1 five minutes before the time is over, and hands it on to the training.
#SBATCH --signal=B:USR1@300
# Should the job be requeued, its output goes on in the same file.
#SBATCH --open-mode=append

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
# yes: a job that is stopped (requeue, scancel, end of its time) leaves its copies where they are.
# A requeue finds them, if it gets the same nodes and your site does not wipe them in between.
keep=no

# One process a node, with all of the node's cores; should one fail, -K ends the others.
# --broadcast mpi: add the --mpi that goes with your mpi4py (srun --mpi=list shows them).
nodes=$SLURM_JOB_NUM_NODES
every_node=(
  srun --overlap --nodes="$nodes" --ntasks="$nodes" --ntasks-per-node=1
  --cpu-bind=none --kill-on-bad-exit=1
)

# --- At the end: clean, at most a minute long. ---

# Slurm starts no step any more in a job that is being stopped, so one shell a node waits for that
# from the beginning. It has KillWait seconds then (scontrol show config), 30 as a rule.
cleaner=
if [ "$keep" = no ]; then
  # shellcheck disable=SC2016  # for the shells on the nodes
  "${every_node[@]}" --kill-on-bad-exit=0 bash -c '
    trap "" USR1
    trap "kill \$nap 2>/dev/null; exit 0" USR2
    trap "trap \"\" USR2; over=yes" TERM
    until [ "${over:-}" ]; do sleep 3600 >/dev/null 2>&1 & nap=$!; wait "$nap" || true; done
    kill "$nap" 2>/dev/null || true
    exec timeout 60 "$@"' clean "${stage[@]}" --clean &
  cleaner=$!
fi

stopped=no

# shellcheck disable=SC2317  # the trap calls it
finish() {
  local code=$?
  trap '' TERM USR1
  trap - EXIT
  if [ "$stopped" = no ]; then
    timeout --kill-after=10 60 "${every_node[@]}" --kill-on-bad-exit=0 "${stage[@]}" --clean ||
      echo "cleaning failed on a node; see above" >&2
    if [ "$cleaner" ]; then kill -USR2 "$cleaner" 2>/dev/null || true; fi
  fi
  if [ "$cleaner" ]; then timeout 70 tail -s 0.1 --pid="$cleaner" -f /dev/null || true; fi
  exit "$code"
}
trap finish EXIT
trap 'stopped=yes; exit 143' TERM
# Whatever runs in the background beside the cleaner is the training.
trap 'told=yes; if [ "${!:-}" = "$cleaner" ]; then exit 1; else kill -USR1 "$!" || true; fi' USR1

# --- Before: stage. ---

# A node says where its copy is, or, for exit code 4, that there is no room: all nodes find that out
# together, before anything is copied, so that it is no reason for -K to end the others.
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
srun ls "$DATA_DIR" &
# A signal ends `wait`, but not the training.
while told=no code=0; do
  wait "$!" || code=$?
  if [ "$told" = no ] || [ "$code" -le 128 ]; then break; fi
done
exit "$code"
