# shellcheck shell=bash
# What the checks of the service and of the image share: a cached Debian, the wheels, and control groups v2.

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
CHECKOUT=$(cd "$HERE/../.." && pwd)
PYTHON=${PYTHON:-python3}

die() {
	echo "$(basename "$0"): $*" >&2
	exit 2
}

need() {
	[ "$(id -u)" = 0 ] || die "cannot check this as another user than root"
	for program in "$@"; do
		command -v "$program" > /dev/null || die "cannot find $program; the head of this script says what to install"
	done
	"$PYTHON" -m pip --version > /dev/null 2>&1 || die "cannot use pip of $PYTHON; name another one: PYTHON=/path/to/python"
}

# Control groups v2 at /sys/fs/cgroup, in this mount namespace alone, where the machine has them elsewhere or not at all;
# and a group of our own, since one with processes in it can hold no groups with controllers.
own_cgroup() {
	if [ "$(stat -f -c %T /sys/fs/cgroup)" != cgroup2fs ]; then
		if [ -z "${TOWER_CHECKS_UNSHARED:-}" ]; then
			TOWER_CHECKS_UNSHARED=1 exec unshare --mount --propagation private "$0" "$@"
		fi
		umount -R /sys/fs/cgroup || die "cannot put control groups v2 in the place of version 1"
		mount -t cgroup2 none /sys/fs/cgroup || die "cannot mount control groups v2"
	elif [ -d /run/systemd/system ] && [ -z "${TOWER_CHECKS_SCOPE:-}" ]; then
		# systemd owns the groups of this machine: ask it for one.
		TOWER_CHECKS_SCOPE=1 exec systemd-run --quiet --scope --property=Delegate=yes "$0" "$@"
	fi
	[ -n "${TOWER_CHECKS_SCOPE:-}" ] && return
	OWN_CGROUP=/sys/fs/cgroup/tower-checks-$$
	mkdir "$OWN_CGROUP" && echo $$ > "$OWN_CGROUP/cgroup.procs"
}

leave_cgroup() {
	[ -n "${OWN_CGROUP:-}" ] || return 0
	echo $$ > /sys/fs/cgroup/cgroup.procs
	find "$OWN_CGROUP" -depth -type d -exec rmdir {} + 2> /dev/null || true
}

# debian TARBALL SUITE PACKAGES [OPTION]...: a minimal Debian, made once.
debian() {
	[ -e "$1" ] && return
	echo "making $1 (once; needs Debian's mirror)" >&2
	mkdir -p "$(dirname "$1")"
	mmdebstrap --quiet --variant=minbase --include="$3" "${@:4}" "$2" "$1.part.tar" || die "cannot make a Debian $2"
	mv "$1.part.tar" "$1"
}

# wheels FOLDER VERSION: this checkout and what it needs, for that Python; nothing is installed here.
wheels() {
	"$PYTHON" -m pip wheel --quiet --no-deps --wheel-dir "$1" "$CHECKOUT" || die "cannot build the wheel"
	"$PYTHON" -m pip download --quiet --dest "$1" --only-binary=:all: --python-version "$2" "$1"/layover_tower-*.whl \
		2> "$1/pip.log" || {
		cat "$1/pip.log" >&2
		die "cannot download what it needs"
	}
	rm "$1/pip.log"
}

# verdict TABLE...: print the tables; false unless each is whole and without a failure.
verdict() {
	cat "$@" | grep -v '^-- '
	for table in "$@"; do
		grep -q '^-- all checks' "$table" || die "cannot tell the rest: the checks have died on the way ($table)"
	done
	if grep -q '^FAILED' "$@"; then
		echo "$(cat "$@" | grep -c '^FAILED') of $(cat "$@" | grep -cE '^(ok|FAILED) ') checks FAILED"
		return 1
	fi
	echo "all $(cat "$@" | grep -c '^ok ') checks ok"
}
