#!/bin/sh
# Tests the plugin in an environment of its own, as small as can be: see requirements-test.txt.
#
#   ./run_tests.sh PYTHON VENV_DIR [PYTEST_ARGUMENT ...]
set -eu
if [ $# -lt 2 ]; then
    echo "usage: $0 PYTHON VENV_DIR [PYTEST_ARGUMENT ...]" >&2
    exit 2
fi
python=$1
venv=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)

[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
bin=$(cd "$venv/bin" && pwd)
"$bin/python" -m pip install --quiet --requirement "$here/requirements-test.txt" --editable "$here/../.."
# Last, and without what they declare: pip would find fault with what is missing.
"$bin/python" -m pip install --quiet --no-deps mosaicml-streaming==0.13.0 --editable "$here"

cd "$here"
PYTHONPATH="$here/tests/stand_ins${PYTHONPATH:+:$PYTHONPATH}" exec "$bin/python" -m pytest "$@"
