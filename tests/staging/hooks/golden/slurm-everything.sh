#!/usr/bin/env bash
# Copies a data set to every node's own storage, trains from there, and removes the copies.
# Printed by `dataprep hook slurm`. Change what is marked EDIT, then: sbatch FILE
#
# EDIT: what your site wants. Lines starting with ## are disabled; remove one # to enable them.
#SBATCH --job-name=train
#SBATCH --nodes=1536
#SBATCH --time=01:00:00
##SBATCH --account=ACCOUNT
##SBATCH --partition=PARTITION
##SBATCH --constraint=NVME
# The training gets the signal USR1 five minutes before the end of the time, to save its state.
#SBATCH --signal=B:USR1@300
# After a requeue, the output continues in the same file.
#SBATCH --open-mode=append

# EDIT: what brings `dataprep` and your program, such as: module load …; source …/bin/activate

# EDIT: the last line: your training. $DATA_DIR is known in the command only: inside of the quotes.
# Exit code 4: a node has too little space, and nothing was copied.
# shellcheck disable=SC2016
exec dataprep stage '/lustre/my project/it'"'"'s' \
  --to "${TMPDIR}"'/my data/'"$USER" \
  --split train \
  --split validation \
  --share node \
  --keep -- \
  srun bash -c 'ls "$DATA_DIR"'
