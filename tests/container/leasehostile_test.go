//go:build e2e

package container

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// away is how a privileged task leaves its control groups, alone or with init.
const away = `cg=/cg; mkdir -p $cg
for c in devices pids memory cpu cpuacct cpuset blkio freezer systemd; do
  o=$c; [ $c != systemd ] || o=none,name=systemd
  mkdir -p $cg/$c; busybox mount -t cgroup -o $o none $cg/$c 2>/dev/null && for p in $$ $WITH; do echo $p > $cg/$c/cgroup.procs; done
done
busybox mount -t cgroup2 none $cg 2>/dev/null && for p in $$ $WITH; do echo $p > $cg/cgroup.procs; done
`

// stays reports what the task has, waits for a word, and ends.
const stays = `exec 3<>/dev/dri/renderD128; echo "$1 $(busybox grep -c $TASK /proc/self/cgroup)" > /events/all; read word < /events/$TASK
`

// privilegedTask is what Concourse gives to `privileged: true`, as far as it
// matters here.
func privilegedTask(b *bed, script string) {
	p := process(0, script)
	caps := []string{"CAP_SYS_ADMIN", "CAP_DAC_OVERRIDE", "CAP_MKNOD", "CAP_KILL", "CAP_SYS_PTRACE"}
	p["capabilities"] = map[string]any{"bounding": caps, "effective": caps, "permitted": caps, "inheritable": caps}
	p["env"] = []string{"PATH=/bin", "TASK=" + b.id}
	b.write("process", p)
}

// The GPU is still in use, so no other program gets it, wherever the task went: to
// another control group, or into a pid namespace that it made.
func TestTaskThatHidesKeepsItsLease(t *testing.T) {
	onEachCgroup(t, func(t *testing.T, _ string) {
		for said, script := range map[string]string{
			"alone": away + `set alone; ` + stays,
			"away":  `WITH=1; ` + away + `set away; ` + stays,
			"below": `busybox unshare -pf busybox sh -c 'WITH=1; ` + away + `set below; ` + stays + `' <&- >&- 2>&- &`,
		} {
			t.Run(said, func(t *testing.T) {
				u := newUnit(t, 1)
				b := u.container(settings[0])
				b.bundle()
				require.NoError(t, b.up())
				word := u.fifo(b.id)
				privilegedTask(b, script)
				require.NoError(t, b.runExec())
				require.Equal(t, []string{said, "0"}, u.event(), "it is in none of the container's control groups")
				for range 3 { // the task of "below" has ended: a create would wait for the look
					states, _, err := u.leases().Read()
					require.NoError(t, err)
					require.True(t, states[0].Held)
					require.Equal(t, b.id, states[0].Container)
				}
				_, err := word.WriteString("\n")
				require.NoError(t, err)
				u.isFree()
			})
		}
	})
}
