#!/bin/sh
# Adds torch for the trainer's tests: tools/torch.sh PYTHON auto|yes|no
# auto asks pip first what it would take, and leaves torch out where that is nothing, or a CUDA build of several GB.
set -eu
python=$1 mode=$2

trainer() {
    "$python" -m pip install -qq --disable-pip-version-check \
        --constraint constraints.txt --constraint constraints-trainer.txt "$@" --editable '.[trainer,plot]'
}

without() {
    echo "make: $*; the trainer's tests will be skipped ('make test TORCH=yes' insists)" >&2
    exit 0
}

case $mode in
no) exit 0 ;;
yes) ;;
auto)
    plan=$(mktemp)
    trap 'rm -f "$plan"' EXIT
    trainer --dry-run --report "$plan" 2>/dev/null || without "there is no torch for this Python here"
    if grep -q '"name": "nvidia-' "$plan"; then without "torch comes as a CUDA build here"; fi
    ;;
*)
    echo "make: TORCH=$mode: auto, yes or no" >&2
    exit 2
    ;;
esac
echo "make: installing torch" >&2
trainer || {
    echo "make: pip could not install torch (its reason is above); 'make test TORCH=no' goes without" >&2
    exit 1
}
