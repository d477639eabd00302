#!/bin/sh
# Builds both images for all platforms, pushes them with SBOM and provenance, and signs what was pushed: tools/release.sh PREFIX
#
#   PREFIX   the registry and folder, as in `ghcr.io/someone/`. You have to be logged in there.
#
# Needs docker with buildx, jq and cosign. cosign signs without a key, as whoever it finds: the workflow that runs this, or you
# in a browser; COSIGN_KEY=FILE signs with a key. DRY_RUN=1 says what it would do.
set -eu
prefix=${1:?tools/release.sh: say where to: tools/release.sh ghcr.io/someone/}
platforms=${PLATFORMS:-linux/amd64,linux/arm64}

run() {
    if [ "${DRY_RUN:-}" ]; then echo "$*"; else "$@"; fi
}

digest_of() { # what buildx has noted of the image that it has pushed
    if [ "${DRY_RUN:-}" ]; then echo "sha256:DIGEST"; else jq -er '."containerimage.digest"' "build/$1.json"; fi
}

for tool in docker jq cosign; do
    [ "${DRY_RUN:-}" ] || command -v "$tool" >/dev/null || { echo "tools/release.sh: $tool isn't installed; nothing was done" >&2; exit 1; }
done

run make image PLATFORMS="$platforms" PREFIX="$prefix" PUSH=yes
for name in rankfix rankfix-trainer; do
    # By digest: a tag could be another image by now. With --recursive the images of the platforms are signed, too
    run cosign sign --yes --recursive ${COSIGN_KEY:+--key "$COSIGN_KEY"} "$prefix$name@$(digest_of "$name")"
done
