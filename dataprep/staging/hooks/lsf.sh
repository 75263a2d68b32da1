#!/usr/bin/env bash
# Copies a data set to every node's own storage, trains from there, and removes the copies.
# Printed by `dataprep hook lsf`. Change what is marked EDIT, then: bsub < FILE
#
# EDIT: what your site wants. Lines starting with ## are disabled; remove one # to enable them.
#BSUB -J train
#BSUB -n @@nodes
#BSUB -R "span[ptile=1]"
##BSUB -nnodes @@nodes
##BSUB -alloc_flags nvme
#BSUB -W 01:00
#BSUB -o train.%J
##BSUB -P PROJECT
##BSUB -q QUEUE

# EDIT: what brings `dataprep` and your program, such as: module load …; source …/bin/activate

# EDIT: the last line: your training. $DATA_DIR is known in the command only: inside of the quotes.
# Exit code 4: a node has too little space, and nothing was copied.
# shellcheck disable=SC2016
exec dataprep stage @@stage -- \
  @@train
