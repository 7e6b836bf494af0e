package hooks

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/healthcheck"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// The option, from Juju to who runs the program; that a look does is shown in
// internal/charm/command/actions, and real containers in tests/container.
func TestHealthCheckIsTheOneOfTheOption(t *testing.T) {
	t.Parallel()
	u := worker(t, fixture("mi210x4"), options{"compute-runtime": "rocm", "amd-container-toolkit": "skip", "gpu-health-check": "/root/check"})
	require.Equal(t, `gpu-health-check: "/root/check" is not in its container; want a file below /opt, /usr or a folder of /srv`,
		u.hook("config-changed").Status().Message)
	u.set(options{"gpu-health-check": "/srv/tools/check"})
	u.hook("config-changed")

	// GPU 1 is healthy again for long enough, and there is not such program.
	at := time.Now().UTC()
	l := quarantine.Look{At: at, Policy: quarantine.Auto, HealthCheck: "/srv/tools/check"}
	for i, name := range []string{"0000:23:00.0", "0000:43:00.0", "0000:83:00.0", "0000:c3:00.0"} {
		l.GPUs = append(l.GPUs, quarantine.Reading{Slot: gpu.Slot{PCI: name, Index: i, GFX: "gfx90a"}, Up: true, State: health.Healthy})
	}
	rec := quarantine.Decide(quarantine.Record{}, l)
	l.GPUs[1].State, l.GPUs[1].Faults = health.Critical, []health.Fault{{Kind: health.Hang}}
	rec = quarantine.Decide(rec, l)
	l.GPUs[1].State, l.GPUs[1].Faults = health.Healthy, nil
	for range 30 {
		l.At = l.At.Add(15 * time.Second)
		rec = quarantine.Decide(rec, l)
	}
	require.Equal(t, []string{"0000:43:00.0"}, rec.DueHealthChecks())
	require.NoError(t, quarantine.RecordFile.Write(u.Root, rec))
	_, stderr, code := u.person("gpu", "record-check", "0000:43:00.0")
	require.Zero(t, code, stderr)
	p, err := healthcheck.Read(u.Root, "0000:43:00.0")
	require.NoError(t, err)
	require.Equal(t, quarantine.NotRun, p.End)
	require.Contains(t, p.Reason, "/srv/tools/check is missing; add it")
	p.Began, p.Ended = l.At, l.At // as a look after it sees it
	l.HealthChecks = []quarantine.HealthCheck{p}
	require.NoError(t, quarantine.RecordFile.Write(u.Root, quarantine.Decide(rec, l)))
	u.hook("update-status")
	require.Contains(t, u.action("check-status", nil).Results["checks"], "GPU 1 is healthy but not returned: gpu-health-check can't be run: /srv/tools/check is missing; add it")

	// With a program it is run by the release's runc, which ends with 0 here.
	require.NoError(t, u.Root.MkdirAll("/srv/tools", 0o755))
	require.NoError(t, u.Root.WriteFile("/srv/tools/check", []byte("#!/bin/sh\n"), 0o755))
	require.NoError(t, os.Chmod(u.Root.Path("/"), 0o755))
	stdout, stderr, code := u.person("gpu", "check", "1")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "gpu-health-check ended with 0 after ")
	stdout, _, code = u.person("gpu", "record-check", "0000:43:00.0")
	require.Zero(t, code)
	require.Contains(t, stdout, "gpu-health-check ended with 0 after ")
	require.True(t, u.Root.Exists(healthcheck.OutputFile("0000:43:00.0")))

	u.set(options{"compute-runtime": "none"})
	u.hook("config-changed")
	require.False(t, u.Root.Exists(healthcheck.Dir))
	require.False(t, u.Root.Exists(healthcheck.OutputDir))
}
