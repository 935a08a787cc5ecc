#!/bin/sh
# Everything with the settings in settings.json, for a machine that does nothing else.
#   sh run.sh WORK_DIR [OUR_PROGRAM]
# With references in WORK_DIR it takes, without ours, about half a minute for each line and mode.
set -eu
here=$(dirname "$0")
python=${PYTHON:-python3}
work=$1
ours=${2:-}
export TF_CPP_MIN_LOG_LEVEL=3

"$python" "$here/peers.py" prepare --work "$work"
for problem in logistic mnist79; do
    [ -e "$work/$problem/reference.npz" ] || [ ! -e "$work/$problem" ] ||
        "$python" "$here/peers.py" reference --work "$work" --problems "$problem" --seconds 300
done
# The faster way to run two chains is a process each; see README.md for --modes vmap.
"$python" "$here/peers.py" run --work "$work" --modes processes --seconds 20 ${ours:+--ours "$ours"}
"$python" "$here/peers.py" table --work "$work"
