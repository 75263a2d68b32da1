#!/usr/bin/env bash
# Copies a data set to every node's own storage, trains from there, and removes the copies.
# Printed by `dataprep hook pbs`. Change what is marked EDIT, then: qsub FILE
#
# EDIT: what your site wants. Lines starting with ## are disabled; remove one # to enable them.
#PBS -N train
#PBS -l select=4
#PBS -l place=scatter
#PBS -l walltime=01:00:00
#PBS -j oe
##PBS -A ACCOUNT
##PBS -q QUEUE

cd "$PBS_O_WORKDIR" || exit

# EDIT: what brings `dataprep`, MPI and your program: module load …; source …/bin/activate

# EDIT: the last line: your training. $DATA_DIR is known in the command only: inside of the quotes.
# Exit code 4: a node has too little space, and nothing was copied.
# shellcheck disable=SC2016
exec dataprep stage /lustre/project/imagenet \
  --broadcast mpi -- \
  bash -c 'ls "$DATA_DIR"'
