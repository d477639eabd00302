#!/bin/sh
# Adds what the launch cases run: tools/conformance.sh PYTHON
# torch, as the trainer's tests have it, and accelerate, whose launcher is one of those that are tried.
set -eu
python=$1

sh "$(dirname "$0")/torch.sh" "$python" yes
echo "make: installing accelerate" >&2
"$python" -m pip install -qq --disable-pip-version-check --constraint constraints.txt \
    --constraint constraints-trainer.txt --constraint constraints-conformance.txt --editable '.[trainer,conformance]' || {
    echo "make: pip could not install accelerate (its reason is above)" >&2
    exit 1
}
