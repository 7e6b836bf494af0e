#!/bin/sh
# Installs the packages that tests/ need under `make e2e`, and those of E2E_MORE,
# where they are missing. With the argument "without" it installs nothing and prints, comma
# separated, those that are not there, for the tests to give as their reason.
set -eu
# Programs that may have come with another package, and the package to get.
programs="runc:runc containerd:containerd ctr:containerd gcc:gcc dnsmasq:dnsmasq-base unshare:util-linux ip:iproute2 iptables:iptables promtool:prometheus chromium:chromium haproxy:haproxy systemd-analyze:systemd debootstrap:debootstrap gpg:gpg jq:jq shellcheck:shellcheck dockerd:docker.io podman:podman crun:crun newuidmap:uidmap mkdocs:mkdocs rocm-smi:rocm-smi twine:twine wine:wine lintian:lintian"
# Packages that must be these: a busybox may be a dynamic one, and a program
# lxd one that fetches a snap.
packages="busybox-static libc6-dev lxd lxd-client mkdocs-material postgresql wine64"
snaps=
if grep -qs '^ID=ubuntu$' /etc/os-release; then
	packages="busybox-static libc6-dev mkdocs-material postgresql wine64"
	snaps=lxd
fi

packages="$packages ${E2E_MORE:-}"

installed() {
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

missing() {
	for n in $programs; do
		# sbin, which a user's PATH may lack, counts
		PATH=$PATH:/usr/sbin:/sbin command -v "${n%%:*}" >/dev/null || echo "${n#*:}"
	done
	for p in $packages; do installed "$p" || echo "$p"; done
}

candidate() {
	apt-cache policy "$1" | awk '$1 == "Candidate:" && $2 != "(none)" { found = 1 } END { exit !found }'
}

# From Debian 13 on docker.io has no client.
if candidate docker-cli; then programs="$programs docker:docker-cli"; fi

if [ "${1:-}" = without ]; then
	{ missing; echo "$snaps"; } | sed '/^$/d' | paste -sd, -
	exit 0
fi
if [ "$(id -u)" != 0 ]; then
	echo "These tests need root. Run: sudo env \"PATH=\$PATH\" make e2e" >&2
	exit 1
fi
[ -z "$snaps" ] || echo "Left out: Ubuntu has $snaps as a snap only, which can't run privately beside another." >&2
absent=$(missing)
[ -n "$absent" ] || exit 0
if ! command -v apt-get >/dev/null; then
	echo "Install by hand, there is no apt-get here: $absent" >&2
	exit 1
fi
[ "${APT_UPDATED:-}" = 1 ] || apt-get update -q
get=
for p in $absent; do
	if candidate "$p"; then get="$get $p"; else echo "Left out: this release has no package $p." >&2; fi
done
[ -n "$get" ] || exit 0
# shellcheck disable=SC2086 # a list of names
DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends -o DPkg::Lock::Timeout=600 $get
