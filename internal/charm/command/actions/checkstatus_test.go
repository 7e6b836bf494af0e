package actions

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/charm"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/usage"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// onHost returns a unit on a fixture host.
func onHost(t *testing.T, host string) *Actions {
	t.Helper()
	return &Actions{Charm: &charm.Charm{Host: hosttest.Quiet(t, hosttest.Host(t, host))}}
}

func healthyReading(name string, index int) quarantine.Reading {
	return quarantine.Reading{Slot: gpu.Slot{PCI: name, Index: index, GFX: "gfx90a"}, Up: true, State: health.Healthy}
}

// faultyRecord returns a record of GPUs with these faults.
func faultyRecord(c *Actions, faults map[string]health.Fault, names ...string) quarantine.Record {
	l := quarantine.Look{At: c.Host.Now().Add(-time.Hour), Policy: quarantine.Auto}
	for i, name := range names {
		l.GPUs = append(l.GPUs, healthyReading(name, i))
	}
	r := quarantine.Decide(quarantine.Record{}, l)
	l.At = l.At.Add(time.Second)
	for i, name := range names {
		if f, sick := faults[name]; sick {
			l.GPUs[i].State, l.GPUs[i].Faults = health.Critical, []health.Fault{f}
		}
	}
	return quarantine.Decide(r, l)
}

func TestCheckStatusNamesQuarantinedGPUsWithTheRemedy(t *testing.T) {
	const a, b, d, away = "0000:23:00.0", "0000:43:00.0", "0000:83:00.0", "0000:99:00.0"
	const one, two = "GPU 0 (GPU-7c1e55a90b34d2f6, 0000:23:00.0)", "GPU 1 (GPU-2f90ab16c8e7431d, 0000:43:00.0)"
	hang := health.Fault{Kind: health.Hang, Signals: []string{"kernel_log"}}
	c := onHost(t, "mi210x4")
	at := c.Host.Now().Add(-time.Hour + time.Second).UTC().Format("2006-01-02 15:04:05 UTC")
	for name, tc := range map[string]struct {
		record func() quarantine.Record
		want   []string
	}{
		"nobody watches": {func() quarantine.Record { return quarantine.Record{} }, nil},
		"all are well": {func() quarantine.Record { return faultyRecord(c, nil, a, b) }, []string{
			"ok      gpus in service: 2 of 2"}},
		"one hangs": {func() quarantine.Record {
			return faultyRecord(c, map[string]health.Fault{b: hang}, a, b, d)
		}, []string{
			"warn    service of " + two + ": has been quarantined since " + at +
				": hangs or is in reset (kernel_log); what to do: juju run w/0 explain-error code=2",
			"ok      gpus in service: 2 of 3"}},
		"KFD does not know one": {func() quarantine.Record {
			return faultyRecord(c, map[string]health.Fault{b: {Kind: "not_in_kfd"}}, a, b)
		}, []string{
			"warn    service of " + two + ": has been quarantined since " + at +
				": the kernel's KFD no longer lists it; more: juju run w/0 gpu-status",
			"ok      gpus in service: 1 of 2"}},
		"one is gone": {func() quarantine.Record {
			return faultyRecord(c, map[string]health.Fault{away: hang}, a, away)
		}, []string{
			"warn    service of GPU 0000:99:00.0: has been quarantined since " + at +
				": hangs or is in reset (kernel_log); restore it, or go on without it: " +
				"juju run w/0 return-gpu gpu=0000:99:00.0",
			"ok      gpus in service: 1 of 2"}},
		"on probation": {func() quarantine.Record {
			r := faultyRecord(c, map[string]health.Fault{b: hang}, a, b)
			l := quarantine.Look{At: c.Host.Now().Add(-30 * time.Minute), Policy: quarantine.Auto}
			for i, name := range []string{a, b} {
				l.GPUs = append(l.GPUs, healthyReading(name, i))
			}
			return quarantine.Decide(r, l)
		}, []string{
			"warn    service of " + two + ": has been quarantined since " + at +
				": hangs or is in reset (kernel_log); healthy again since " +
				c.Host.Now().Add(-30*time.Minute).UTC().Format("2006-01-02 15:04:05 UTC") +
				"; on probation; it returns by itself; at once: juju run w/0 return-gpu gpu=1",
			"ok      gpus in service: 1 of 2"}},
		"too often": {func() quarantine.Record {
			r := faultyRecord(c, map[string]health.Fault{b: hang}, a, b)
			r.Find(b).ManualReturn = true
			return r
		}, []string{
			"FAILED  service of " + two + ": has been quarantined since " + at +
				": hangs or is in reset (kernel_log); too often within a day, so an operator must return it; " +
				"after the repair: juju run w/0 return-gpu gpu=1",
			"ok      gpus in service: 1 of 2"}},
		"its tasks end badly": {func() quarantine.Record {
			r := faultyRecord(c, nil, a, b)
			r.Find(b).Warning = &health.Fault{Kind: "failed_tasks", Value: 4, Signals: []string{
				"40 correctable errors"}}
			return r
		}, []string{
			"warn    tasks of " + two + ": 4 different tasks crash only on it, and 40 correctable errors; " +
				"run a program on it with a result that you know",
			"ok      gpus in service: 2 of 2"}},
		"by hand, and none is left": {func() quarantine.Record {
			r, err := faultyRecord(c, nil, a).Quarantine(a, "noisy fan", c.Host.Now().Add(-time.Hour+time.Second))
			require.NoError(t, err)
			return r
		}, []string{
			"warn    service of " + one + ": has been quarantined since " + at +
				" by hand: noisy fan; return it: juju run w/0 return-gpu gpu=0",
			"FAILED  gpus in service: 0 of 1; tasks that request a GPU are refused"}},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, quarantine.RecordFile.Write(c.Host.Root, tc.record()))
			var r report
			c.checkService("w/0", &r)
			want := bytes.Buffer{}
			for _, line := range tc.want {
				fmt.Fprintln(&want, line)
			}
			require.Equal(t, want.String(), r.text())
		})
	}
	hosttest.Put(t, c.Host.Root, quarantine.File, "{")
	var r report
	c.checkService("w/0", &r)
	require.Empty(t, r.checks, "it is made again within seconds")
}

// Versions and the kernel's view of the GPUs help to find the cause of a failure.
func TestDetailsOfAWorkerHaveItsRuntimeAndKFD(t *testing.T) {
	for _, role := range []model.Role{model.WorkerRole, model.WebRole} {
		for name, kfd := range map[string]string{"amd": "/dev/kfd is there (", "no-gpu": "no /dev/kfd"} {
			c := onHost(t, name)
			hosttest.Put(t, c.Host.Root, model.FactsFile, "{") // without preflight checks, which ask servers
			c.Host.Runner = hosttest.NewRunner(t).Answer("systemctl show", "").Answer(c.Host.Path(release.BinDir)+"/runc", "runc 1.3.4\nx\n").
				Fail(c.Host.Path(release.BinDir)+"/containerd", 127, "")
			var r report
			c.checkDetails(t.Context(), charm.Decision{Facts: model.Facts{Role: role}}, &r)
			worker := role == model.WorkerRole
			require.Equal(t, worker, strings.Contains(r.text(), "\nok      kfd: "+kfd), r.text())
			require.Equal(t, worker, strings.Contains(r.text(), "\nok      runc: runc 1.3.4\n"))
			require.NotContains(t, r.text(), "containerd")
			require.Contains(t, r.text(), "FAILED  preflight: ")
		}
	}
}

func TestListNamesQuarantinedGPUs(t *testing.T) {
	c := onHost(t, "mi210x4")
	const b = "0000:43:00.0"
	hang := map[string]health.Fault{b: {Kind: health.Hang, Signals: []string{"kernel_log"}}}
	require.NoError(t, quarantine.RecordFile.Write(c.Host.Root, faultyRecord(c, hang, b)))
	var text bytes.Buffer
	require.NoError(t, c.ListGPUs(t.Context(), &text, term.Format{}))
	require.Regexp(t, `\n {7}has been quarantined since .* UTC: hangs or is in reset \(kernel_log\)\n`, text.String())
	text.Reset()
	require.NoError(t, c.ListGPUs(t.Context(), &text, term.Format{JSON: true}))
	require.Contains(t, text.String(), "\"service\": {\n        \"state\": \"quarantined\"")
}

func TestListAndCheckNameOthersOfTheMemory(t *testing.T) {
	c := onHost(t, "mi210x4")
	const want = "58 of 64 GiB are used by llama-server, pid 4242, of this machine"
	record := faultyRecord(c, nil, "0000:23:00.0", "0000:43:00.0")
	record.GPUs[1].Memory = &quarantine.Memory{Total: 64 << 30, Processes: []usage.Process{{PID: 4242, Name: "llama-server", Memory: 58 << 30}}}
	require.NoError(t, quarantine.RecordFile.Write(c.Host.Root, record))
	var text bytes.Buffer
	require.NoError(t, c.ListGPUs(t.Context(), &text, term.Format{}))
	require.Equal(t, 1, strings.Count(text.String(), "\n       "+want+"\n"))
	text.Reset()
	require.NoError(t, c.ListGPUs(t.Context(), &text, term.Format{JSON: true}))
	require.Contains(t, text.String(), `"memory_taken": "`+want+`"`)
	var r report
	c.checkService("w/0", &r)
	require.Contains(t, r.text(), ": "+want+"\n")
}
