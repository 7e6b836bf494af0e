package quarantine

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestSoftwareOfAGPU(t *testing.T) {
	r := host.Root(t.TempDir())
	hosttest.Put(t, r, "/proc/sys/kernel/osrelease", "6.14.0-24-generic\n")
	hosttest.Put(t, r, "/sys/bus/pci/devices/0000:03:00.0/fw_version/mes_fw_version", "0x00000083\n")
	hosttest.Put(t, r, "/sys/bus/pci/devices/0000:03:00.0/fw_version/mec_fw_version", "0x00000000\n")
	require.Equal(t, map[string]string{"kernel": "6.14.0-24-generic", "firmware mes": "0x00000083"}, SoftwareOf(r, "0000:03:00.0"))
}

// Each case has the resets of a day with the previous software, and with the next.
func TestRiseAfterAChangeOfTheSoftwareIsAWarning(t *testing.T) {
	old := map[string]string{"kernel": "6.14", "firmware mes": "0x80"}
	for name, c := range map[string]struct {
		before, after []int
		next          map[string]string
		want          string
	}{
		"a kernel":            {[]int{0, 0, 0}, []int{2, 1}, map[string]string{"kernel": "6.17", "firmware mes": "0x80"}, "3 hangs and resets since kernel 6.14 became 6.17, 0 in the 3 days before"},
		"a firmware":          {[]int{1, 0, 0, 0, 0, 0, 0, 0, 0, 0}, []int{0, 4}, map[string]string{"kernel": "6.14", "firmware mes": "0x83"}, "4 hangs and resets since firmware mes 0x80 became 0x83, 1 in the 10 days before"},
		"as often as before":  {[]int{1, 2, 1}, []int{2, 1}, map[string]string{"kernel": "6.17"}, ""},
		"too few":             {[]int{0, 0, 0}, []int{1, 1}, map[string]string{"kernel": "6.17"}, ""},
		"the same software":   {[]int{0, 0, 0}, []int{9, 9}, old, ""},
		"unknown before":      {nil, []int{9, 9}, map[string]string{"kernel": "6.17"}, ""},
		"long after":          {[]int{0, 0, 0}, append(make([]int, 20), 9), map[string]string{"kernel": "6.17"}, ""},
		"the software is new": {[]int{0, 0, 0}, []int{9}, map[string]string{"kernel": "6.14", "firmware mes": "0x80", "driver": "6.16"}, ""},
	} {
		var r Record
		at := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
		day := func(resets int, software map[string]string) {
			for hour := range 24 {
				s := Reading{Slot: gpu.Slot{PCI: "0000:03:00.0"}, Up: true, State: health.Healthy}
				if hour == 0 {
					s.Software = software
				}
				if hour >= 1 && hour < 20 && resets > 0 {
					s.Faults = []health.Fault{{Kind: health.RingResets, Value: float64(resets)}}
				}
				r = Decide(r, Look{At: at, Policy: Auto, Boot: fmt.Sprint(software), GPUs: []Reading{s}})
				at = at.Add(time.Hour)
			}
		}
		for _, n := range c.before {
			day(n, old)
		}
		for _, n := range c.after {
			day(n, c.next)
		}
		require.Equal(t, c.want, r.GPUs[0].WarningText(), name)
	}
}

// A driver that is loaded again leaves the log of the day.
func TestResetsBeforeAChangeOfTheSoftwareAreNotOfTheNext(t *testing.T) {
	s := Reading{Slot: gpu.Slot{PCI: "0000:03:00.0"}, Up: true, State: health.Healthy, Software: map[string]string{"driver": "6.16"}}
	at := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	r := Decide(Record{}, Look{At: at, Policy: Auto, Driver: "1", GPUs: []Reading{s}})
	s.Faults = []health.Fault{{Kind: health.RingResets, Value: 4}}
	r = Decide(r, Look{At: at.AddDate(0, 0, 10), Policy: Auto, Driver: "1", GPUs: []Reading{s}})
	s.Software = map[string]string{"driver": "6.17"}
	for range 3 {
		at = at.Add(time.Minute)
		r = Decide(r, Look{At: at.AddDate(0, 0, 10), Policy: Auto, Driver: "2", GPUs: []Reading{s}})
	}
	require.Empty(t, r.GPUs[0].WarningText())
}

func TestAllWarningsAboutAGPUAreShown(t *testing.T) {
	g := GPU{State: InService, Rise: "3 hangs", Warning: &health.Fault{Kind: hangs, Value: 2}}
	require.Equal(t, "2 runs in a row hung on it, and their programs run well on others; run a program on it with a result that you know; 3 hangs", g.WarningText())
}
