#!/usr/bin/env bash
# Boots a minimal Debian with a real systemd in which this checkout is installed as systemd/README.md says, and checks
# what is promised of `tower.service`: start, reload, restart, stop, crash, watchdog, credentials, hardening, power cut.
#
#   apt-get install mmdebstrap systemd-container
#   sudo tests/service/systemd_boot.sh [--suite trixie] [--cache FOLDER] [--keep]
#
# Prints a table, and exits with 1 when a check failed, with 2 when it could not be carried out. The first time it needs
# Debian's mirror; every time, PyPI. Nothing on this machine is changed; what it makes is in the cache and a temporary
# folder, which --keep leaves for a closer look.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$0")/common.sh"

suite=trixie cache=${XDG_CACHE_HOME:-/var/cache}/tower-checks keep=
words=("$@")
while [ $# -gt 0 ]; do
	case $1 in
		--suite) suite=$2 && shift 2 ;;
		--cache) cache=$2 && shift 2 ;;
		--keep) keep=1 && shift ;;
		*) die "cannot understand $1; the head of this script says what there is" ;;
	esac
done

need mmdebstrap systemd-nspawn unshare tar
own_cgroup "${words[@]}"
scratch=$(mktemp -d /var/tmp/tower-systemd.XXXXXX)
finish() {
	leave_cgroup
	if [ -n "$keep" ]; then echo "kept: $scratch" >&2; else rm -rf --one-file-system "$scratch"; fi
}
trap finish EXIT

root=$scratch/root results=$scratch/results
mkdir "$root" "$results" "$scratch/wheels"

# inside COMMAND: run it in the system that is not booted.
inside() {
	systemd-nspawn --quiet --register=no --keep-unit --pipe --directory="$root" --bind-ro="$scratch/wheels:/wheels" \
		--bind-ro="$CHECKOUT:/checkout" -- sh -ec "$1" < /dev/null
}

# Agents are node programs and compilers as well as Python and git; nodejs, gcc and bubblewrap are what they stand on.
debian "$cache/systemd-$suite.tar" "$suite" \
	"systemd,systemd-sysv,dbus,dbus-user-session,libpam-systemd,python3,python3-venv,git,gcc,libc6-dev,nodejs,bubblewrap,strace,procps"
tar -C "$root" -xf "$cache/systemd-$suite.tar"
# shellcheck disable=SC2016
wheels "$scratch/wheels" "$(inside 'python3 -c "import sys; print(*sys.version_info[:2], sep=\".\")"' | tr -d '\r')"

# As in systemd/README.md, with wheels in place of PyPI and an agent's user beside the tower's.
inside '
python3 -m venv /opt/tower && /opt/tower/bin/pip install --quiet --no-index --find-links /wheels layover-tower
ln -s /opt/tower/bin/tower /usr/local/bin/tower
useradd --system --create-home --home-dir /var/lib/tower-home --shell /usr/sbin/nologin tower
mkdir -p /etc/tower && cp -r /checkout/tests/service/factory/. /etc/tower/
sed -i "s|^work_dir = .*|work_dir = \"/srv/work\"|" /etc/tower/layover.toml
cp /checkout/systemd/tower.service /checkout/systemd/tower@.service /etc/systemd/system/
systemctl enable tower

git init --quiet /srv/work && chown -R tower: /srv/work
useradd --create-home somebody
install -d -o somebody -g somebody /home/somebody/.config /home/somebody/.config/tower /home/somebody/work
install -o somebody -g somebody /checkout/tests/service/factory/somebody.toml /home/somebody/.config/tower/layover.toml
install -D -m 0644 /checkout/systemd/user/tower.service /home/somebody/.config/systemd/user/tower.service
install -m 0644 /checkout/tests/service/checks.service /etc/systemd/system/checks.service
systemctl enable checks.service
' > "$scratch/install.log" 2>&1 || {
	cat "$scratch/install.log" >&2
	die "cannot install this checkout"
}

for boot in 1 2 3; do
	echo "$boot" > "$results/boot"
	timeout --kill-after=10 600 systemd-nspawn --quiet --register=no --keep-unit --private-network --boot \
		--system-call-filter="landlock_create_ruleset landlock_add_rule landlock_restrict_self memfd_secret @pkey" \
		--machine=tower-checks --directory="$root" --bind-ro="$HERE:/checks" --bind="$results:/results" \
		< /dev/null > "$scratch/console.$boot" 2>&1 || echo "boot $boot: systemd-nspawn ended with $?" >&2
	[ -e "$results/table.$boot" ] || {
		tail -n 30 "$scratch/console.$boot" >&2
		die "cannot tell anything: boot $boot did not come as far as the checks"
	}
done

version=$(inside 'systemctl --version | head -n 1' | tr -d '\r')
echo "Debian $suite, $version, Linux $(uname -r)"
verdict "$results"/table.[123]
