//go:build e2e

package lxd

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/healthcheck"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
	"github.com/fourdollars/concourse-ci-machine/tests/lxdhost"
)

const healthCheckProgram = "/usr/local/bin/check-gpu"

// checks is gpu-health-check from the look that Pebble runs to a service of systemd's own,
// and the container that runc makes there. That the GPU was well for long enough is written
// into the record; all more is the unit's work.
func (u *unit) checks(t *testing.T) {
	u.d.Sub(t, "a GPU on probation is checked by the operator's program, and is back", func(t *testing.T) {
		u.must("printf '#!/bin/sh\\nexec 3<>/dev/dri/renderD128 && echo computed on $GPU_PCI\\n' >" + healthCheckProgram + " && chmod 755 " + healthCheckProgram)
		u.settle(map[string]any{"gpu-health-check": healthCheckProgram})
		u.onTrial()
		u.eventually(func() bool { return strings.Contains(u.record(), `"state":"in_service"`) }, "it is not back")
		require.Contains(t, u.record(), "and gpu-health-check ended with 0")
		require.Contains(t, u.must("cat "+healthcheck.OutputDir+"/*"), "computed on "+lxdhost.AMDPCI)
	})
	u.d.Sub(t, "a GPU whose health check fails is quarantined, and a person returns it", func(t *testing.T) {
		u.must("printf '#!/bin/sh\\nexit 3\\n' >" + healthCheckProgram)
		u.onTrial()
		u.eventually(func() bool { return strings.Contains(u.record(), `"state":"quarantined"`) }, "it is not quarantined")
		require.Contains(t, u.must(role.BinDir+"/dispatch gpu status"), ": gpu-health-check ended with 3")
		require.Contains(t, u.must(role.BinDir+"/dispatch gpu return 0"), "is in service again")
		u.settle(map[string]any{"gpu-health-check": ""})
		u.must("rm " + healthCheckProgram)
		u.settled()
		require.Empty(t, u.failed())
	})
}

// record is "" until a look has made it.
func (u *unit) record() string {
	return u.must(fmt.Sprintf("[ ! -e %s ] || cat %[1]s", quarantine.File))
}

// onTrial makes the record report that the GPU fell sick and is well for as long as it must
// be, just now: no health check of before counts.
func (u *unit) onTrial() {
	at := time.Now().UTC().Add(-5 * time.Minute).Format(time.RFC3339)
	u.eventually(func() bool { return strings.Contains(u.record(), `"state":"in_service"`) }, "no look saw the GPU")
	u.must(fmt.Sprintf(`flock %s sed -i 's/"state":"in_service","since":"[^"]*"/"state":"on_probation","quarantined_by":"health","since":"%[2]s","quarantined_since":"%[2]s","healthy_since":"%[2]s"/' %s`,
		quarantine.LockFile, at, quarantine.File))
}
