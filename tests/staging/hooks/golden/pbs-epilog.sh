#!/usr/bin/env bash
# For a site's epilogue, which root runs at the end of a job with the job's number and user: removes
# what the job staged there, as that user, and only that. Printed by `dataprep hook pbs --epilog`.
# It must run on every node: as execjob_epilogue hook in PBS Professional and OpenPBS, as both
# epilogue and epilogue.parallel in Torque.
# Users do not need it: the batch script cleans. It is for jobs that were killed before that.

# EDIT: an epilogue has neither a PATH nor the variables of the job.
program=/usr/local/bin/dataprep
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
export DATAPREP_SCRATCH=/local/scratch # where jobs stage if they do not say --to
export PBS_JOBID=$1

timeout --kill-after=10 60 runuser --user="$2" -- \
  "$program" stage --clean ||
  logger --tag dataprep "job $1: what it staged could not be removed"
exit 0
