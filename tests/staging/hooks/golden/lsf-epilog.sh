#!/usr/bin/env bash
# For POST_EXEC (lsb.queues) or, by a user, #BSUB -Ep FILE: runs as the job's user when the job is
# over, and removes what the job staged. Printed by `dataprep hook lsf --epilog`.
# The batch script cleans by itself. This is for jobs that were killed before it could.

# EDIT: what runs here has not the PATH of the job.
program=/usr/local/bin/dataprep
export DATAPREP_SCRATCH=/local/scratch # where jobs stage if they do not say --to

clean=("$program" stage --clean)
# LSF runs this on the job's first node only; the others are reached as far as your site lets you.
printf -v there '%q ' env LSB_JOBID="$LSB_JOBID" DATAPREP_SCRATCH="$DATAPREP_SCRATCH" "${clean[@]}"
while read -r host; do
  if [ "${host%%.*}" = "${HOSTNAME%%.*}" ]; then continue; fi
  timeout --kill-after=10 60 ssh -n -o BatchMode=yes "$host" "$there" &
done < <(sort -u "${LSB_DJOB_HOSTFILE:-/dev/null}")
timeout --kill-after=10 60 "${clean[@]}" || echo "what the job staged could not be removed" >&2
wait
exit 0
