#!/bin/sh
# Makes a base for the images where no registry can be reached: tools/image_base.sh build|run TAG
#
#   build   a small Debian or Ubuntu with a shell, Python and venv
#   run     Python and the libraries it needs, and nothing else: no shell, no package manager
#
# It is of this machine's own release and from its own package sources, of which nothing stays in the image. The packed system is
# kept for a week in RANKFIX_CACHE (~/.cache/rankfix). Needs mmdebstrap, a Docker engine, and to be root.
set -eu
kind=$1 tag=$2
cache=${RANKFIX_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/rankfix}

fail() {
    echo "image_base: $*" >&2
    exit 1
}

sources() { # the distribution's own list, whatever else this machine installs from
    for list in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list.d/ubuntu.sources /etc/apt/sources.list; do
        if [ -s "$list" ]; then
            echo "$list"
            return
        fi
    done
    fail "this machine has no Debian or Ubuntu package sources; name a base that the engine has: make image BASE=IMAGE"
}

python_of() { # python3.11, as this release calls it
    apt-cache depends python3-minimal 2>/dev/null | sed -n 's/.*Depends: \(python3\.[0-9]*\)-minimal$/\1/p' | head -n 1
}

bootstrap() { # bootstrap TAR OPTION...
    tar=$1
    shift
    # One date for all files, so that the same packages are the same image
    SOURCE_DATE_EPOCH=315532800 mmdebstrap --quiet --mode=root --format=tar "$@" \
        --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/info/*' \
        --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
        "$VERSION_CODENAME" "$tar" "$(sources)"
}

make_build() {
    bootstrap "$1" --variant=minbase --include=python3-minimal,python3-venv \
        --customize-hook='rm -rf "$1"/etc/apt/sources.list* "$1"/etc/resolv.conf "$1"/etc/hostname "$1"/var/log/*'
}

make_run() { # nothing is configured, since that would need a shell: what a package would set up is a link, two users and a folder
    bootstrap "$1" --variant=extract --skip=cleanup/apt --include="$python-minimal,lib$python-stdlib" \
        --extract-hook='cd "$1" && rm -rf bin sbin usr/bin/dpkg* usr/bin/update-alternatives usr/sbin usr/libexec usr/lib/dpkg lib/systemd' \
        --extract-hook='cd "$1" && find etc -mindepth 1 -maxdepth 1 ! -name apt -exec rm -rf {} +' \
        --extract-hook='cd "$1" && rm -rf etc/apt/sources.list* var usr/share/dpkg usr/share/lintian usr/share/bug usr/share/polkit-1 usr/share/binfmts' \
        --extract-hook="ln -s $python \"\$1\"/usr/bin/python3" \
        --extract-hook='mkdir -p "$1"/opt "$1"/tmp "$1"/var/tmp && chmod 1777 "$1"/tmp "$1"/var/tmp' \
        --extract-hook='printf "root:x:0:0:root:/:/nologin\nnonroot:x:65532:65532:nonroot:/:/nologin\n" >"$1"/etc/passwd' \
        --extract-hook='printf "root:x:0:\nnonroot:x:65532:\n" >"$1"/etc/group'
}

command -v mmdebstrap >/dev/null || fail "mmdebstrap isn't installed; install it, or name a base that the engine has: make image BASE=IMAGE"
. /etc/os-release
python=$(python_of)
[ -n "$python" ] || fail "apt knows no python3-minimal: run apt-get update first"

mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9 # one at a time: two images are built side by side
# The name has what is made how, so that another way of making it is another file
packed=$cache/base-$kind-$VERSION_CODENAME-$(cksum <"$0" | cut -d ' ' -f 1).tar
if [ -z "$(find "$packed" -newermt '7 days ago' 2>/dev/null)" ]; then
    echo "image_base: making $packed" >&2
    trap 'rm -f "$packed.$$"' EXIT
    "make_$kind" "$packed.$$"
    rm -f "$cache/base-$kind"-*.tar
    mv "$packed.$$" "$packed"
fi
made=$(stat -c %Y "$packed")
if [ "$(docker image inspect --format '{{index .Config.Labels "rankfix.made"}}' "$tag" 2>/dev/null)" != "$made" ]; then
    docker import --change "LABEL rankfix.made=$made" "$packed" "$tag" >/dev/null
fi
