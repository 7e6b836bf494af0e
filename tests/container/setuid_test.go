//go:build e2e

package container

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/oci"
)

// runs is the user of a program that user 4242 of the unit starts.
func runs(t *testing.T, program string) string {
	t.Helper()
	c := exec.Command(program, "-u")
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 4242, Gid: 4242}}
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return strings.TrimSpace(string(out))
}

// In a task set-user-ID programs have no effect, but user 1000 of a task is user
// 1000 of the unit, and root of a privileged one is root.
func TestSetuidProgramThatATaskLeftDoesNothingOnTheUnit(t *testing.T) {
	for name, c := range map[string]struct {
		maps []idMap
		uid  int
		is   string
	}{"unprivileged": {concourse, 1000, "1000"}, "privileged": {nil, 0, "0"}} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, 0o660)
			b.maps = c.maps
			disk := b.path("disk") // of the unit, whatever this machine's /tmp is
			mount := func(dir string) {
				require.NoError(t, os.MkdirAll(dir, 0o755))
				require.NoError(t, syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=1777"))
			}
			mount(disk)
			t.Cleanup(func() { require.NoError(t, syscall.Unmount(disk, syscall.MNT_DETACH)) })
			srv, left := disk+"/srv", disk+"/srv/out_rw/id"
			require.NoError(t, os.MkdirAll(srv+"/out_rw", 0o755))
			require.NoError(t, os.Chmod(srv+"/out_rw", 0o777|os.ModeSticky))
			b.configure(oci.Config{Folders: &oci.Folders{Root: srv}})
			b.bundle()
			program, err := exec.LookPath("id")
			require.NoError(t, err)
			data, err := os.ReadFile(program)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(b.path("bundle/rootfs/scratch/id"), data, 0o755))
			b.start()
			b.write("process", process(c.uid, "busybox cp /scratch/id "+left+" && busybox chmod 6755 "+left+" && echo left: there\n"))
			require.Equal(t, "there", found(b.output(nil, "exec", "--process", b.path("process"), "--detach", b.id))["left"])
			require.Equal(t, c.is, runs(t, left), "the defect is not there to be mended")

			h := host.New("/")
			apply := func() (ops []string) {
				p, err := plan.Diff(context.Background(), h, resource.Nosuid{Dir: srv, Why: "of the test"})
				require.NoError(t, err)
				for _, s := range p {
					ops = append(ops, s.Op)
				}
				notes, err := p.Apply(context.Background(), nil)
				require.NoError(t, err)
				require.Empty(t, notes)
				return ops
			}
			require.Equal(t, []string{"mount " + srv + " on itself, nosuid,nodev"}, apply())
			require.Equal(t, "4242", runs(t, left))
			require.Empty(t, apply())
			mount(srv + "/later_rw")
			require.Equal(t, []string{"remount " + srv + "/later_rw nosuid,nodev"}, apply())
			require.Empty(t, apply())
			place, err := resource.HonoursSetuid("/", srv)
			require.NoError(t, err)
			require.Empty(t, place)
		})
	}
}
