//go:build e2e

package container

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/oci"
	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

// givenHostile puts the program hostile into the container's root.
func (b *bed) givenHostile() {
	b.t.Helper()
	data, err := os.ReadFile(filepath.Join(os.Getenv(insideEnv), "hostile"))
	require.NoError(b.t, err)
	require.NoError(b.t, os.WriteFile(b.path("bundle/rootfs/bin/hostile"), data, 0o755))
}

// A privileged task of a machine is root of it: as docs/explanation/security.md has it, no
// rule of a control group holds it, with cgroup v2 no cgroup namespace would, and the
// kernel takes its word for what to run outside of the container. What it does changes no
// lease.
func TestPrivilegedTaskOfAMachineOpensTheGPUOfAnother(t *testing.T) {
	need(t)
	attacks := map[string]map[string]string{
		"v1": {
			"leaves its group": away,
			"changes the rules of its group": `busybox mkdir /cg; busybox mount -t cgroup -o devices none /cg
echo a > /cg$(busybox sed -n 's/^[0-9]*:devices://p' /proc/self/cgroup)/devices.allow
`,
		},
		"v2": {
			"leaves its group":               away,
			"changes the rules of its group": "hostile detach\n",
		},
	}
	numbers, err := suite.Minors()
	require.NoError(t, err)
	onEachCgroup(t, func(t *testing.T, cgroups string) {
		for version, runc := range runcs(t) {
			for name, attack := range attacks[cgroups] {
				t.Run(name+", runc "+version, func(t *testing.T) {
					u := newUnit(t, 2)
					other := u.container(settings[0], "AMD_VISIBLE_DEVICES=1")
					other.bundle()
					require.NoError(t, other.up())
					u.fifo(other.id)
					require.NoError(t, other.run(task))
					require.Equal(t, []string{"+", other.id, "129"}, u.event())

					b := u.container(settings[0], "AMD_VISIBLE_DEVICES=0")
					b.use(runc)
					b.bundle()
					b.givenHostile()
					require.NoError(t, b.up())
					word := u.fifo(b.id)
					privilegedTask(b, fmt.Sprintf(`opens() { if e=$( { : <>/tmp/other; } 2>&1); then echo opens; else echo "${e##*: }"; fi; }
busybox mknod /tmp/other c 10 %d; opens > /events/all
%sopens > /events/all; exec 3<>/tmp/other
f=/proc/sys/kernel/core_pattern; was=$(busybox cat $f); echo "$was" > $f && echo core_pattern > /events/all
read word < /events/$TASK
`, numbers["/dev/dri/renderD129"], attack))
					require.NoError(t, b.runExec())
					require.Equal(t, "Operation not permitted", strings.Join(u.event(), " "))
					require.Equal(t, []string{"opens"}, u.event())
					require.Equal(t, []string{"core_pattern"}, u.event())
					u.isHeldBy(b)
					u.isHeldBy(other)
					_, err := word.WriteString("\n")
					require.NoError(t, err)
					u.isFree()
				})
			}
		}
	})
}

// Inside LXD a privileged task is root of the unit's user namespace, not of the
// machine: it can make no node and run nothing on the machine. But what the
// kernel keeps by user namespace is the unit's and the task's alike, and so are
// the unit's GPUs for who gets there.
func TestPrivilegedTaskInsideLXDIsRootOfTheUnitAlone(t *testing.T) {
	u := newUnit(t, 2)
	through := ownCgroup(t, filepath.Base(u.dir), nestedRoot)
	b := u.container(settings[3], "AMD_VISIBLE_DEVICES=0")
	b.enter = append(through, b.enter...)
	require.NoError(t, os.Chown(u.dir, b.offset, b.offset))
	b.bundle()
	b.givenHostile()
	require.NoError(t, b.up())
	numbers, err := suite.Minors()
	require.NoError(t, err)
	privilegedTask(b, fmt.Sprintf(`said() { e=$("$@" 2>&1) && echo "$1 $2: done" || echo "$1 $2: ${e##*: }"; }
said busybox mknod /tmp/other c 10 %d
said hostile detach
said busybox tee /proc/sys/kernel/core_pattern </dev/null
busybox mkdir /binfmt; said busybox mount -t binfmt_misc none /binfmt
echo ':test:E::of-the-unit::/bin/hostile:F' > /binfmt/register
`, numbers["/dev/dri/renderD129"]))
	said := found(b.output(nil, "exec", "--process", b.path("process"), "--detach", b.id))
	require.Equal(t, "Operation not permitted", said["busybox mknod"])
	require.Equal(t, "operation not permitted", said["hostile detach"])
	require.Equal(t, "Permission denied", said["busybox tee"])
	if said["busybox mount"] != "done" {
		t.Skip("before Linux 6.7 user namespaces have no binfmt_misc of their own: ", said)
	}
	program := b.path("program.of-the-unit")
	require.NoError(t, os.WriteFile(program, []byte("what the unit runs"), 0o755))
	out, err := exec.Command(b.enter[0], append(b.enter[1:], program)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, "opens\n", string(out), "the task's program ran in the unit, where its other GPU is")
	require.Error(t, exec.Command(program).Run(), "it does not run on the machine")
}

func TestPrivilegedTaskWritesToAFolderThatItGotReadOnly(t *testing.T) {
	need(t)
	debian, err := exec.LookPath("runc")
	require.NoError(t, err)
	for _, s := range []setting{settings[0], settings[3]} { // the privileged ones
		t.Run(s.name, func(t *testing.T) {
			b := s.bed(t, debian, 0o660)
			srv := b.path("srv")
			require.NoError(t, os.MkdirAll(srv+"/models", 0o755))
			b.chown(srv, b.offset)
			b.configure(oci.Config{Folders: &oci.Folders{Root: srv}})
			b.bundle()
			require.NoError(t, b.up())
			privilegedTask(b, `cd `+srv+`/models; echo > new; [ -e new ] || echo first: refused
busybox mount -o remount,rw,bind $PWD; echo > new; [ -e new ] && echo then: written
`)
			said := found(b.output(nil, "exec", "--process", b.path("process"), "--detach", b.id))
			require.Equal(t, "refused", said["first"])
			require.Equal(t, "written", said["then"])
		})
	}
}
