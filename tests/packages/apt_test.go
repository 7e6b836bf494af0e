//go:build e2e

package packages

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// repositories are below /in. The unsigned one has no key.
const repositories = "apt"

// makeRepositories makes a signed repository of each version, and an unsigned one of the newer.
func makeRepositories(t *testing.T) {
	t.Helper()
	home := filepath.Join(t.TempDir(), "gpg")
	require.NoError(t, os.Mkdir(home, 0o700))
	env := append(os.Environ(), "GNUPGHOME="+home)
	run := func(name string, args ...string) {
		c := exec.Command(name, args...)
		c.Dir, c.Env = hosttest.Source(), env
		out, err := c.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	run("gpg", "--batch", "--passphrase", "", "--quick-generate-key", "operator@example.com", "ed25519", "sign", "never")
	t.Cleanup(func() { run("gpgconf", "--kill", "gpg-agent") })
	into := filepath.Join(built, repositories)
	run("make", "apt-repository", "PACKAGES="+built, "APT="+into+"/1.2.3", "SIGNING_KEY=operator@example.com")
	run("make", "apt-repository", "PACKAGES="+newer, "APT="+into+"/1.2.4", "SIGNING_KEY=operator@example.com")
	run("make", "apt-repository", "PACKAGES="+newer, "APT="+into+"/unsigned")
	run("make", "apt-repository", "PACKAGES="+newer, "APT="+into+"/again")
	run("diff", "-r", into+"/unsigned", into+"/again") // the same bytes
}

// The machine has no other repository, and one network: its own.
func TestAptInstallsAndUpgradesFromTheRepository(t *testing.T) {
	need(t)
	t.Parallel()
	makeRepositories(t)
	got := booted(t, "mi210x4", `
serve() { rm -rf /srv/apt && cp -r /in/apt/$1 /srv/apt; }
versions() { dpkg-query -W -f '${Package} ${Version} ${db:Status-Status}\n' concourse-ci-machine gpukit rocm-gpu-exporter >/out/$1; }
from() { printf 'Types: deb\nURIs: %s\nSuites: ./\n%s\n' "$1" "$2" >/etc/apt/sources.list.d/concourse-ci-machine.sources; }
key=/etc/apt/keyrings/concourse-ci-machine.asc
rm -f /etc/apt/sources.list
mkdir -p /etc/apt/keyrings
serve 1.2.3
cp /srv/apt/concourse-ci-machine.asc $key
busybox httpd -p 127.0.0.1:8080 -h /srv
from http://127.0.0.1:8080/apt "Signed-By: $key"
apt-get update >/out/update 2>&1
DEBIAN_FRONTEND=noninteractive apt-get install --yes concourse-ci-machine gpukit rocm-gpu-exporter >/out/install 2>&1
versions installed
systemctl disable --now gpukit-records
serve 1.2.4
apt-get update >>/out/update 2>&1
apt-get upgrade --yes >/out/upgrade 2>&1
versions upgraded
systemctl is-active gpukit-gpus gpukit-run.socket rocm-gpu-exporter gpukit-records >/out/active || true
sed -i 's/Size: /Size: 1/' /srv/apt/Packages; rm /srv/apt/Packages.gz; rm -rf /var/lib/apt/lists/*
! apt-get update >/out/changed 2>&1
serve unsigned
! apt-get update >/out/unsigned 2>&1
from file:/srv/apt 'Trusted: yes'
apt-get update >/out/trusted 2>&1
apt-get install --yes --reinstall rocm-gpu-exporter >>/out/trusted 2>&1
apt-get purge --yes concourse-ci-machine gpukit rocm-gpu-exporter >/out/purge 2>&1
systemctl list-units --all --plain --no-legend 'gpukit*' 'rocm-gpu*' 'concourse*' >/out/units
systemctl list-unit-files --plain --no-legend 'gpukit*' 'rocm-gpu*' 'concourse*' >>/out/units || true
find /run /etc /var/lib -path '*gpukit*' -o -path '*concourse*' -o -path '*rocm*' | grep -v -e ^/var/lib/apt/ -e ^/etc/apt/ >/out/left || true
`)
	require.NotContains(t, got["update"], "W:")
	require.Equal(t, "concourse-ci-machine 1.2.3 installed\ngpukit 1.2.3 installed\nrocm-gpu-exporter 1.2.3 installed\n",
		got["installed"], got["install"])
	require.Equal(t, "concourse-ci-machine 1.2.4 installed\ngpukit 1.2.4 installed\nrocm-gpu-exporter 1.2.4 installed\n",
		got["upgraded"], got["upgrade"])
	require.Equal(t, "active\nactive\nactive\ninactive\n", got["active"], "an upgrade keeps the choice")
	require.Contains(t, got["changed"], "File has unexpected size")
	require.Contains(t, got["unsigned"], "is not signed")
	require.Contains(t, got["trusted"], "Setting up rocm-gpu-exporter (1.2.4)")
	require.Empty(t, got["units"], got["purge"])
	require.Empty(t, got["left"], got["purge"])
}
