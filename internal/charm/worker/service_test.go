package worker

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/charm/status"
	"concourse-ci-machine/internal/gpu/health"
	"concourse-ci-machine/internal/oci"
	"concourse-ci-machine/internal/pool/quarantine"
	"concourse-ci-machine/internal/testutil/hosttest"
	"concourse-ci-machine/internal/testutil/resourcetest"
)

// slotsOf are those of the fixture mi210x4.
var slotsOf = []string{"0000:23:00.0", "0000:43:00.0", "0000:83:00.0", "0000:c3:00.0"}

// withheld has these of its GPUs hang.
func withheld(o *Observed, gpus ...int) {
	l := quarantine.Look{At: o.Now, Policy: quarantine.Auto}
	for i, name := range slotsOf {
		l.GPUs = append(l.GPUs, quarantine.Reading{Name: name, Index: i, Up: true, State: health.Healthy})
	}
	o.Service = quarantine.Decide(quarantine.Record{}, l)
	l.At = l.At.Add(time.Second)
	for _, i := range gpus {
		l.GPUs[i].State, l.GPUs[i].Faults = health.Critical, []health.Fault{{Kind: health.Hang, Signals: []string{"kernel_log"}}}
	}
	o.Service = quarantine.Decide(o.Service, l)
}

// next is what the next hook observes of the tags, a time later.
func next(t *testing.T, o *Observed, d Desired, after time.Duration) {
	t.Helper()
	if data, ok := resourcetest.File(d.Resources, tagsFile); ok {
		o.Tagged = taggedGPUs{}
		require.NoError(t, json.Unmarshal([]byte(data), &o.Tagged))
	}
	o.Now = o.Now.Add(after)
}

// A unit of mode=auto may be the web for a while. It had forgotten what a person withheld,
// and withheld a GPU again that a person had returned with its errors known.
func TestRecordOfGPUsOutlivesATimeAsTheWeb(t *testing.T) {
	o := observed(t, hosttest.Host(t, "amd"), map[string]any{"compute-runtime": "rocm"})
	var web Desired
	web.Resources = Gone(o.Observed)
	require.False(t, absent(web, quarantine.File))
	require.False(t, absent(web, quarantine.AdmissionFile), "the first task after it may come before the first look")
	other := Desire(observed(t, hosttest.Host(t, "amd"), map[string]any{"compute-runtime": "none"}), nil)
	require.True(t, absent(other, quarantine.File))
}

func TestTagsAndStatusFollowWithheldGPUs(t *testing.T) {
	o := observed(t, hosttest.Host(t, "mi210x4"), map[string]any{"compute-runtime": "rocm"})
	all := Desire(o, nil)
	require.Equal(t, " (GPU: 4x AMD)", all.Suffix)
	_, remembered := resourcetest.File(all.Resources, tagsFile)
	require.False(t, remembered, "nothing was ever withheld")

	withheld(&o, 1)
	d := Desire(o, nil)
	require.Equal(t, " (GPU: 4x AMD, 1 withheld: hang)", d.Suffix, "the status tells at once")
	require.Equal(t, env(t, all), env(t, d), "a short sickness restarts nothing")
	_, remembered = resourcetest.File(d.Resources, tagsFile)
	require.False(t, remembered, "no tag has changed")
	next(t, &o, d, shortTime+time.Second)
	d = Desire(o, nil)
	require.Equal(t, "gpu,compute-runtime=rocm,rocm,gpu-count=3,gfx=gfx90a", env(t, d)["CONCOURSE_TAG"])
	require.Equal(t, wrapperOf(t, all), wrapperOf(t, d), "the wrapper knows by itself")
	require.Equal(t, 4, d.GPUs.Count, "the web's limit is of what the unit has")

	// A GPU that flaps does not make a worker that flaps.
	next(t, &o, d, 4*time.Minute)
	withheld(&o, 1, 2)
	d = Desire(o, nil)
	require.Equal(t, " (GPU: 4x AMD, 2 withheld: hang)", d.Suffix)
	require.Contains(t, env(t, d)["CONCOURSE_TAG"], "gpu-count=3")
	next(t, &o, d, shortTime+time.Second)
	d = Desire(o, nil)
	require.Contains(t, env(t, d)["CONCOURSE_TAG"], "gpu-count=2")
	again := o
	next(t, &again, d, 10*time.Minute)
	after := Desire(again, nil)
	a, _ := resourcetest.File(d.Resources, tagsFile)
	b, _ := resourcetest.File(after.Resources, tagsFile)
	require.Equal(t, a, b, "a hook that finds nothing new writes nothing")

	// None left: no step with a GPU's tag comes here, nor one without any.
	next(t, &o, d, time.Hour)
	o.Service = quarantine.Record{}
	withheld(&o, 0, 1, 2, 3)
	d = Desire(o, nil)
	require.Equal(t, " (GPU: 4x AMD, 4 withheld: all GPUs at once: driver or machine)", d.Suffix)
	require.Equal(t, "gpu-count=0", env(t, d)["CONCOURSE_TAG"])
	require.True(t, d.Up, "running tasks stay")

	// Back.
	next(t, &o, d, time.Hour)
	withheld(&o)
	require.Equal(t, env(t, all), env(t, Desire(o, nil)))
}

func TestQuarantineOffTagsAllGPUs(t *testing.T) {
	o := observed(t, hosttest.Host(t, "mi210x4"), map[string]any{"compute-runtime": "rocm", "gpu-quarantine": "off"})
	withheld(&o, 1)
	d := Desire(o, nil)
	require.Equal(t, " (GPU: 4x AMD)", d.Suffix)
	require.Contains(t, env(t, d)["CONCOURSE_TAG"], "gpu-count=4")
	require.Nil(t, wrapperOf(t, d).Quarantine)
	require.True(t, absent(d, tagsFile))
}

func TestOwnLimitIsThatOfGPUsInService(t *testing.T) {
	o := observed(t, hosttest.Host(t, "mi210x4"), map[string]any{"compute-runtime": "rocm", "gpu-sharing": "exclusive"})
	o.WorkerLimit = workerLimit{Release: "8.2.5", Own: true}
	for out, want := range map[int]string{0: "4", 1: "3", 4: "1"} { // 0 would be no limit
		withheld(&o, []int{0, 1, 2, 3}[:out]...)
		o.Now = o.Now.Add(time.Hour)
		require.Equal(t, want, env(t, Desire(o, nil))["CONCOURSE_MAX_ACTIVE_TASKS"])
	}
}

func TestPersonIsToldOfAGPUThatIsTheirs(t *testing.T) {
	o := observed(t, hosttest.Host(t, "mi210x4"), map[string]any{"compute-runtime": "rocm"})
	withheld(&o, 2)
	o.Service.Find(slotsOf[2]).ManualReturn = true
	d := Desire(o, nil)
	require.Contains(t, d.Causes[len(d.Causes)-1].Text+d.Causes[0].Text,
		"GPU 2 fell sick too often to come back by itself; once it is mended: juju run concourse-ci-machine/0 gpu-return gpu=2")
}

func TestWatchRunsWhereverThereAreAMDGPUs(t *testing.T) {
	for _, sharing := range []string{"shared", "exclusive"} {
		d := Desire(running(observed(t, hosttest.Host(t, "mi210x4"), map[string]any{"compute-runtime": "rocm", "gpu-sharing": sharing})), nil)
		layer, ok := resourcetest.File(d.Resources, "/var/lib/concourse-charm/pebble/layers/001-rocm-exporter.yaml")
		require.True(t, ok)
		require.Contains(t, layer, "command: /opt/concourse-ci-machine/bin/dispatch gpu watch\n")
		require.Contains(t, layer, " --service.report=/var/lib/concourse-ci-machine/gpu-service.json")
		w := wrapperOf(t, d).Quarantine
		require.Equal(t, quarantine.AdmissionFile, w.File)
		require.Equal(t, oci.LeasedGPU{Name: slotsOf[3], Nodes: []string{"/dev/dri/renderD131", "/dev/dri/card4"}}, w.GPUs[3])
	}
	d := Desire(observed(t, hosttest.Host(t, "mi210x4"), map[string]any{"compute-runtime": "none"}), nil)
	require.True(t, absent(d, quarantine.File))
	require.True(t, absent(d, quarantine.AdmissionFile))
}

// Statistics withhold nothing: tags and the wrapper stay, and the status has a remark.
func TestGPUWithTasksThatEndBadlyStaysInServiceWithARemark(t *testing.T) {
	o := observed(t, hosttest.Host(t, "mi210x4"), map[string]any{"compute-runtime": "rocm"})
	withheld(&o)
	all := Desire(o, nil)
	o.Service.Find(slotsOf[1]).Warning = &health.Fault{Kind: "failed_tasks", Value: 4, Limit: 4}
	d := Desire(o, nil)
	require.Equal(t, env(t, all), env(t, d))
	require.Equal(t, wrapperOf(t, all), wrapperOf(t, d))
	require.Contains(t, text(status.Of("Ready"+d.Suffix, d.Causes)), "Ready (GPU: 4x AMD); GPU 1: 4 of its last 4 tasks ended badly, unlike those of other GPUs; run a program on it")
}
