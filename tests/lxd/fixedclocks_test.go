//go:build e2e

package lxd

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/pool/fixedclocks"
	"github.com/fourdollars/concourse-ci-machine/tests/lxdhost"
)

// givesBack is the way from the look that Pebble runs to a service of systemd's own, which
// gives a GPU its clocks back. Sysfs is the host's: what there is to give back a container
// without privileges can't have made, so the test writes it, and it is a person on the host
// who sets the clocks in the end.
func (u *unit) givesBack(t *testing.T) {
	const file = fixedclocks.DefaultDir + "/" + lxdhost.AMDPCI
	service := "concourse-gpu-fixed-clocks-" + strings.ReplaceAll(lxdhost.AMDPCI, ":", "-")
	logs := func(text string) func() bool {
		return func() bool { return strings.Contains(u.must("journalctl --no-pager --unit "+service), text) }
	}
	host := func(level string) { require.NoError(t, os.WriteFile(u.level, []byte(level+"\n"), 0o644)) }
	u.d.Sub(t, "clocks that stay fixed are restored by a service of systemd, which reports what it lacks", func(t *testing.T) {
		host(string(fixedclocks.Standard))
		u.must(fmt.Sprintf(`mkdir -p -m 700 %s && echo "{\"container\":\"4f1c\",\"bundle\":\"/run/gone\",\"boot\":\"$(cat /proc/sys/kernel/random/boot_id)\",\"level\":\"%s\",\"since\":1}" >%s`,
			fixedclocks.DefaultDir, fixedclocks.Standard, file))
		u.eventually(logs("cannot restore the clocks of GPU "+lxdhost.AMDPCI+": cannot write power_dpm_force_performance_level"), "it was not tried")
		require.Contains(t, u.must("cat "+file), `"container":"4f1c"`, "so it is tried again")
		host("auto")
		u.eventually(logs("GPU "+lxdhost.AMDPCI+": clocks restored, container 4f1c had fixed them"), "it is not given back")
		require.Empty(t, u.must("tr -d ' \\n' <"+file))
		require.Empty(t, u.failed())
	})
}
