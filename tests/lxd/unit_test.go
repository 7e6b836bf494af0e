//go:build e2e

package lxd

import (
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/tests/lxdhost"
)

// unit is a container that Juju would make for a unit of the charm.
type unit struct {
	d       *lxdhost.Host
	name    string // of the container
	parts   string // what it sees as /opt/parts
	level   string // the host's file that fixes the GPU's clocks
	options map[string]any
	agent   *agent
}

// must runs a shell line in the unit, which must succeed.
func (u *unit) must(line string) string {
	u.d.T.Helper()
	out, err := u.d.Inside(u.name, line)
	require.NoError(u.d.T, err, "%s: %s", line, out)
	return out
}

// device runs lxc config device for the unit's container.
func (u *unit) device(words ...string) {
	u.d.T.Helper()
	argv := append([]string{"lxc", "config", "device", words[0], u.name}, words[1:]...)
	u.d.Run("", argv...)
}

// up waits until systemd has started all that it must.
func (u *unit) up() {
	u.d.T.Helper()
	u.eventually(func() bool {
		state, _ := u.d.Inside(u.name, "systemctl is-system-running --wait") // it fails until systemd answers
		return state == "running"
	}, "systemd is not up")
	u.must(showDrivers)
}

// showDrivers shows the fixture's list of drivers to services that look at GPUs and have a
// protected hostname: systemd mounts a separate proc for them, with the kernel's list.
const showDrivers = `cp /proc/devices /opt/fixture-devices
for s in concourse-cdi-refresh concourse-gpu-device-plugin concourse-gpu-dra-driver concourse-pebble concourse-task-recorder; do
	mkdir -p /etc/systemd/system/$s.service.d
	printf '[Service]\nBindReadOnlyPaths=/opt/fixture-devices:/proc/devices\n' >/etc/systemd/system/$s.service.d/fixture.conf
done
systemctl daemon-reload`

// failed lists the units of systemd that failed.
func (u *unit) failed() string {
	out, _ := u.d.Inside(u.name, "systemctl --failed --no-legend")
	return out
}

// nodes are the GPUs' nodes in the unit: "/dev/kfd 10:235 0:44".
func (u *unit) nodes() []string {
	u.d.T.Helper()
	return strings.Fields(u.must("for f in /dev/dri/* /dev/kfd; do if [ -e $f ]; then echo $f; fi; done"))
}

// active are the running units of systemd.
func (u *unit) active(names ...string) (run []string) {
	for _, name := range names {
		if out, _ := u.d.Inside(u.name, "systemctl is-active "+name); out == "active" {
			run = append(run, name)
		}
	}
	return run
}

// eventually waits until something is so, asking in the test's own goroutine.
func (u *unit) eventually(is func() bool, why string) {
	u.d.T.Helper()
	for end := time.Now().Add(lxdhost.Patience); !is(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			failed := u.failed()
			require.Fail(u.d.T, why, "not so within %s; failed: %s; the unit's last status: %s", lxdhost.Patience, failed, u.said())
		}
	}
}

// said is the unit's last status.
func (u *unit) said() string {
	if u.agent == nil {
		return "none"
	}
	return u.agent.last.status()
}
