package actions

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/top"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/gpuhealth"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/monitor"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

const threeGPUs = `{"gpus": [
 {"index": 0, "name": "AMD Instinct MI210", "pci_bus_id": "0000:23:00.0", "health": {"state": "healthy", "score": 97.4, "reason": "nothing wrong with errors"}},
 {"index": 1, "name": "AMD Instinct MI210", "pci_bus_id": "0000:43:00.0", "health": {"state": "critical", "score": 0, "reason": "hangs or is in reset (kernel_log)", "codes": [2]}},
 {"index": 2, "name": "AMD Instinct MI210", "pci_bus_id": "0000:83:00.0", "health": {"state": "unknown", "score": null, "reason": "suspended, and without error counters"}}]}`

// recorded returns a machine on which the owner of the GPUs has just recorded a report.
func recorded(t *testing.T, name, report string) *Actions {
	t.Helper()
	r := hosttest.Host(t, name)
	var all api.Report
	require.NoError(t, json.Unmarshal([]byte(report), &all))
	all.Time = hosttest.Now
	require.NoError(t, api.File(role.GPUReport).Write(r, all))
	return &Actions{Charm: &charm.Charm{Host: hosttest.Quiet(t, r)}}
}

func TestHealthComesFromTheOwnersRecord(t *testing.T) {
	c := recorded(t, "mi210x4", threeGPUs)
	var b strings.Builder
	err := c.GPUHealth(t.Context(), &b, term.Format{})
	require.EqualError(t, err, "cannot rely on 1 of 3 GPUs: GPU 1: hangs or is in reset (kernel_log) (see dispatch explain 2)")
	require.Equal(t, "GPU 0   healthy    97  AMD Instinct MI210  0000:23:00.0\n        nothing wrong with errors\n"+
		"GPU 1   critical    0  AMD Instinct MI210  0000:43:00.0\n        hangs or is in reset (kernel_log) (see dispatch explain 2)\n"+
		"GPU 2   unknown     -  AMD Instinct MI210  0000:83:00.0\n        suspended, and without error counters\n", b.String())

	var coloured strings.Builder
	require.Error(t, c.GPUHealth(t.Context(), &coloured, term.Format{Colour: true}))
	require.Contains(t, coloured.String(), "\x1b[1;31mcritical\x1b[0m")
	require.Equal(t, b.String(), escapes.ReplaceAllString(coloured.String(), ""))

	b.Reset()
	require.Error(t, c.GPUHealth(t.Context(), &b, term.Format{JSON: true}))
	var got api.Report
	require.NoError(t, json.Unmarshal([]byte(b.String()), &got))
	want, err := gpuhealth.Current(c.Host.Root, role.GPUReport, hosttest.Now)
	require.NoError(t, err)
	require.Equal(t, want.GPUs, got.GPUs, "unchanged")
	require.NotContains(t, b.String(), "read_once")
}

// The owner's record and the single reading are the same on a fixture host.
func TestHealthIsTheSameWithAndWithoutARecord(t *testing.T) {
	r := hosttest.Host(t, "mi210x4")
	require.NoError(t, monitor.New(r, monitor.All(r), monitor.Options{Now: hosttest.Clock{T: hosttest.Now}.Now}).WriteReport(role.GPUReport))
	var with, without strings.Builder
	c := &Actions{Charm: &charm.Charm{Host: hosttest.Quiet(t, r)}}
	require.ErrorContains(t, c.GPUHealth(t.Context(), &with, term.Format{}), "uncorrectable error")
	require.NoError(t, r.Remove(role.GPUReport))
	err := c.GPUHealth(t.Context(), &without, term.Format{})
	require.EqualError(t, err, "cannot rely on 1 of 4 GPUs: GPU 3: 1 uncorrectable error; 1 bad memory page "+
		"(see dispatch explain 1 7)")
	require.Equal(t, with.String()+"read once, without history: the GPUs were not read yet\n", without.String())
	require.Contains(t, with.String(), "GPU 3   critical   30  ")
}

func TestHealthIsReadOnceWithoutACurrentRecord(t *testing.T) {
	for why, content := range map[string]string{
		"the GPUs were not read yet":                                 `{}`,
		"the last reading of the GPUs is of 2026-01-01 00:00:00 UTC": `{"time": "2026-01-01T00:00:00Z"}`,
		"no GPU was found":                                           `{"time": "2026-01-02T03:04:05Z", "gpus": []}`,
		"cannot read " + role.GPUReport + ": it is damaged":          `<html>`,
	} {
		c := &Actions{Charm: &charm.Charm{Host: hosttest.Quiet(t, hosttest.Host(t, "amd"))}}
		hosttest.Put(t, c.Host.Root, role.GPUReport, content)
		var b strings.Builder
		require.NoError(t, c.GPUHealth(t.Context(), &b, term.Format{}), why)
		require.Contains(t, b.String(), "healthy", why)
		require.Contains(t, b.String(), "read once, without history: "+why)
	}
}

func TestEqualPartitionsAreFolded(t *testing.T) {
	var all api.Report
	for i := range 63 { // the last partition is lost
		s := api.Status{Index: i, Name: "AMD Instinct MI300X", PCI: fmt.Sprintf("0000:%02x:00.0", i/8), Partition: i % 8,
			Health: api.Health{State: health.Healthy, Score: new(100.0), Reason: "nothing wrong"}}
		if i/8 == 1 {
			s.Health = api.Health{State: health.Critical, Score: new(30.0), Reason: "1 bad memory page", Codes: []int{7}}
		}
		if i == 20 {
			s.Health = api.Health{State: health.Unknown, Reason: "no answer"}
		}
		all.GPUs = append(all.GPUs, s)
	}
	var b strings.Builder
	require.NoError(t, writeHealth(&b, term.Format{}, all, ""))
	require.Equal(t, 2*10, strings.Count(b.String(), "\n"), b.String())
	require.Contains(t, b.String(), "GPU 0-7    healthy   100  AMD Instinct MI300X  0000:00:00.0  8 partitions\n        nothing wrong\n"+
		"GPU 8-15   critical   30  AMD Instinct MI300X  0000:01:00.0  8 partitions\n        1 bad memory page (see dispatch explain 7)\n"+
		"GPU 16-19  healthy   100  AMD Instinct MI300X  0000:02:00.0  4 partitions\n        nothing wrong\n"+
		"GPU 20     unknown     -  AMD Instinct MI300X  0000:02:00.0\n        no answer\n"+
		"GPU 21-23  healthy   100  ")
	require.Contains(t, b.String(), "GPU 56-62  healthy   100  AMD Instinct MI300X  0000:07:00.0  7 partitions\n")

	var whole []api.Status
	for i := range 3 { // GPUs without partitions, even if an address repeats
		whole = append(whole, api.Status{Index: i})
	}
	require.Len(t, foldHealth(whole), 3)
}

func TestErrorNamesPartitionsOnce(t *testing.T) {
	var gpus []string
	for p := range 8 {
		gpus = append(gpus, fmt.Sprintf(`{"index": %d, "pci_bus_id": "0000:0a:00.0", "partition": %[1]d, "health": {"state": "critical", "reason": "1 bad memory page"}}`, p))
	}
	c := recorded(t, "mi300x-cpx", `{"gpus": [`+strings.Join(gpus, ",")+`]}`)
	require.EqualError(t, c.GPUHealth(t.Context(), io.Discard, term.Format{}), "cannot rely on 8 of 8 GPUs: GPU 0-7: 1 bad memory page")
}

func TestHealthWithoutAGPU(t *testing.T) {
	for _, name := range []string{"no-gpu", "bmc-vfio"} {
		var b strings.Builder
		err := (&Actions{Charm: &charm.Charm{Host: hosttest.Quiet(t, hosttest.Host(t, name))}}).GPUHealth(t.Context(), &b, term.Format{})
		require.EqualError(t, err, "cannot judge GPU health: no GPU detected", name)
		require.Empty(t, b.String())
	}
}

// Without a record nvidia-smi is not run, and the health is unknown.
func TestHealthOfNVIDIAGPUFromOneReading(t *testing.T) {
	var b strings.Builder
	charm := &Actions{Charm: &charm.Charm{Host: hosttest.Quiet(t, hosttest.Host(t, "nvidia-only"))}}
	require.NoError(t, charm.GPUHealth(t.Context(), &b, term.Format{}))
	require.Contains(t, b.String(), "GPU 0   unknown     -  NVIDIA GeForce RTX 4090  0000:0a:00.0\n        no error counters, no temperature with its limit and no time under limits\n")
}

func TestCriticalGPUsAreInTheStatus(t *testing.T) {
	c := recorded(t, "mi210x4", threeGPUs)
	all, unknown := c.ReadGPUs(t.Context(), charm.Unchanged)
	require.Nil(t, unknown)
	require.Equal(t, []status.Cause{status.Warn("GPU 1 is critical: hangs or is in reset (kernel_log)").
		Run("juju run w/0 explain-error code=2")}, gpuhealth.CriticalCauses(all, wellknown.Commands{Unit: "w/0"}))
	require.Len(t, gpuhealth.CriticalCauses(slices.Repeat(all, 64), wellknown.Commands{Unit: "w/0"}), 64, "check-status has all of them")
}

// A GPU that hangs blocks the process that reads it.
func TestHealthOfGPUsThatCannotBeRead(t *testing.T) {
	argv := []string{"dispatch", "gpu", "snapshot"}
	runner := hosttest.NewRunner(t).On("dispatch gpu snapshot", func(c host.Command) (string, error) {
		require.True(t, c.ReadOnly)
		return "", &host.CommandError{Argv: c.Argv, Code: -1, Timeout: c.Deadline}
	})
	c := &Actions{Charm: &charm.Charm{Host: hosttest.Quiet(t, hosttest.Host(t, "amd"))}, ReadReport: gpuhealth.NewReader(runner, wellknown.Commands{}, argv...)}
	var b strings.Builder
	require.EqualError(t, c.GPUHealth(t.Context(), &b, term.Format{}),
		"cannot judge GPU health: the GPUs were not read yet, and reading the GPUs does not end within 6s: one hangs; see dispatch explain 2")
	require.Empty(t, b.String())

	c.ReadReport = gpuhealth.NewReader(hosttest.NewRunner(t).Answer("dispatch gpu snapshot", "no JSON"), wellknown.Commands{}, argv...)
	require.ErrorContains(t, c.GPUHealth(t.Context(), &b, term.Format{}), `cannot read the answer of "dispatch gpu snapshot"`)

	report, err := json.Marshal(gpuhealth.Read(c.Host.Root))
	require.NoError(t, err)
	c.ReadReport = gpuhealth.NewReader(hosttest.NewRunner(t).Answer("dispatch gpu snapshot", string(report)), wellknown.Commands{}, argv...)
	require.NoError(t, c.GPUHealth(t.Context(), &b, term.Format{}))
	require.Contains(t, b.String(), "GPU 0   healthy   100  AMD Radeon RX 7900 XT  0000:03:00.0\n")
}

// A program on the port can add at most a line to a status.
func FuzzParseReport(f *testing.F) {
	for _, s := range []string{threeGPUs, "", "{}", `{"gpus": [{}]}`, `{"gpus": [{"name": "\u001b[2J\n", "health": {"state": "cri\u0000tical", "reason": "a\tb"}}]}`,
		`{"gpus": [{"index": -1, "health": {"score": 1e308}}]}`, `{"gpus": null}`, hostileTop} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		report, err := gpuhealth.ParseReport(data)
		if err != nil {
			require.Empty(t, report.GPUs)
			return
		}
		for _, line := range new(top.View).Lines(term.Format{}, top.Frame{Report: report}) {
			require.False(t, strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }), "%q", line)
			require.LessOrEqual(t, utf8.RuneCountInString(line), 2000)
		}
		for _, s := range report.GPUs {
			for _, text := range []string{s.Name, s.PCI, s.Health.Reason} {
				require.LessOrEqual(t, utf8.RuneCountInString(text), 303)
				require.False(t, strings.ContainsFunc(text, unicode.IsControl), "%q", text)
			}
			require.Contains(t, api.States, s.Health.State)
		}
		require.NoError(t, writeHealth(io.Discard, term.Format{JSON: true}, report, ""))
		require.NoError(t, writeHealth(io.Discard, term.Format{Colour: true}, report, ""))
	})
}

// hostileTop returns an answer that would move the cursor, change colours, reverse text or
// fill the screen.
const hostileTop = `{"unit": "\u001b]0;x\u0007", "time": "2026-01-02T03:04:05Z", "gpus": [
 {"index": 0, "pci_bus_id": "\u009b2J", "health": {"state": "critical\u001b[31m", "reason": "a\nb"}, "service": {"state": "\u001b[2Jout", "why": "\u202e\n", "by": "\u0007"}, "lease": {"held": true, "container": "\u001b[2Jheld", "doubt": "\r"},
  "users": [{"container": "\u001b[2Jheld", "processes": 1, "memory_bytes": {"vram": 1e300, "\u001b": 1}, "engine_seconds": {"\u0000gfx": 1e300, "dma": -1e17}, "engine_busy_ratio": {"dma": 1e12}, "compute_units": 1e300},
            {"container": "\u202egnp.exe\u2066\n\tx", "processes": 1}, {"container": "` + "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" + `", "processes": 2}]}]}`
