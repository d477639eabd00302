#!/bin/sh
# Writes constraints.txt, constraints-trainer.txt and constraints-conformance.txt: tools/lock.sh PYTHON
# The newest versions that pyproject.toml allows, as pip resolves them in an environment of their own. Run it with the oldest
# supported Python: what installs there installs on the newer ones, and only there do all backports show.
set -eu
python=$1
torch='torch==2.13.0' # named here, since the newest torch is no CPU build
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

freeze() {
    "$work/venv/bin/python" -m pip freeze --exclude-editable --exclude pip --exclude setuptools | LC_ALL=C sort
}

install() {
    "$work/venv/bin/python" -m pip install -qq --disable-pip-version-check "$@"
}

"$python" -m venv "$work/venv"
install --editable '.[dev]'
freeze >"$work/common"
install --constraint "$work/common" "$torch" --editable '.[dev,trainer,plot]'
freeze >"$work/with-trainer"
install --constraint "$work/with-trainer" --editable '.[dev,trainer,plot,conformance]'
freeze >"$work/with-conformance"
# a local label such as +cpu names one index's build: elsewhere the same version is called without
added() {
    LC_ALL=C comm -13 "$1" "$2" | sed 's/+[a-z0-9.]*$//'
}

{
    echo "# The versions that are tested, of all that runs and develops rankfix. Made by 'make lock', on Python 3.11, for 3.11 to 3.13."
    cat "$work/common"
} >constraints.txt
{
    echo "# What the trainer needs on top of constraints.txt. Made by 'make lock'."
    added "$work/common" "$work/with-trainer"
} >constraints-trainer.txt
{
    echo "# What the launch cases need on top of those two. Made by 'make lock'."
    added "$work/with-trainer" "$work/with-conformance"
} >constraints-conformance.txt
