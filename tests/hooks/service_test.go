package hooks

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// A worker's way from a GPU that falls sick to its return, with the built program: the
// status, the tags with one restart of the worker's process, and people's word.
func TestQuarantinedGPUIsInStatusAndTagsUntilItIsBack(t *testing.T) {
	t.Parallel()
	const environment, tags = "/var/lib/concourse-worker/worker-config.env", "/var/lib/concourse-ci-machine/gpu-tags.json"
	u := worker(t, fixture("mi210x4"), options{"compute-runtime": "rocm", "amd-container-toolkit": "skip"})
	before := u.read(environment)
	require.Contains(t, before, "gpu-count=4")
	slots := []string{"0000:23:00.0", "0000:43:00.0", "0000:83:00.0", "0000:c3:00.0"}
	look := func(at time.Time, sick ...int) {
		rec, err := quarantine.RecordFile.Read(u.Root)
		require.NoError(t, err)
		l := quarantine.Look{At: at, Policy: quarantine.Auto}
		for i, name := range slots {
			l.GPUs = append(l.GPUs, quarantine.Reading{Slot: gpu.Slot{PCI: name, Index: i, GFX: "gfx90a"}, Up: true, State: health.Healthy})
		}
		for _, i := range sick {
			l.GPUs[i].State, l.GPUs[i].Faults = health.Critical, []health.Fault{{Kind: health.Hang, Signals: []string{"kernel_log"}}}
		}
		require.NoError(t, quarantine.RecordFile.Write(u.Root, quarantine.Decide(rec, l)))
	}
	restarts := func(commands []string) int {
		return strings.Count(strings.Join(commands, "\n"), "restart concourse-worker")
	}
	const sick = "Worker ready (v8.2.5) (GPU: 4x AMD, 1 quarantined: hang); "
	at := time.Now()
	look(at)
	require.Empty(t, u.hook("update-status").Plan())

	look(at, 2)
	r := u.hook("update-status")
	require.True(t, strings.HasPrefix(r.Status().Message, sick), r.Status().Message)
	require.Zero(t, restarts(r.Commands))
	require.Equal(t, before, u.read(environment), "a short sickness restarts nothing")

	// The same with a longer past.
	require.NoError(t, u.Root.Remove(quarantine.File))
	look(at.Add(-time.Hour))
	look(at.Add(-time.Hour), 2)
	r = u.hook("update-status")
	require.True(t, strings.HasPrefix(r.Status().Message, sick), r.Status().Message)
	require.Contains(t, u.read(environment), "gpu-count=3")
	require.Equal(t, 1, restarts(r.Commands))
	require.Contains(t, u.read(tags), `"excluded":["0000:83:00.0"]`)
	flight := relationOf(u, "flight")
	told := flight.Local["gpus"]
	require.Contains(t, told, `{"index":2,"gfx":"gfx90a","model":"AMD INSTINCT MI210","service":"quarantined"}`)
	require.Empty(t, u.hook("update-status").Plan())
	require.Equal(t, told, flight.Local["gpus"], "nothing is new, so the web has no hook for it")

	// All of them, right after: the status reports, the tags wait for five minutes.
	look(at.Add(time.Second), 0, 1, 2, 3)
	r = u.hook("update-status")
	require.Contains(t, r.Status().Message, "(GPU: 4x AMD, 4 quarantined: hang)")
	require.Zero(t, restarts(r.Commands))
	require.NoError(t, u.Root.WriteFile(tags, []byte(`{"excluded":["0000:83:00.0"],"changed_at":"2026-01-01T00:00:00Z"}`), 0o600))
	r = u.hook("update-status")
	require.Equal(t, 1, restarts(r.Commands))
	require.Contains(t, u.read(environment), "gpu-count=0")
	require.NotContains(t, u.read(environment), "compute-runtime=rocm")
	require.Contains(t, r.Status().Message, "; and 1 more: juju run concourse-ci-machine/0 check-status")

	why := u.refused("check-status", nil)
	require.Contains(t, why, "gpus in service: 0 of 4; tasks that request a GPU are refused")

	// A person returns them; what is is acknowledged.
	for _, slot := range slots {
		stdout, stderr, code := u.person("gpu", "return", slot)
		require.Zero(t, code, stderr)
		require.Contains(t, stdout, "its present fault (hangs or is in reset (kernel_log)) is now ignored")
	}
	a := u.action("quarantine-gpu", map[string]any{"gpu": 1, "reason": "swap the riser"})
	require.Equal(t, "completed", a.Status, a.Message)
	require.Contains(t, u.read(quarantine.AdmissionFile), `"name":"0000:43:00.0"`)
	stdout, stderr, code := u.person("gpu", "list")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "by hand: swap the riser\n")
	require.Contains(t, u.hook("update-status").Status().Message, "(GPU: 4x AMD, 1 quarantined: by hand)")
	a = u.action("return-gpu", map[string]any{"gpu": "0000:43:00.0"})
	require.Equal(t, "completed", a.Status, a.Message)
	require.False(t, u.Root.Exists(quarantine.AdmissionFile))
	require.NoError(t, u.Root.WriteFile(tags, []byte(`{"excluded":["0000:83:00.0"],"changed_at":"2026-01-01T00:00:00Z"}`), 0o600))
	u.hook("update-status")
	require.Equal(t, before, u.read(environment))

	u.set(options{"gpu-quarantine": "sometimes"})
	require.Equal(t, `gpu-quarantine: "sometimes" is not one of auto, reset, manual, off`, u.hook("config-changed").Status().Message)
	u.set(options{"gpu-quarantine": "auto", "compute-runtime": "none"})
	u.hook("config-changed")
	require.False(t, u.Root.Exists(quarantine.File))
}
