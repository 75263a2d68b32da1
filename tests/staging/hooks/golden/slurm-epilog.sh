#!/usr/bin/env bash
# For a site's Epilog (slurm.conf), which root runs on every node at the end of a job: removes what
# the job staged there, as the job's user, and only that. Printed by `dataprep hook slurm --epilog`.
# Users do not need it: the batch script cleans. It is for jobs that were killed before that.

# EDIT: an Epilog has neither a PATH nor the variables of the job.
program=/usr/local/bin/dataprep
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
export DATAPREP_SCRATCH=/local/scratch # where jobs stage if they do not say --to

timeout --kill-after=10 60 runuser --user="$SLURM_JOB_USER" -- \
  "$program" stage --clean ||
  logger --tag dataprep "job $SLURM_JOB_ID: what it staged could not be removed"
exit 0 # an Epilog that fails takes its node out of service
