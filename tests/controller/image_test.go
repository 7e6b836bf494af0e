//go:build controller

package controller

import (
	"archive/tar"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/debian"
)

// suite is the first with a libc for the library that the agent needs.
const suite = "trixie"

// machinePackages are what a cloud's image has and Juju's agent expects.
const machinePackages = "systemd-sysv,systemd-resolved,udev,dbus,ca-certificates,cloud-init,netplan.io,openssh-server," +
	"iproute2,iptables,iputils-ping,nftables,isc-dhcp-client,netbase,adduser,sudo,cron,rsyslog,locales,lsb-release,apt-utils,gnupg," +
	"kmod,procps,curl,less,tmux,xz-utils,python3"

// furnish makes a machine's image of them, which is the operator's system, too:
// PostgreSQL, for an application with a database, and dqlite of sid (which a mirror may
// be behind with), for go-dqlite asks for a newer one than trixie's. Juju gives its
// logs to the user syslog. The machines can reach no source of packages.
const furnish = `export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
chmod 755 /usr/sbin/policy-rc.d
echo "deb [check-valid-until=no] $MIRROR sid main" >/etc/apt/sources.list.d/sid.list
printf 'Package: *\nPin: release n=sid\nPin-Priority: 1\n' >/etc/apt/preferences.d/sid
apt-get update -q
apt-get install -qy --no-install-recommends postgresql jq file libdqlite0/sid
systemctl disable postgresql
systemctl enable host-class
adduser --quiet --system --group --no-create-home syslog
apt-get clean
rm -rf /usr/sbin/policy-rc.d /etc/apt/sources.list /etc/apt/sources.list.d/sid.list /etc/apt/preferences.d/sid /var/lib/apt/lists/*_* \
	/usr/share/doc/* /usr/share/man/* /usr/share/locale/* /etc/ssh/ssh_host_* /etc/hostname
: >/etc/machine-id
ln -sfn ../run/systemd/resolve/stub-resolv.conf /etc/resolv.conf
`

func image() debian.System {
	return debian.System{Name: "controller", Suite: suite, Packages: machinePackages, Script: furnish, Tree: "testdata/image"}
}

// With this name Juju takes an image as it is and asks no list of images.
var imageAlias = "juju/ubuntu@24.04/" + runtime.GOARCH

// imageMetadata writes the tar that LXD wants beside the system's own.
func imageMetadata(t *testing.T, file string) {
	t.Helper()
	out, err := os.Create(file)
	require.NoError(t, err)
	w := tar.NewWriter(out)
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	for _, f := range [][2]string{
		{"metadata.yaml", "architecture: " + arch + "\ncreation_date: 1\nproperties: {os: ubuntu, release: noble}\n" +
			"templates: {/etc/hostname: {when: [create, copy], template: hostname.tpl}}\n"},
		{"templates/hostname.tpl", "{{ container.name }}\n"},
	} {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: f[0], Mode: 0o644, Size: int64(len(f[1])), Typeflag: tar.TypeReg}))
		_, err := w.Write([]byte(f[1]))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	require.NoError(t, out.Close())
}
