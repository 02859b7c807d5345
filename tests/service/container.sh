#!/usr/bin/env bash
# Builds the image of this checkout with podman and checks what is promised of it: three ways of being started, zombies,
# a read-only root, a user without a name, health, an orderly stop within ten seconds, and what the next start makes of it.
#
#   apt-get install mmdebstrap podman crun catatonit
#   sudo tests/service/container.sh [--base IMAGE | --suite trixie] [--cache FOLDER] [--keep]
#
# Without --base no registry of images is asked: the base is a minimal Debian with Python. Prints a table, and exits with
# 1 when a check failed, with 2 when it could not be carried out. Images and containers are in a store of their own.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$0")/common.sh"

suite=trixie cache=${XDG_CACHE_HOME:-/var/cache}/tower-checks base='' keep=
while [ $# -gt 0 ]; do
	case $1 in
		--base) base=$2 && shift 2 ;;
		--suite) suite=$2 && shift 2 ;;
		--cache) cache=$2 && shift 2 ;;
		--keep) keep=1 && shift ;;
		*) die "cannot understand $1; the head of this script says what there is" ;;
	esac
done

need mmdebstrap podman git
scratch=$(mktemp -d /var/tmp/tower-container.XXXXXX)
# Health is asked for by the checks themselves, also where no systemd could run a timer for it.
export DISABLE_HC_SYSTEMD=true
engine=(podman --root "$scratch/store" --runroot "$scratch/run" --cgroup-manager cgroupfs --events-backend file --log-level error)
finish() {
	"${engine[@]}" rm --all --force --time 0 > /dev/null 2>&1 || true
	if [ -n "$keep" ]; then
		echo "kept: $scratch" >&2
	else
		umount "$scratch/store/overlay" 2> /dev/null || true
		rm -rf --one-file-system "$scratch"
	fi
}
trap finish EXIT

if [ -z "$base" ]; then
	base=localhost/python-on-debian:$suite
	# shellcheck disable=SC2016
	debian "$cache/python-$suite.tar" "$suite" python3,python3-venv,ca-certificates \
		--customize-hook='ln -s /usr/bin/python3 "$1/usr/local/bin/python"'
	"${engine[@]}" import --quiet "$cache/python-$suite.tar" "$base" > /dev/null
fi

# The engine's own limits may be above what this machine gives to root. And not every runtime can do with every machine's
# control groups (crun refuses a mix of both versions); what is checked here needs none.
files=$(ulimit -Hn)
limits=(--ulimit "nofile=$files:$files" --ulimit nproc=4096:4096)
plain=("${engine[@]}") said=
for attempt in "" "--runtime=runc" "--cgroups=disabled"; do
	engine=("${plain[@]}") how=("${limits[@]}")
	case $attempt in
		--runtime=*) engine+=("$attempt") ;;
		?*) how+=("$attempt") ;;
	esac
	said=$("${engine[@]}" run --rm --network none "${how[@]}" "$base" python -c \
		'import sys; print(*sys.version_info[:2], sep=".")' 2>&1) && break
	said="cannot run a container here: $said"
done
case $said in cannot*) die "$said" ;; esac

# What pip needs comes from a folder, so that the image can be built where only this machine knows the way to PyPI.
mkdir "$scratch/wheels"
wheels "$scratch/wheels" "$said"
"$PYTHON" -m pip download --quiet --dest "$scratch/wheels" --only-binary=:all: --python-version "$said" hatchling 2> /dev/null ||
	die "cannot download hatchling"
printf '[global]\nno-index = true\nfind-links = /wheels\n' > "$scratch/pip.conf"

# The format of docker keeps HEALTHCHECK, which that of OCI has no place for.
build=("${engine[@]}" build --quiet --format docker --network host --build-arg "BASE=$base" --tag localhost/tower
	--volume "$scratch/wheels:/wheels:ro" --volume "$scratch/pip.conf:/etc/pip.conf:ro" "${limits[@]}")
"${build[@]}" "$CHECKOUT" > "$scratch/build.log" 2>&1 || "${build[@]}" --isolation chroot "$CHECKOUT" >> "$scratch/build.log" 2>&1 || {
	tail -n 40 "$scratch/build.log" >&2
	die "cannot build the image"
}

echo "$("${engine[@]}" --version), base $base, $("${engine[@]}" images --format '{{.Size}}' localhost/tower), Linux $(uname -r)"
# Nothing on this machine asks the way to a tower for these checks.
env -u TOWER_SOCKET "$PYTHON" -B "$HERE/container_checks.py" "$scratch/table" "$scratch" "${how[*]}" -- "${engine[@]}" ||
	echo "the checks ended with $?" >&2
verdict "$scratch/table"
