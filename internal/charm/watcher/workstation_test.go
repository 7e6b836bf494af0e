package watcher

import (
	"bytes"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/workstation"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/fixedclocks"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// onWorkstation returns the GPUs of a machine without a unit, as gpukit watches them.
func onWorkstation(t *testing.T) *Unit {
	u := served(t, "mi210x4")
	u.Commands = wellknown.Commands{Program: wellknown.GPUKit}
	return u
}

func statusOf(t *testing.T, u *Unit) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, u.Status(&b, term.Format{}))
	return b.String()
}

// No hook ever runs there, and no text names one.
func TestMachineWithoutAUnitQuarantinesAndReturnsGPUs(t *testing.T) {
	u := onWorkstation(t)
	watched(t, u)
	require.Contains(t, statusOf(t, u), "free  GPU 1 (GPU-2f90ab16c8e7431d, 0000:43:00.0)\n", "without an engine, too")
	hosttest.Put(t, u.Host.Root, ueFile, "ue: 2\nce: 0\n")
	require.Contains(t, watched(t, u), "GPU 1 (0000:43:00.0): quarantined: ")
	require.Contains(t, quarantinedNow(t, u.Host.Root), `"name":"0000:43:00.0","reason"`)

	status := statusOf(t, u)
	require.Regexp(t, `(?m)^quarantined  GPU 1 \(GPU-2f90ab16c8e7431d, 0000:43:00.0\)$`, status)
	require.NotContains(t, status, "free  GPU 1 ")
	require.Contains(t, status, "quarantined: GPU 1 (GPU-2f90ab16c8e7431d, 0000:43:00.0) has been quarantined since ")
	require.Contains(t, status, "containers share the GPUs; to lease them: "+
		"sudo gpukit runtime configure <engine> --exclusive\n")
	var returned, byHand, evidence bytes.Buffer
	require.NoError(t, u.Return(&returned, "1"))
	require.Contains(t, returned.String(), "0000:43:00.0) is in service again; its present fault (")
	require.NoError(t, u.Quarantine(&byHand, "0", "noisy fan"))
	require.Equal(t, "GPU 0 (GPU-7c1e55a90b34d2f6, 0000:23:00.0) is quarantined: no new container or run gets it; one that "+
		"has it keeps it. Give it back: sudo gpukit gpu return 0\n", byHand.String())
	require.NoError(t, u.Evidence(&evidence, term.Format{}))
	require.NotRegexp(t, "unit|hook|juju|dispatch|[Tt]ags", status+returned.String()+byHand.String()+evidence.String())
}

func TestAdministratorsOptionsAreUsedAndChecked(t *testing.T) {
	u := onWorkstation(t)
	hosttest.Put(t, u.Host.Root, workstation.OptionsFile,
		"# a comment\nGPUKIT_GPU_QUARANTINE=\"manual\"\nGPUKIT_CDI_REFRESH_DEVICE=0\n")
	watched(t, u)
	hosttest.Put(t, u.Host.Root, ueFile, "ue: 2\nce: 0\n")
	watched(t, u)
	require.NotContains(t, quarantinedNow(t, u.Host.Root), "reason", "only an operator may quarantine")

	hosttest.Put(t, u.Host.Root, workstation.OptionsFile, "GPUKIT_GPU_QUARANTINE=never\nGPUKIT_GPU_HEALTH_CHECK=check\n")
	u.after(6 * time.Second)
	err := look(t, u, &bytes.Buffer{})
	require.ErrorContains(t, err, `cannot use GPUKIT_GPU_QUARANTINE in /etc/default/gpukit: "never" is not one of `)
	require.ErrorContains(t, err, `cannot use GPUKIT_GPU_HEALTH_CHECK in /etc/default/gpukit: "check" is not the absolute path`)
	require.Contains(t, statusOf(t, u), "warning: cannot use GPUKIT_GPU_QUARANTINE")
	require.NotContains(t, quarantinedNow(t, u.Host.Root), "reason", "the last valid policy stays")

	require.NoError(t, u.Host.Remove(workstation.OptionsFile))
	watched(t, u)
	require.Contains(t, quarantinedNow(t, u.Host.Root), `"name":"0000:43:00.0","reason"`)
}

// gpukit on a unit of the charm has the unit's options, and its leases.
func TestUnitsOptionsHavePriority(t *testing.T) {
	u := onWorkstation(t)
	hosttest.Put(t, u.Host.Root, workstation.OptionsFile, "GPUKIT_GPU_QUARANTINE=off\n")
	hosttest.Put(t, u.Host.Root, model.FactsFile, `{"unit": "rocm-worker/0"}`)
	watched(t, u)
	hosttest.Put(t, u.Host.Root, ueFile, "ue: 2\nce: 0\n")
	watched(t, u)
	require.Contains(t, quarantinedNow(t, u.Host.Root), `"name":"0000:43:00.0","reason"`)
	require.Contains(t, statusOf(t, u), "gpu-sharing=shared: GPUs are not leased\n")
}

// The memory of a run is not that of a stranger, and its faults are its evidence.
func TestRunIsAHolderWithEvidence(t *testing.T) {
	u := onWorkstation(t)
	watched(t, u)
	l, err := u.readLeases()
	require.NoError(t, err)
	runs(t, u.Host.Root, "4711")
	hosttest.Put(t, u.Host.Root, "/proc/sys/kernel/random/boot_id", "5f0c-boot\n")
	_, err = l.TryForRun(lease.RunCall{ID: "run-4f1c0a2b91d3", Title: "ada: pytest", PID: 4711, Start: 4242},
		lease.Want{Of: []int{1}, Count: 1})
	require.NoError(t, err)
	watched(t, u)
	require.Contains(t, statusOf(t, u), "by run-4f1c0a2b91d3 (ada: pytest) since ")
	hosttest.Put(t, u.Host.Root, ueFile, "ue: 2\nce: 0\n")
	require.Contains(t, watched(t, u), "GPU 1 (0000:43:00.0): quarantined: ")
	r, err := quarantine.RecordFile.Read(u.Host.Root)
	require.NoError(t, err)
	require.Equal(t, "run-4f1c0a2b91d3", r.Runs[0].Container)
	require.Len(t, r.Runs[0].GPUs[0].NewFaults, 1)
}

// The look is in the process that the watcher starts, and no service of systemd is.
func TestClocksOfARunAreFixedCheckedAndRestored(t *testing.T) {
	u := onWorkstation(t)
	name := slots[1]
	hosttest.Put(t, u.Host.Root, levelFile(name), "auto\n")
	hosttest.Put(t, u.Host.Root, "/proc/sys/kernel/random/boot_id", "5f0c-boot\n")
	require.EqualError(t, u.FixClocks(name, "run-4f1c0a2b91d3"), "GPU 0000:43:00.0: run-4f1c0a2b91d3 does not lease it")
	l, err := u.readLeases()
	require.NoError(t, err)
	runs(t, u.Host.Root, "4711")
	_, err = l.TryForRun(lease.RunCall{ID: "run-4f1c0a2b91d3", PID: 4711, Start: 4242}, lease.Want{Of: []int{1}, Count: 1})
	require.NoError(t, err)
	for range 2 { // the lease service may be restarted
		require.NoError(t, u.FixClocks(name, "run-4f1c0a2b91d3"))
	}
	level := func() string {
		text, err := u.Host.ReadText(levelFile(name))
		require.NoError(t, err)
		return text
	}
	record := workstation.ClocksDir("run-4f1c0a2b91d3") + "/" + fixedclocks.VerdictName
	require.Equal(t, "profile_standard", level())
	require.NoError(t, u.WatchFixedClocks(t.Context(), name, 1))
	data, err := u.Host.ReadFile(record)
	require.NoError(t, err)
	require.Contains(t, string(data), `{"valid": true, `)
	require.Contains(t, statusOf(t, u), "its clocks are fixed (profile_standard) for run-4f1c0a2b91d3 since ")

	require.NoError(t, os.RemoveAll(u.Host.Path("/proc/4711")))
	require.NoError(t, u.WatchFixedClocks(t.Context(), name, 1))
	require.Regexp(t, "^auto\n", level()+"\n")
	require.False(t, u.Host.Exists(record))
}
