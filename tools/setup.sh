#!/bin/sh
# Makes .venv, or brings it up to date: tools/setup.sh PYTHON VENV
# An existing .venv is kept when its Python is of the version asked for.
set -eu
python=$1 venv=$2

fail() {
    echo "make: $*" >&2
    exit 1
}

version_of() {
    "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null
}

wanted=$(version_of "$python") || fail "can't run '$python': name a Python 3.11, 3.12 or 3.13, as in 'make test PYTHON=python3.12'"
case $wanted in
3.11 | 3.12 | 3.13) ;;
*) fail "'$python' is Python $wanted, rankfix needs 3.11, 3.12 or 3.13: name one, as in 'make test PYTHON=python3.12'" ;;
esac

if [ "$(version_of "$venv/bin/python" || true)" != "$wanted" ]; then
    echo "make: creating $venv with Python $wanted" >&2
    "$python" -m venv --clear "$venv" || fail "'$python -m venv' failed (Debian and Ubuntu keep it in the package python3-venv)"
fi

echo "make: installing the versions of constraints.txt into $venv" >&2
"$venv/bin/python" -m pip install -qq --disable-pip-version-check --constraint constraints.txt --editable '.[dev]' ||
    fail "pip could not install the development set into $venv (its reason is above); nothing was run"
