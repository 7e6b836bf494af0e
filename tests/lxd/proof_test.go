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

const proofProgram = "/usr/local/bin/prove-gpu"

// proves is gpu-proof from the look that Pebble runs to a service of systemd's own, and the
// container that runc makes there. That the GPU was well for long enough is written into
// the record; all else is the unit's work.
func (u *unit) proves(t *testing.T) {
	u.d.Sub(t, "a GPU on trial is proved by the operator's program, and is back", func(t *testing.T) {
		u.must("printf '#!/bin/sh\\nexec 3<>/dev/dri/renderD128 && echo computed on $GPU_PCI\\n' >" + proofProgram + " && chmod 755 " + proofProgram)
		u.settle(map[string]any{"gpu-proof": proofProgram})
		u.onTrial()
		u.eventually(func() bool { return strings.Contains(u.record(), `"state":"in_service"`) }, "it is not back")
		require.Contains(t, u.record(), "and gpu-proof ended with 0")
		require.Contains(t, u.must("cat "+healthcheck.OutputDir+"/*"), "computed on "+lxdhost.AMDPCI)
	})
	u.d.Sub(t, "a GPU whose proof fails is withheld, and a person returns it", func(t *testing.T) {
		u.must("printf '#!/bin/sh\\nexit 3\\n' >" + proofProgram)
		u.onTrial()
		u.eventually(func() bool { return strings.Contains(u.record(), `"state":"withheld"`) }, "it is not withheld")
		require.Contains(t, u.must(role.BinDir+"/dispatch gpu status"), ": gpu-proof ended with 3")
		require.Contains(t, u.must(role.BinDir+"/dispatch gpu return 0"), "is in service again")
		u.settle(map[string]any{"gpu-proof": ""})
		u.must("rm " + proofProgram)
		u.settled()
		require.Empty(t, u.failed())
	})
}

// record is "" until a look has made it.
func (u *unit) record() string {
	return u.must(fmt.Sprintf("[ ! -e %s ] || cat %[1]s", quarantine.File))
}

// onTrial makes the record tell that the GPU fell sick and is well for as long as it has
// to be, just now: no proof of before counts.
func (u *unit) onTrial() {
	at := time.Now().UTC().Add(-5 * time.Minute).Format(time.RFC3339)
	u.eventually(func() bool { return strings.Contains(u.record(), `"state":"in_service"`) }, "no look saw the GPU")
	u.must(fmt.Sprintf(`flock %s sed -i 's/"state":"in_service","since":"[^"]*"/"state":"proving","by":"health","since":"%[2]s","out":"%[2]s","well":"%[2]s"/' %s`,
		quarantine.LockFile, at, quarantine.File))
}
