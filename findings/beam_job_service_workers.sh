#!/usr/bin/env bash
# Apache Beam 2.77.0, apache_beam.runners.portability.local_job_service_main: a job that asks for four
# workers by --direct_num_workers=4, as DirectRunner obeys it, gets one from Beam's own job
# service, without a word: FnApiRunner reads that option where a pipeline is handed to it in Python
# (run_pipeline), and the service hands it the pipeline's protocol buffer (run_via_runner_api).
#
# Output seen; each of 40 elements was handled by a process:
#   apache-beam 2.77.0
#   --runner=DirectRunner --direct_running_mode=multi_processing: 4 processes
#   --runner=PortableRunner, Beam's job service:                  1 process
#
# Ends with 0 while that is so, with 1 if it has changed.
set -euo pipefail
place=$(mktemp -d)
service=
trap '[ -z "$service" ] || kill "$service"; rm -rf "$place"' EXIT
python3 -m venv "$place/venv"
"$place/venv/bin/pip" install --quiet "apache-beam==2.77.0"
cat > "$place/work.py" <<'PYTHON'
import os
import sys

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

told, *flags = sys.argv[1:]


def tell(number):
    open(os.path.join(told, str(os.getpid())), "w").close()
    return number


os.mkdir(told)
tell.__module__ = "__main__"
with beam.Pipeline(options=PipelineOptions(flags, save_main_session=True)) as pipeline:
    pipeline | beam.Create(range(40)) | beam.Reshuffle() | beam.Map(tell)
print(len(os.listdir(told)))
PYTHON
cd "$place"
python=$place/venv/bin/python
"$python" -m apache_beam.runners.portability.local_job_service_main \
  --job_port 0 --port_file "$place/port" --staging_dir "$place/staging" >"$place/log" 2>&1 &
service=$!
while [ ! -e "$place/port" ]; do sleep 0.2; done
direct=$("$python" work.py "$place/direct" --runner=DirectRunner \
  --direct_running_mode=multi_processing --direct_num_workers=4 2>>"$place/log")
portable=$("$python" work.py "$place/portable" --runner=PortableRunner \
  "--job_endpoint=localhost:$(cat "$place/port")" --direct_num_workers=4 \
  --environment_type=beam:env:harness_subprocess_python:v1 \
  "--environment_config=$python -m apache_beam.runners.worker.sdk_worker_main" 2>>"$place/log")
"$python" -c 'from importlib.metadata import version; print("apache-beam", version("apache-beam"))'
echo "--runner=DirectRunner --direct_running_mode=multi_processing: $direct processes"
echo "--runner=PortableRunner, Beam's job service:                  $portable process"
[ "$direct" = 4 ] && [ "$portable" = 1 ]
