package worker

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/oci"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/resourcetest"
)

// slotsOf lists the slots of the fixture mi210x4.
var slotsOf = []string{"0000:23:00.0", "0000:43:00.0", "0000:83:00.0", "0000:c3:00.0"}

// quarantined quarantines these GPUs with a hang.
func quarantined(o *Observed, gpus ...int) {
	l := quarantine.Look{At: o.Now, Policy: quarantine.Auto}
	for i, name := range slotsOf {
		l.GPUs = append(l.GPUs, quarantine.Reading{Slot: gpu.Slot{PCI: name, Index: i}, Up: true, State: health.Healthy})
	}
	o.Quarantine = quarantine.Decide(quarantine.Record{}, l)
	l.At = l.At.Add(time.Second)
	for _, i := range gpus {
		l.GPUs[i].State, l.GPUs[i].Faults = health.Critical, []health.Fault{{Kind: health.Hang, Signals: []string{"kernel_log"}}}
	}
	o.Quarantine = quarantine.Decide(o.Quarantine, l)
}

// next changes the observed tags to the state of the next hook.
func next(t *testing.T, o *Observed, d Desired, after time.Duration) {
	t.Helper()
	if data, ok := resourcetest.File(d.Resources, tagsFile); ok {
		o.TagState = tagState{}
		require.NoError(t, json.Unmarshal([]byte(data), &o.TagState))
	}
	o.Now = o.Now.Add(after)
}

// A unit of mode=auto may be the web for a while. The record keeps manual quarantine and
// handled errors.
func TestQuarantineRecordSurvivesTheWebRole(t *testing.T) {
	o := observed(t, hosttest.Host(t, "amd"), map[string]any{"compute-runtime": "rocm"})
	var web Desired
	web.Resources = RemoveForWeb(o.Observed)
	require.False(t, absent(web, quarantine.File))
	require.False(t, absent(web, quarantine.AdmissionFile), "the first task after it may come before the first look")
	other := Desire(observed(t, hosttest.Host(t, "amd"), map[string]any{"compute-runtime": "none"}), nil)
	require.True(t, absent(other, quarantine.File))
}

func TestTagsAndStatusFollowQuarantine(t *testing.T) {
	o := observed(t, hosttest.Host(t, "mi210x4"), map[string]any{"compute-runtime": "rocm"})
	all := Desire(o, nil)
	require.Equal(t, " (GPU: 4x AMD)", all.Suffix)
	_, remembered := resourcetest.File(all.Resources, tagsFile)
	require.False(t, remembered, "nothing was ever quarantined")

	quarantined(&o, 1)
	d := Desire(o, nil)
	require.Equal(t, " (GPU: 4x AMD, 1 quarantined: hang)", d.Suffix, "the status tells at once")
	require.Equal(t, env(t, all), env(t, d), "a short sickness restarts nothing")
	_, remembered = resourcetest.File(d.Resources, tagsFile)
	require.False(t, remembered, "no tag has changed")
	next(t, &o, d, excludeAfter+time.Second)
	d = Desire(o, nil)
	require.Equal(t, "gpu,compute-runtime=rocm,rocm,gpu-count=3,gfx=gfx90a", env(t, d)["CONCOURSE_TAG"])
	require.Equal(t, wrapperOf(t, all), wrapperOf(t, d), "the wrapper knows by itself")
	require.Equal(t, 4, d.GPUs.Count, "the web's limit is of what the unit has")

	// A GPU with repeated faults does not restart the worker each time.
	next(t, &o, d, 4*time.Minute)
	quarantined(&o, 1, 2)
	d = Desire(o, nil)
	require.Equal(t, " (GPU: 4x AMD, 2 quarantined: hang)", d.Suffix)
	require.Contains(t, env(t, d)["CONCOURSE_TAG"], "gpu-count=3")
	next(t, &o, d, excludeAfter+time.Second)
	d = Desire(o, nil)
	require.Contains(t, env(t, d)["CONCOURSE_TAG"], "gpu-count=2")
	again := o
	next(t, &again, d, 10*time.Minute)
	after := Desire(again, nil)
	a, _ := resourcetest.File(d.Resources, tagsFile)
	b, _ := resourcetest.File(after.Resources, tagsFile)
	require.Equal(t, a, b, "a hook that finds nothing new writes nothing")

	// Without GPUs in service the worker takes neither steps with a GPU's tag nor untagged
	// steps.
	next(t, &o, d, time.Hour)
	o.Quarantine = quarantine.Record{}
	quarantined(&o, 0, 1, 2, 3)
	d = Desire(o, nil)
	require.Equal(t, " (GPU: 4x AMD, 4 quarantined: all GPUs at once: driver or machine)", d.Suffix)
	require.Equal(t, "gpu-count=0", env(t, d)["CONCOURSE_TAG"])
	require.True(t, d.Up, "running tasks stay")

	// Back.
	next(t, &o, d, time.Hour)
	quarantined(&o)
	require.Equal(t, env(t, all), env(t, Desire(o, nil)))
}

func TestQuarantineOffTagsAllGPUs(t *testing.T) {
	o := observed(t, hosttest.Host(t, "mi210x4"), map[string]any{"compute-runtime": "rocm", "gpu-quarantine": "off"})
	quarantined(&o, 1)
	d := Desire(o, nil)
	require.Equal(t, " (GPU: 4x AMD)", d.Suffix)
	require.Contains(t, env(t, d)["CONCOURSE_TAG"], "gpu-count=4")
	require.Empty(t, wrapperOf(t, d).Quarantine)
	require.True(t, absent(d, tagsFile))
}

func TestTaskLimitIsTheNumberOfGPUsInService(t *testing.T) {
	o := observed(t, hosttest.Host(t, "mi210x4"), map[string]any{"compute-runtime": "rocm", "gpu-sharing": "exclusive"})
	o.WorkerLimit = workerLimit{Release: "8.2.5", Supported: true}
	for out, want := range map[int]string{0: "4", 1: "3", 4: "1"} { // 0 would be no limit
		quarantined(&o, []int{0, 1, 2, 3}[:out]...)
		o.Now = o.Now.Add(time.Hour)
		require.Equal(t, want, env(t, Desire(o, nil))["CONCOURSE_MAX_ACTIVE_TASKS"])
	}
}

func TestManualReturnIsInTheStatus(t *testing.T) {
	o := observed(t, hosttest.Host(t, "mi210x4"), map[string]any{"compute-runtime": "rocm"})
	quarantined(&o, 2)
	o.Quarantine.Find(slotsOf[2]).ManualReturn = true
	d := Desire(o, nil)
	require.Contains(t, d.Causes[len(d.Causes)-1].String()+d.Causes[0].String(),
		"GPU 2 failed too often to return by itself — after the repair run: juju run concourse-ci-machine/0 return-gpu gpu=2")
}

func TestWatchRunsOnUnitsWithAMDGPUs(t *testing.T) {
	for _, sharing := range []string{"shared", "exclusive"} {
		o := running(observed(t, hosttest.Host(t, "mi210x4"), map[string]any{"compute-runtime": "rocm", "gpu-sharing": sharing}))
		d := Desire(o, nil)
		layer, ok := resourcetest.File(d.Resources, "/var/lib/concourse-ci-machine/pebble/layers/001-rocm-exporter.yaml")
		require.True(t, ok)
		require.Contains(t, layer, " -- /opt/concourse-ci-machine/bin/dispatch gpu watch\n")
		require.Contains(t, layer, " --service.report=/var/lib/concourse-ci-machine/gpu-quarantine.json")
		w := wrapperOf(t, d)
		require.Equal(t, quarantine.AdmissionFile, w.Quarantine)
		require.Equal(t, oci.GPU{Name: slotsOf[3], CDI: "amd.com/gpu=" + o.GPUs.GPUs[3].ID(), Nodes: []string{"/dev/dri/renderD131", "/dev/dri/card4"}}, w.GPUs[3])
	}
	d := Desire(observed(t, hosttest.Host(t, "mi210x4"), map[string]any{"compute-runtime": "none"}), nil)
	require.True(t, absent(d, quarantine.File))
	require.True(t, absent(d, quarantine.AdmissionFile))
}

// Statistics do not quarantine a GPU: tags and wrapper are unchanged, and the status has a
// warning.
func TestGPUWithFailedTasksStaysInServiceWithAWarning(t *testing.T) {
	o := observed(t, hosttest.Host(t, "mi210x4"), map[string]any{"compute-runtime": "rocm"})
	quarantined(&o)
	all := Desire(o, nil)
	o.Quarantine.Find(slotsOf[1]).Warning = &health.Fault{Kind: "failed_tasks", Value: 4, Signals: []string{"40 correctable errors"}}
	d := Desire(o, nil)
	require.Equal(t, env(t, all), env(t, d))
	require.Equal(t, wrapperOf(t, all), wrapperOf(t, d))
	require.Contains(t, text("Ready"+d.Suffix, d.Causes), "Ready (GPU: 4x AMD); GPU 1: 4 different tasks crash only on it, and 40 correctable errors; run a program on it")
}

func TestTagsExcludeLongQuarantineAndLastGPUOfAnArchitecture(t *testing.T) {
	const a, b, c, other = "0000:03:00.0", "0000:43:00.0", "0000:83:00.0", "0000:c3:00.0"
	chosen := []gpu.GPU{{Slot: gpu.Slot{PCI: a, GFX: "gfx90a"}}, {Slot: gpu.Slot{PCI: b, GFX: "gfx90a"}}, {Slot: gpu.Slot{PCI: c, GFX: "gfx90a"}}, {Slot: gpu.Slot{PCI: other, GFX: "gfx942"}}}
	long, brief := 10*time.Minute, 9*time.Minute
	for name, one := range map[string]struct {
		before string                   // what the tags left out
		ago    time.Duration            // since when
		out    map[string]time.Duration // for how long each is quarantined
		want   string
	}{
		"nothing ever was":                     {"", 0, nil, ""},
		"a short sickness":                     {"", 0, map[string]time.Duration{b: brief}, ""},
		"one that lasts":                       {"", 0, map[string]time.Duration{b: long}, b},
		"one that lasts, and a short one":      {"", 0, map[string]time.Duration{a: brief, b: long}, b},
		"the last of an architecture, at once": {"", 0, map[string]time.Duration{other: 0}, other},
		"that, and a short sickness":           {"", 0, map[string]time.Duration{b: 0, other: 0}, other},
		"none left, at once":                   {"", 0, map[string]time.Duration{a: 0, b: 0, c: 0, other: 0}, a + " " + b + " " + c + " " + other},
		"back":                                 {b, tagChangeInterval, nil, ""},
		"back, and right after a change":       {b, tagChangeInterval - 1, nil, b},
		"the first back, at once": {a + " " + b + " " + c + " " + other, time.Second,
			map[string]time.Duration{a: 0, c: 0, other: 0}, a + " " + c + " " + other},
		"lasts, and right after a change":    {b, tagChangeInterval - 1, map[string]time.Duration{b: long, c: long}, b},
		"sick again before the tags had it":  {b, time.Hour, map[string]time.Duration{b: 0}, b},
		"a clock that was set back":          {b, -time.Hour, map[string]time.Duration{a: -time.Hour}, a},
		"quarantined while the hook looks":   {"", 0, map[string]time.Duration{b: -time.Second}, ""},
		"one that tasks do not get any more": {"0000:63:00.0", time.Hour, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var before tagState
			if one.ago != 0 {
				before = tagState{strings.Fields(one.before), hosttest.Now.Add(-one.ago)}
			}
			var quarantined []quarantine.GPU
			for name, since := range one.out {
				at := hosttest.Now.Add(-since)
				quarantined = append(quarantined, quarantine.GPU{Ref: quarantine.Ref{Name: name}, QuarantinedSince: &at})
			}
			after := before.update(chosen, quarantined, hosttest.Now)
			require.Equal(t, one.want, strings.Join(after.Excluded, " "))
			if one.want == one.before {
				require.Equal(t, before, after, "nothing is new, so the date stays")
			} else {
				require.Equal(t, hosttest.Now, after.ChangedAt)
			}
			require.Equal(t, after, after.update(chosen, quarantined, hosttest.Now), "a second look changes nothing")
		})
	}
}

// A GPU with one fault that returns within minutes does not change the tags.
func TestFirstHealthCheckEndsBeforeTheTagsChange(t *testing.T) {
	o := Observed{}
	o.Now = hosttest.Now
	quarantined(&o, 1)
	l := quarantine.Look{At: o.Now, Policy: quarantine.Auto}
	for i, name := range slotsOf {
		l.GPUs = append(l.GPUs, quarantine.Reading{Slot: gpu.Slot{PCI: name, Index: i}, Up: true})
	}
	for o.Quarantine.Find(slotsOf[1]).State != quarantine.InService {
		l.At = l.At.Add(6 * time.Second)
		o.Quarantine = quarantine.Decide(o.Quarantine, l)
		require.Less(t, l.At.Sub(hosttest.Now), excludeAfter-4*time.Minute, "4 minutes for the sickness")
	}
}
