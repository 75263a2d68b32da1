#!/usr/bin/env bash
# Apache Beam 2.77.0, PortableRunner with Beam's own job service: --job_server_timeout, of which the help
# says "the timeout does not apply to the actual pipeline run time", is the time that a job may take.
# It is the deadline of the stream of the job's states, too; its default is 300, and so each job that
# takes longer ends with "Deadline Exceeded".
#
# Output seen; the job is one element, which sleeps for 20 seconds:
#   apache-beam 2.77.0
#   --job_server_timeout=10:  DEADLINE_EXCEEDED
#   --job_server_timeout=100: DONE
#
# Ends with 0 while that is so, with 1 if it has changed.
set -euo pipefail
place=$(mktemp -d)
service=
trap '[ -z "$service" ] || kill "$service"; rm -rf "$place"' EXIT
python3 -m venv "$place/venv"
"$place/venv/bin/pip" install --quiet "apache-beam==2.77.0"
python=$place/venv/bin/python
cat > "$place/work.py" <<'PYTHON'
import sys
import time

import apache_beam as beam
import grpc
from apache_beam.options.pipeline_options import PipelineOptions

pipeline = beam.Pipeline(options=PipelineOptions(sys.argv[1:]))
pipeline | beam.Create([20]) | beam.Map(time.sleep)
try:
    print(pipeline.run().wait_until_finish())
except grpc.RpcError as error:
    print(error.code().name)
PYTHON
"$python" -m apache_beam.runners.portability.local_job_service_main \
  --job_port 0 --port_file "$place/port" --staging_dir "$place/staging" >"$place/log" 2>&1 &
service=$!
while [ ! -e "$place/port" ]; do sleep 0.2; done
ran() {
  "$python" "$place/work.py" --runner=PortableRunner --environment_type=LOOPBACK \
    "--job_endpoint=localhost:$(cat "$place/port")" "--job_server_timeout=$1" 2>>"$place/log"
}
short=$(ran 10)
long=$(ran 100)
"$python" -c 'from importlib.metadata import version; print("apache-beam", version("apache-beam"))'
echo "--job_server_timeout=10:  $short"
echo "--job_server_timeout=100: $long"
[ "$short" = DEADLINE_EXCEEDED ] && [ "$long" = DONE ]
