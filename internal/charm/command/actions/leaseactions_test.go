package actions

import (
	"encoding/json"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/oci"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// leasing makes a unit lease its GPUs, as a hook does.
func leasing(t *testing.T) func(*Actions) {
	return func(c *Actions) {
		r := c.Host.Root
		for _, dir := range []string{"/run", "/etc/concourse-ci-machine"} {
			require.NoError(t, r.MkdirAll(dir, 0o755))
		}
		require.NoError(t, r.WriteFile(oci.DefaultConfig, []byte("{}"), 0o600))
		hosttest.Put(t, r, "/proc/sys/kernel/random/boot_id", "5f0c-boot\n")
		require.NoError(t, model.Save(r, model.Facts{}, model.Facts{Unit: "concourse-ci-machine/0", Role: model.WorkerRole,
			Config: map[string]any{"mode": "worker", "compute-runtime": "rocm", "gpu-sharing": "exclusive"}}))
		require.NoError(t, c.RefreshCDI(t.Context(), io.Discard))
	}
}

func TestCheckStatusFailsForALeaseInDoubt(t *testing.T) {
	c := onHost(t, "mi210x4")
	leasing(t)(c)
	require.NoError(t, os.MkdirAll(c.Host.Path(lease.DefaultDir), 0o700))
	var r report
	c.checkLeases(&r)
	require.Equal(t, []Checked{{Name: "leases", OK: true, Text: "0 of 4 GPUs held"}}, r.checks)

	hosttest.Put(t, c.Host.Root, lease.DefaultDir+"/0000:83:00.0", "{")
	r = report{}
	c.checkLeases(&r)
	require.Len(t, r.checks, 2)
	require.Equal(t, "lease of GPU 2 (GPU-d3481fe60972b5ac, 0000:83:00.0)", r.checks[0].Name)
	require.False(t, r.checks[0].OK)
	require.Contains(t, r.checks[0].Text, "in doubt: ")
	require.Equal(t, Checked{Name: "leases", OK: true, Text: "1 of 4 GPUs held"}, r.checks[1])

	require.NoError(t, os.Chmod(c.Host.Path(lease.DefaultDir), 0o755))
	r = report{}
	c.checkLeases(&r)
	require.Len(t, r.checks, 1)
	require.False(t, r.checks[0].OK)

	require.NoError(t, c.Host.Remove(oci.DefaultConfig))
	r = report{}
	c.checkLeases(&r)
	require.Empty(t, r.checks, "they are shared")
}

func TestLeaseActionsAcceptAllNamesOfAGPU(t *testing.T) {
	unit := leasing(t)
	a := acted(t, "mi210x4", "gpu-status", map[string]any{"format": "json"}, unit)
	require.Equal(t, "completed", a.Status, a.Message)
	require.Contains(t, a.Results["leases"], `"sharing": "exclusive"`)
	for _, which := range []any{0, 0.0, "0"} {
		a = acted(t, "mi210x4", "release-gpu", map[string]any{"gpu": which, "force": false}, unit)
		require.Equal(t, "completed", a.Status, a.Message)
		require.Contains(t, a.Results["released"], "GPU 0 (GPU-")
	}
	a = acted(t, "mi210x4", "release-gpu", nil, unit)
	require.Equal(t, "failed", a.Status)
	require.Contains(t, a.Message, "give gpu=<gpu>, as gpu-status shows it")
	a = acted(t, "amd", "gpu-status", nil, nil)
	require.Equal(t, "completed", a.Status)
	require.Equal(t, "gpu-sharing=shared: GPUs are not leased", a.Results["leases"])
}

func TestActionsQuarantineAndReturn(t *testing.T) {
	watchedUnit := func(c *Actions) {
		require.NoError(t, quarantine.RecordFile.Write(c.Host.Root, faultyRecord(c, nil, "0000:23:00.0", "0000:43:00.0")))
		require.NoError(t, c.Host.MkdirAll("/run", 0o755))
	}
	a := acted(t, "mi210x4", "quarantine-gpu", map[string]any{"gpu": 0, "reason": "noisy fan"}, watchedUnit)
	require.Equal(t, "completed", a.Status, a.Message)
	require.Contains(t, a.Results["quarantined"], "is quarantined: no new container gets it")
	for params, want := range map[string]string{
		`{"reason":"x"}`:          "give gpu=<gpu>, as list-gpus shows it",
		`{"gpu":0}`:               "cannot quarantine a GPU without a reason",
		`{"gpu":7,"reason":"x"}`:  `cannot quarantine GPU "7": this unit has`,
		`{"gpu":0,"because":"x"}`: "takes gpu, reason; nothing was done",
	} {
		var given map[string]any
		require.NoError(t, json.Unmarshal([]byte(params), &given))
		a = acted(t, "mi210x4", "quarantine-gpu", given, watchedUnit)
		require.Equal(t, "failed", a.Status)
		require.Contains(t, a.Message, want)
	}
	a = acted(t, "mi210x4", "return-gpu", nil, watchedUnit)
	require.Contains(t, a.Message, "give gpu=<gpu>, as gpu-status shows it")
	a = acted(t, "mi210x4", "return-gpu", map[string]any{"gpu": "0"}, watchedUnit)
	require.Contains(t, a.Message, "it has been in service since")
}
