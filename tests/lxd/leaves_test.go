//go:build e2e

package lxd

import (
	"os"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/tests/lxdhost"
)

// reboots starts the container again and goes on as Juju's agent does.
func (u *unit) reboots(t *testing.T) {
	u.d.Sub(t, "after a reboot systemd brings all up by itself, and a task has the GPU", func(t *testing.T) {
		kept := u.agent.last.Kept
		u.agent.stop()
		u.d.Run("", "lxc", "restart", u.name)
		u.up()
		u.eventually(func() bool { return len(u.active(worker, pebble, refresh)) == 3 }, "the units of systemd")
		u.eventually(func() bool { return strings.Contains(u.get(9401, "/metrics"), lxdhost.AMDPCI) }, "the exporter")
		u.startAgent(kept)
		u.hook("start")
		u.settled()
		u.opened(t, "rebooted")
	})
}

// files lists what a unit has on its disk: "type mode owner group path target",
// with the checksums of the files in /etc. What programs keep for themselves and
// what other subjects of the tests leave there does not count.
func (u *unit) files() []string {
	u.d.T.Helper()
	const skip = `-path /proc -o -path /sys -o -path /dev -o -path /run -o -path /tmp -o -path /opt/parts -o -path /var/lib/juju -o -path /var/log ` +
		`-o -path /var/cache -o -path /var/lib/apt -o -path /var/lib/dpkg -o -path /var/lib/systemd -o -path /var/tmp -o -path /var/lib/test-tasks`
	out := u.must(`find / \( ` + skip + ` \) -prune -o -printf '%y %m %U %G %p %l\n'; find /etc -type f -exec sha256sum {} +`)
	lines := strings.Split(out, "\n")
	sort.Strings(lines)
	return lines
}

// documented reports whether docs/reference/files.md reports that a path outlives the unit.
func documented(t *testing.T, path string) bool {
	t.Helper()
	page, err := os.ReadFile("../../docs/reference/files.md")
	require.NoError(t, err)
	for line := range strings.Lines(string(page)) {
		paths, isRow := strings.CutPrefix(strings.Split(line, " (")[0], "- ")
		if !isRow || !strings.HasSuffix(line, "; never removed\n") {
			continue
		}
		for stays := range strings.SplitSeq(paths, "<br>") {
			stays = strings.Trim(stays, "`")
			if path == stays || stays == "/var/lib/concourse" && strings.HasPrefix(path, stays+"/") {
				return true
			}
		}
	}
	return false
}

// leaves is the end of the unit.
func (u *unit) leaves(t *testing.T, before []string) {
	u.d.Sub(t, "stop ends what runs, a task that does not end in time too", func(t *testing.T) {
		out, err := u.ctr("run --detach", "endless", "exec busybox sleep 1000", nil)
		require.NoError(t, err, out)
		require.Contains(t, u.must("cat /proc/[0-9]*/cmdline | tr '\\0' ' '"), "busybox sleep 1000")
		u.hook("stop")
		require.Empty(t, u.active(worker, pebble, refresh))
		require.NotContains(t, u.must("cat /proc/[0-9]*/cmdline | tr '\\0' ' '"), "busybox sleep 1000")
		require.Empty(t, u.must("for p in /proc/[0-9]*; do readlink $p/exe; done | { grep -e concourse -e containerd -e pebble -e exporter || [ $? = 1 ]; }"), "programs")
	})
	u.d.Sub(t, "remove leaves nothing but what the documentation says", func(t *testing.T) {
		u.hook("remove")
		had := map[string]bool{}
		for _, line := range before {
			had[line] = true
		}
		var more []string
		for _, line := range u.files() {
			path, _, _ := strings.Cut(line[strings.Index(line, "/"):], " ")
			if !had[line] && !documented(t, path) {
				more = append(more, line)
			}
			delete(had, line)
		}
		require.Empty(t, more, "left behind")
		require.Empty(t, had, "taken away")
		require.NotContains(t, u.must("dpkg-query -W"), toolkit)
	})
}
