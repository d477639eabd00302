#!/bin/sh
# Runs a command with a Docker engine: tools/engine.sh COMMAND...
#
# With the one that answers already (DOCKER_HOST, or the usual socket); else with one that is started for the command in a folder
# of its own, and gone afterwards; else, where there is none to start, without, and says why.
set -eu

answers() {
    docker version >/dev/null 2>&1
}

without() {
    why=$1
    shift
    echo "engine: $why" >&2
    exec "$@"
}

if answers; then exec "$@"; fi
if ! command -v docker >/dev/null || ! command -v dockerd >/dev/null; then without "no Docker here (Debian: docker.io, containerd, runc, iptables)" "$@"; fi
if [ "$(id -u)" != 0 ]; then without "no Docker engine answers, and only root can start one" "$@"; fi

folder=$(mktemp -d)
DOCKER_HOST=unix://$folder/sock
export DOCKER_HOST
# No bridge for all, and no forwarding to other networks, which would stay behind with its policies. Addresses that docker doesn't
# take by itself: the bridge of an engine that was here before may still hold those.
dockerd --data-root "$folder/data" --exec-root "$folder/exec" --pidfile "$folder/pid" --host "$DOCKER_HOST" \
    --bridge=none --ip-forward=false --default-address-pool base=10.213.0.0/16,size=24 --log-level=warn >"$folder/log" 2>&1 &
engine=$!

end() { # containers and networks first: their namespaces and bridges would outlive the engine
    docker ps --all --quiet 2>/dev/null | xargs -r docker rm --force >/dev/null 2>&1 || true
    docker network prune --force >/dev/null 2>&1 || true
    kill "$engine" 2>/dev/null || true
    wait "$engine" 2>/dev/null || true
    rm -rf "$folder"
}
trap end EXIT
trap 'exit 143' TERM INT

tries=0
until answers; do
    tries=$((tries + 1))
    if [ "$tries" -gt 150 ] || ! kill -0 "$engine" 2>/dev/null; then
        tail -n 5 "$folder/log" >&2
        end
        trap - EXIT
        unset DOCKER_HOST
        without "dockerd doesn't come up (its last words are above)" "$@"
    fi
    sleep 0.2
done
echo "engine: dockerd $(docker version --format '{{.Server.Version}}') started" >&2
"$@"
