//go:build e2e

package concourse

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
)

// The disk of the volumes is a file system of 2 GiB. While it is full, which it is before
// its last byte, steps wait for space, and the status names it from the next hook on.
func TestStepsWaitForAFullDisk(t *testing.T) {
	tgz := releaseTarball(t)
	s := &story{t: t, begun: time.Now(), pg: startPostgres(t), home: t.TempDir(), tags: []string{"gpu"}}
	s.app = newApp(t, tgz, map[string]any{"mode": "auto", "compute-runtime": "auto", "amd-container-toolkit": "skip"}, "no-gpu", "mi210x4")
	u := s.app.units[1]
	for _, u := range s.app.units {
		require.NoError(t, u.Root.WriteFile(concourse.OperatorEnvFile, []byte(impatient), 0o644))
		require.NoError(t, u.Root.MkdirAll("/srv/out_rw", 0o755))
		require.NoError(t, os.Chmod(u.Root.Path("/srv/out_rw"), 0o777))
	}
	const volumes = "/var/lib/concourse/worker"
	u.must("mkdir -p " + volumes + " && mount -t tmpfs -o size=2g scarce " + volumes)
	s.app.begin()
	s.app.relate(s.pg)
	s.app.relation(s.web(), "postgresql", "changed", "postgresql/0")
	s.registers()
	s.app.gossip()
	s.logsIn()
	out, err := s.execute("true")
	require.NoError(t, err, out)
	s.app.hook(u, "update-status")
	require.Contains(t, u.status(), "active: ")

	// What a step copies fits into 62 MiB.
	u.must("fallocate -l $(( $(df --output=avail -B1 " + volumes + " | tail -n1) - (62 << 20) )) " + volumes + "/fill")
	var builds []*oneBuild
	for _, name := range []string{"a", "b"} {
		builds = append(builds, s.begins(name, "echo ran"))
	}
	s.app.hook(u, "update-status")
	require.Contains(t, u.status(), "blocked: disk full: no space for "+volumes+" on scarce")
	r, err := u.act("check-status", nil)
	u.fine("check-status", r, err)
	require.Equal(t, "failed", r.Action.Status)
	require.Contains(t, r.Action.Message, "disk: disk full: no space for "+volumes+" on scarce: new steps wait 45 s; Concourse then")
	logs := func(b *oneBuild, text string) bool {
		data, err := os.ReadFile(b.log)
		require.NoError(t, err)
		return strings.Contains(string(data), text)
	}
	for _, b := range builds {
		until(t, func() bool { return logs(b, "free space has disappeared") }, b.name)
	}

	u.must("rm " + volumes + "/fill")
	for _, b := range builds {
		<-b.done
		require.NoError(t, b.err, b.out)
		require.Contains(t, b.out, "ran")
	}
	s.app.hook(u, "update-status")
	require.Contains(t, u.status(), "active: ")

	// Without any space Concourse makes no volume, before it makes a container.
	u.must("dd if=/dev/zero of=" + volumes + "/fill bs=1M status=none; true")
	s.app.hook(u, "update-status")
	require.Contains(t, u.status(), "blocked: disk full: no space for "+volumes+" on scarce")
	out, err = s.execute("true")
	t.Logf("with no byte: %v: %s", err, out)
	require.Error(t, err)
	u.must("rm " + volumes + "/fill")
	out, err = s.execute("true")
	require.NoError(t, err, out)
	s.app.hook(u, "update-status")
	require.Contains(t, u.status(), "active: ")
}
