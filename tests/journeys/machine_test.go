//go:build e2e

package journeys

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/onemachine"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/debian"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/guest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// address belongs to the machine, as do the addresses of the pages.
const address = "10.99.0.10"

// addresses lists the machine's addresses in the pages' examples.
var addresses = []string{"192.168.1.20", "10.0.0.10", "10.0.0.11"}

// machine runs a throwaway machine of a person with the name me.
type machine struct {
	*guest.Guest
	t *testing.T
}

// person makes the user of the pages, with the folders that they work in.
const person = `useradd --create-home --shell /bin/bash --groups sudo,adm,docker me
echo 'me ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/me
echo '127.0.1.1 ryzen' >>/etc/hosts
chmod 666 /dev/pts/ptmx
mkdir /dev/net && mknod -m 666 /dev/net/tun c 10 200
for a in ` + "%s" + `; do ip address add $a/32 dev lo; done
cp -a /source /home/me/concourse-ci-machine
mkdir -p /home/me/dist/packages /home/me/concourse-ci-machine/dist/packages
cp %s/packages/*.deb /home/me/dist/packages
cp /home/me/dist/packages/*.deb /home/me/concourse-ci-machine/dist/packages
chown -R me:me /home/me
`

// newMachine boots a machine with two stand-in GPUs and the packages in the person's home.
func newMachine(t *testing.T) *machine {
	t.Helper()
	dir := filepath.Join(built, "ryzen")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "root"), 0o755))
	m := &machine{t: t, Guest: &guest.Guest{Dir: dir, Root: host.Root(filepath.Join(dir, "root")),
		Lower: filepath.Join(built, "debian"), Groups: groups, Address: address, Shared: []string{built}}}
	require.NoError(t, m.CopyHost(filepath.Join(hosttest.HostsDir(), "mi210x4"), "ryzen"))
	t.Cleanup(func() { require.NoError(t, m.Unmount()) })
	require.NoError(t, m.MakeRoot())
	debs, err := debian.Repository(t.Context())
	require.NoError(t, err)
	require.NoError(t, m.AddRepository(t.Context(), debs))
	for _, name := range []string{"pipelines", "scripts", "src/prometheus_alert_rules", "src/grafana_dashboards"} {
		require.NoError(t, os.CopyFS(m.Root.Path("/source/"+name), os.DirFS(filepath.Join(hosttest.Source(), name))))
	}
	require.NoError(t, m.Root.WriteFile(onemachine.OptionsFile, []byte(m.mirror()), 0o600))
	var log strings.Builder
	m.Log = &log
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := m.Run("systemctl --failed --no-legend; journalctl --quiet --lines=60 --output=short-monotonic")
			t.Logf("%s\n%s", log.String(), out)
		}
		m.Kill()
	})
	require.NoError(t, m.Boot(t.Context()))
	require.NoError(t, m.Root.WriteFile("/usr/local/bin/juju", []byte(juju), 0o755))
	m.must(fmt.Sprintf(person, strings.Join(addresses, " "), built))
	return m
}

// mirror serves the releases, and returns the options with which the machine downloads it.
// The machine has no other network.
func (m *machine) mirror() string {
	m.t.Helper()
	server := &http.Server{Addr: guest.Gateway + ":8099",
		Handler: http.FileServer(http.Dir(filepath.Join(built, "mirror")))}
	go server.ListenAndServe() // until it is closed
	m.t.Cleanup(func() { require.NoError(m.t, server.Close()) })
	return fmt.Sprintf("release-mirror: http://%s\namd-container-toolkit: skip\n", server.Addr)
}

// must runs a shell line as root, which must succeed.
func (m *machine) must(line string) string {
	m.t.Helper()
	out, err := m.Run(line)
	require.NoError(m.t, err, "%s: %s", line, out)
	return out
}
