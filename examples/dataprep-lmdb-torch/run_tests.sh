#!/bin/sh
# Tests the plugin in an environment of its own. Any that has dataprep will do, so CI gives it that
# of the other example, and nothing is installed twice.
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
# --group needs it; what is there already stays as it is.
"$bin/python" -m pip install --quiet "pip>=25.1"
"$bin/python" -m pip install --quiet --editable "$here/../.."
cd "$here"
# The dependencies are those just installed: on a public index, their names may be somebody else's.
"$bin/python" -m pip install --quiet --no-deps --editable .
"$bin/python" -m pip install --quiet --group test

exec "$bin/python" -m pytest "$@"
