//go:build e2e

package run

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/rungroup"
)

// hostile returns a run of a script of a user with one GPU. Its variables name the group of
// cgroup v2 that holds all groups, the script's own group, the leases, and a process of another
// user. PROBE prints a line for each node that the kernel does not refuse.
func (m *machine) hostile(groups rungroup.Tree, other int, script string) *exec.Cmd {
	c := m.command(ada, "run", "--", "sh", "-c", `GROUP=$ALL$(sed -n s/^0:://p /proc/self/cgroup); export GROUP; `+script)
	c.Env = append(c.Env, "ALL="+groups.Mount, "LEASES="+m.root.Path(lease.DefaultDir), "OTHER="+itoa(other),
		"GPUKIT="+gpukit, "PROBE="+nodes, "LEAVE="+leave, "CHAIN="+chain)
	return c
}

// leave moves the shell into each other group that lets it.
const leave = `for d in "$ALL" "$ALL"/*/ "$GROUP"/..; do echo 0 >"$d/cgroup.procs" && echo moved to "$d"; done`

// chain is a process that starts itself again and ends, so that it is seldom seen. It ends
// after a minute.
const chain = `$SIG{TERM} = "IGNORE"; $end = time + 60; while (time < $end) { exit if fork }`

// Each script prints what it may not do, and the nodes that it can open then.
func TestHostileJobOpensNoOtherGPU(t *testing.T) {
	m := newMachine(t)
	groups, err := rungroup.Find()
	require.NoError(t, err)
	other := exec.Command("setpriv", "--reuid", itoa(bob), "--clear-groups", "sleep", "10000")
	require.NoError(t, other.Start())
	t.Cleanup(func() { _ = other.Process.Kill(); _ = other.Wait() })
	for name, script := range map[string]string{
		"leaves its group":   `eval "$LEAVE"`,
		"makes groups":       `mkdir "$GROUP/inner" "$ALL/gpukit-run-ffffffffffff" && echo made`,
		"removes its group":  `rmdir "$GROUP" && echo removed`,
		"writes its group":   `for f in procs threads subtree_control freeze kill type; do echo 1 >"$GROUP/cgroup.$f" && echo wrote $f; done`,
		"makes a node":       `mknod "$(mktemp -u)" c 226 128 && echo made`,
		"writes the leases":  `for f in "$LEASES"/*; do true >>"$f" && echo wrote; rm -f "$f" && echo removed; done`,
		"reads the leases":   `cat "$LEASES"/* && echo read`,
		"makes a lease":      `true >"$LEASES/0000:99:00.0" && echo made`,
		"leases again":       `"$GPUKIT" lease --pid $$ && echo leased; "$GPUKIT" run --gpus 3 -- true && echo leased`,
		"leases for another": `"$GPUKIT" lease --pid "$OTHER" && echo leased`,
		"enters another":     `nsenter --target "$OTHER" --cgroup true && echo entered`,
		"loads a filter":     `mount -t bpf bpf /mnt && echo mounted`,
		"changes variables":  `export ROCR_VISIBLE_DEVICES=0,1,2,3 GPUKIT_RUN=run-ffffffffffff`,
		"is root of a user namespace": `exec unshare --user --map-root-user --mount --cgroup --pid --fork --mount-proc sh -c '
			eval "$LEAVE"; mount -t cgroup2 cgroup2 /mnt && ALL=/mnt GROUP=/mnt/none && eval "$LEAVE"
			mount -t tmpfs tmpfs /mnt && mknod /mnt/x c 226 128 && echo made
			eval "$PROBE"'`,
	} {
		t.Run(name, func(t *testing.T) {
			one := *m
			one.t = t
			r := one.end(one.hostile(groups, other.Process.Pid, script+`; eval "$PROBE"`))
			require.Regexp(t, `^node [0-3]\n$`, r.out, r.stderr)
		})
	}
}

// Each script leaves processes, of which one prints the nodes that it can open. All are ended
// and give the GPU back.
func TestProcessesOfAHostileJobEnd(t *testing.T) {
	m := newMachine(t)
	groups, err := rungroup.Find()
	require.NoError(t, err)
	t.Run("all", func(t *testing.T) {
		for name, script := range map[string]string{
			"child":           `sh -c "$LAST" &`,
			"session":         `setsid sh -c "$LAST" &`,
			"double fork":     `(setsid sh -c 'sh -c "$LAST" &' &)`,
			"no hangup":       `nohup sh -c "$LAST" &`,
			"ignores SIGTERM": `(trap '' TERM HUP INT; sh -c "$LAST") &`,
			"is stopped":      `sleep 10000 >/dev/null 2>&1 & kill -STOP $!; sh -c "$LAST" &`,
			"user namespace":  `unshare --user --map-root-user --pid --fork --mount-proc --cgroup sh -c "$LAST" &`,
			"many":            `for i in $(seq 200); do setsid sleep 10000 >/dev/null 2>&1 & done; sh -c "$LAST" &`,
			"fork chains":     `sh -c "$LAST" & for i in $(seq 20); do perl -e "$CHAIN" >/dev/null 2>&1 & done`,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				one := *m
				one.t = t
				c := one.hostile(groups, 1, `echo "$GROUP"; `+script)
				c.Env = append(c.Env, `LAST=eval "$PROBE"; exec >/dev/null 2>&1; exec sleep 10000`)
				r := one.end(c)
				group, found, _ := strings.Cut(r.out, "\n")
				require.Contains(t, group, "/gpukit-run-")
				t.Cleanup(func() { _ = os.WriteFile(filepath.Join(group, "cgroup.kill"), []byte("1"), 0) })
				require.Regexp(t, `^node [0-3]\n$`, found, r.stderr)
				one.until("the end of its group", func() bool {
					_, err := os.Stat(group)
					return os.IsNotExist(err)
				})
			})
		}
	})
	m.until("free GPUs", func() bool { return m.held() == 0 })
}
