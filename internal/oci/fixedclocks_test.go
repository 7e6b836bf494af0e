package oci

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/pool/fixedclocks"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

const dpmLevel = "/power_dpm_force_performance_level"

// measuring is an exclusive testbed with two GPUs that may have fixed clocks.
func measuring(t *testing.T, change ...func(*Config)) *testbed {
	t.Helper()
	b := exclusive(t, func(c *Config) {
		c.GPUs = []GPU{gpuB.called("0000:c4:00.0", "1"), gpuA.called("0000:03:00.0", "0")}
		dir := strings.TrimSuffix(c.State, "/state")
		c.Leases.Clocks = dir + "/clocks"
		for i := range c.GPUs {
			c.GPUs[i].Clocks = &fixedclocks.Setting{Sysfs: dir + "/sys/" + c.GPUs[i].Name, Level: fixedclocks.Standard}
		}
		for _, f := range change {
			f(c)
		}
	})
	for _, name := range []string{"0000:c4:00.0", "0000:03:00.0"} {
		b.put(t, "sys/"+name+dpmLevel, "auto\n")
	}
	return b
}

// levels are the levels of the GPUs 0 and 1.
func (b *testbed) levels(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, name := range []string{"0000:03:00.0", "0000:c4:00.0"} {
		all = append(all, b.levelOf(t, name))
	}
	return all
}

func (b *testbed) levelOf(t *testing.T, name string) string {
	t.Helper()
	word, _, _ := strings.Cut(file(t, b.path("sys/"+name+dpmLevel)), "\n") // a file of sysfs has no more
	return word
}

// told is what the task finds of its measurement; nothing if it has no such file.
func (b *testbed) told(t *testing.T) (v struct {
	Valid         bool
	Reason, Level string
}) {
	t.Helper()
	r := b.result(t)
	has := slices.Contains(r.Process.Env, "GPU_FIXED_CLOCKS_RECORD=/opt/concourse-ci-machine/fixed-clocks.json")
	for _, m := range r.Mounts {
		if m.Destination == fixedclocks.VerdictPath {
			require.True(t, has)
			require.Equal(t, []string{"bind", "ro", "nosuid", "nodev", "noexec"}, m.Options)
			st, err := os.Stat(m.Source)
			require.NoError(t, err)
			require.EqualValues(t, 0o644, st.Mode().Perm())
			require.NoError(t, json.Unmarshal([]byte(file(t, m.Source)), &v))
			return v
		}
	}
	require.False(t, has)
	return v
}

func TestTaskThatMeasuresHasItsClocksFixed(t *testing.T) {
	b := measuring(t)
	require.NoError(t, b.task(t, "c1", "GPU_FIXED_CLOCKS=1", "AMD_VISIBLE_DEVICES=0"))
	require.Equal(t, []string{"profile_standard", "auto"}, b.levels(t), "of its GPU alone")
	require.Equal(t, "the GPU has not been checked yet; it is checked within seconds", b.told(t).Reason)
	require.Equal(t, "profile_standard", b.told(t).Level)
	k, err := b.wrapper.markers(b.path("state")).load("c1")
	require.NoError(t, err)
	require.Contains(t, k.process.Env.Set, "GPU_FIXED_CLOCKS_RECORD=/opt/concourse-ci-machine/fixed-clocks.json",
		"its command comes by exec")

	require.NoError(t, b.task(t, "c2"))
	require.Equal(t, []string{"profile_standard", "auto"}, b.levels(t))
	require.Empty(t, b.told(t))
}

// A task was killed while its clocks were fixed. The next holder gets them restored.
func TestNextTaskDoesNotInheritFixedClocks(t *testing.T) {
	for _, env := range []string{"A=b", "GPU_FIXED_CLOCKS=0", "GPU_FIXED_CLOCKS=", "GPU_FIXED_CLOCKS=1"} {
		b := measuring(t)
		require.NoError(t, b.task(t, "c1", "GPU_FIXED_CLOCKS=1", "GPU_COUNT=all"))
		require.Equal(t, []string{"profile_standard", "profile_standard"}, b.levels(t))
		require.NoError(t, os.RemoveAll(b.path("leases")))
		require.NoError(t, b.task(t, "c2", env, "AMD_VISIBLE_DEVICES=1"))
		want := "auto"
		if env == "GPU_FIXED_CLOCKS=1" {
			want = "profile_standard"
			store := fixedclocks.Store{Dir: b.path("clocks")}
			r, err := store.Read("0000:c4:00.0")
			require.NoError(t, err)
			require.Equal(t, "c2", r.Container)
		}
		require.Equal(t, []string{"profile_standard", want}, b.levels(t), env)
	}
}

// If it can't be done, the task runs and its record has the reason, or it is refused, as it wants.
func TestClocksThatCannotBeFixed(t *testing.T) {
	type cause struct {
		change func(*Config)
		breaks func(b *testbed)
		env    string
	}
	const second = "sys/0000:c4:00.0"
	for want, c := range map[string]cause{
		"its GPUs are shared, not leased":                  {change: func(c *Config) { c.Leases = nil }},
		"this machine does not fix clocks":                 {change: func(c *Config) { c.GPUs[0].Clocks, c.GPUs[1].Clocks = nil, nil }},
		"it gets no GPU":                                   {env: "GPU_COUNT=0"},
		"GPU 0000:c4:00.0: it is not a whole GPU from AMD": {change: func(c *Config) { c.GPUs[0].Clocks = nil }},
		"GPU 0000:c4:00.0: its driver has no " +
			"power_dpm_force_performance_level": {breaks: func(b *testbed) {
			require.NoError(t,
				os.Remove(b.path(second+dpmLevel)))
		}},
		"GPU 0000:c4:00.0: it is divided (DPX), and its parts have the same " +
			"clocks": {breaks: func(b *testbed) { b.put(t, second+"/current_compute_partition", "DPX\n") }},
	} {
		for _, value := range []string{"1", "required"} {
			if c.change == nil {
				c.change = func(*Config) {}
			}
			b := measuring(t, c.change)
			if c.breaks != nil {
				c.breaks(b)
			}
			err := b.task(t, "c1", "GPU_FIXED_CLOCKS="+value, "GPU_COUNT=2", c.env)
			require.Equal(t, "auto", b.levelOf(t, "0000:03:00.0"), "all of them or none")
			if value == "required" {
				require.EqualError(t, err, "cannot fix the clocks of the task's GPUs: "+want+"; "+
					"GPU_FIXED_CLOCKS=1 runs the task without them [container c1]")
				require.Equal(t, []string{"", ""}, b.holders(t))
				continue
			}
			require.NoError(t, err, want)
			require.Equal(t, "the clocks of its GPUs are not fixed: "+want, b.told(t).Reason)
			require.False(t, b.told(t).Valid)
		}
	}
}

// holders are the containers that have the GPUs 0 and 1.
func (b *testbed) holders(t *testing.T) (containers []string) {
	t.Helper()
	l := lease.Leases{Dir: b.path("leases"), GPUs: []string{"0000:03:00.0", "0000:c4:00.0"}, Euid: uint32(os.Geteuid())}
	states, _, err := l.Read()
	require.NoError(t, err)
	for _, s := range states {
		containers = append(containers, map[bool]string{true: s.Container}[s.Held])
	}
	return containers
}

func TestOnlySomeValuesOfGPUBENCHAreKnown(t *testing.T) {
	b := measuring(t)
	for _, value := range []string{"true", "yes", "2", strings.Repeat("x", 5000)} {
		err := b.task(t, "c1", "GPU_FIXED_CLOCKS="+value)
		require.ErrorContains(t, err, "it is not 0, 1 or required [container c1]")
		require.Less(t, len(err.Error()), 300)
		require.Equal(t, []string{"", ""}, b.holders(t))
	}
}

// Whatever goes wrong after the clocks were fixed: they are the GPU's own again.
func TestClocksAreRestoredWhenTheCreateFails(t *testing.T) {
	for want, breaks := range map[string]func(t *testing.T, b *testbed){
		"cannot use " /* state */ : func(t *testing.T, b *testbed) { b.put(t, "state", "a file") },
		"cannot run the real runc": func(_ *testing.T, b *testbed) {
			b.machine.exec = func(string, []string, []string) error { return errors.New("no") }
		},
		"cannot give the container the": func(t *testing.T, b *testbed) { b.folder(t) },
		"cannot write gpu-fixed-clocks.json": func(t *testing.T, b *testbed) {
			require.NoError(t, os.MkdirAll(b.path("bundle/"+fixedclocks.VerdictName), 0o700))
		},
	} {
		b := measuring(t)
		breaks(t, b)
		require.ErrorContains(t, b.task(t, "c1", "GPU_FIXED_CLOCKS=1", "GPU_COUNT=2"), want)
		require.Equal(t, []string{"auto", "auto"}, b.levels(t), want)
		require.Equal(t, []string{"", ""}, b.holders(t), want)
	}
}
