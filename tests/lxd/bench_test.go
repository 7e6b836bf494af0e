//go:build e2e

package lxd

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/pin"
	"concourse-ci-machine/tests/lxdhost"
)

// measures is gpu-bench where the clocks are the LXD host's to fix: a task is told so. The
// give-back is from the look that Pebble runs to a service of systemd's own; what there is
// to give back a container without privileges can't have made, so the test writes it.
func (u *unit) measures(t *testing.T) {
	const file = pin.DefaultDir + "/" + lxdhost.AMDPCI
	service := "concourse-gpu-bench-" + strings.ReplaceAll(lxdhost.AMDPCI, ":", "-")
	says := func(text string) func() bool {
		return func() bool { return strings.Contains(u.must("journalctl --no-pager --unit "+service), text) }
	}
	host := func(level string) { // what a person on the host sets
		require.NoError(t, os.WriteFile(u.level, []byte(level+"\n"), 0o644))
	}
	u.d.Sub(t, "a task that measures is told that the clocks are the host's", func(t *testing.T) {
		u.settle(map[string]any{"gpu-sharing": "exclusive", "gpu-bench": true})
		u.eventually(func() bool { _, err := u.d.Inside(u.name, client+" version"); return err == nil }, "the worker does not come back")
		out, err := u.task("measures", `cat "$GPU_BENCH_RECORD"`, "GPU_BENCH=1")
		require.NoError(t, err, out)
		require.Contains(t, out, `{"valid": false, "reason": "the clocks of its GPUs are not fixed: GPU `+lxdhost.AMDPCI+": this machine may not write power_dpm_force_performance_level: ")
	})
	u.d.Sub(t, "clocks that stay fixed are given back by a service of systemd's own, which says what it lacks", func(t *testing.T) {
		host(string(pin.Standard))
		u.must(fmt.Sprintf(`echo "{\"container\":\"4f1c\",\"bundle\":\"/run/gone\",\"boot\":\"$(cat /proc/sys/kernel/random/boot_id)\",\"level\":\"%s\",\"since\":1}" >%s`, pin.Standard, file))
		u.eventually(says("cannot give GPU "+lxdhost.AMDPCI+" its own clocks back: this machine may not write power_dpm_force_performance_level"), "it was not tried")
		require.Contains(t, u.must("cat "+file), `"container":"4f1c"`, "so it is tried again")
		host("auto")
		u.eventually(says("GPU "+lxdhost.AMDPCI+": its clocks are its own again, container 4f1c had fixed them"), "it is not given back")
		u.eventually(func() bool { return u.must("tr -d ' ' <"+file) == "" }, "it is still pinned")
		u.settle(map[string]any{"gpu-sharing": "shared", "gpu-bench": false})
		u.settled()
		require.Empty(t, u.failed())
	})
}
