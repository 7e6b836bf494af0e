package oci

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdispec/edits"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/clockpin"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

func TestConfigOfTheCharmIsReadBack(t *testing.T) {
	c := Config{
		Runtime: "/opt/concourse/bin/runc", Containers: All, Specs: []string{"/etc/cdi/amd.json"},
		Devices: []string{"amd.com/gpu=GPU-1a2b"}, State: "/run/x", Nodes: "/dev/.x",
		Visible: []string{"AMD_VISIBLE_DEVICES"}, Env: map[string]string{"HSA_OVERRIDE_GFX_VERSION": "11.0.0",
			"MOTD": "<a> & \"b\"\n\u2028 ü 😀"},
		Folders: &Folders{Root: "/srv", Containers: All, Names: []string{"models", "out_rw"}, Readonly: TopOnly},
	}
	data, err := json.Marshal(c)
	require.NoError(t, err)
	got, err := decodeConfig(data)
	require.NoError(t, err)
	want := settings{Config: c, env: []string{"HSA_OVERRIDE_GFX_VERSION=11.0.0", "MOTD=" + c.Env["MOTD"]}}
	want.Env = nil
	require.Equal(t, &want, got)
}

func TestConfigHasDefaults(t *testing.T) {
	got, err := decodeConfig([]byte(`{"runtime":"/usr/sbin/runc","env":null,"specs":null,"folders":null}`))
	require.NoError(t, err)
	want := Config{Runtime: "/usr/sbin/runc", Containers: Tasks, State: defaultState, Nodes: DefaultNodes}
	require.Equal(t, &settings{Config: want}, got)
	got, err = decodeConfig([]byte(`{"runtime":"/usr/sbin/runc","folders":{"root":"/srv"}}`))
	require.NoError(t, err)
	want.Folders = &Folders{Root: "/srv", Containers: Tasks, Readonly: Recursive}
	require.Equal(t, &settings{Config: want}, got)
}

func TestConfigErrorsNameTheField(t *testing.T) {
	for in, want := range map[string]string{
		`{"runtme":"/x"}`:        `"runtme": this version of the wrapper does not know it`,
		`{"containers":"some"}`:  `containers: "some" is not one of tasks, asked, all`,
		`{"runtime":"runc"}`:     `runtime: "runc" is not an absolute path`,
		`{"specs":["amd.json"]}`: `specs: "amd.json" is not an absolute path`,
		`{"state":"x"}`:          `state: "x"`,
		`{"nodes":"x"}`:          `nodes: "x"`,
		`{"devices":["0"],"specs":["/etc/cdi/amd.json"]}`:     `devices: "0" is not a CDI name`,
		`{"devices":["gpu=0"],"specs":["/etc/cdi/amd.json"]}`: `devices: "gpu=0" is not a CDI name`,
		`{"devices":["amd.com/gpu=0"]}`:                       `no specs to find them in`,
		`{"runtime":1}`:                                       `"runtime": it is a number, not a string`,
		`{"specs":[1]}`:                                       `"specs": one of them is a number, not a string`,
		`{"runtime":"/a","runtime":"/b"}`:                     `"runtime" is there twice`,
		`{"visible":["A=B"]}`:                                 `visible: "A=B" is not a name`,
		`{"env":{"A B":"x"}}`:                                 `env: "A B" can't be set as`,
		`{"env":{"A=B":"x"}}`:                                 `env: "A=B" can't be set as`,
		`{"env":{"A":"x","A":"y"}}`:                           `"A" is there twice`,
		`{"env":{"A":7}}`:                                     `"env": "A": it is a number`,
		`{"env":{"A":"x\u0000"}}`:                             `env: "A" can't be set as`,
		`{"folders":{}}`:                                      `folders: root: "" is not an absolute path`,
		`{"folders":{"root":"/srv","containers":"some"}}`:     `folders: containers: "some" is not one of`,
		`{"folders":{"root":"/srv","readonly":"yes"}}`:        `folders: readonly: "yes" is not one of rro, ro`,
		`{"folders":{"root":"/srv","names":["a/b"]}}`:         `folders: names: "a/b" is a path`,
		`{"folders":{"root":"/srv","names":[".a"]}}`:          `folders: names: ".a" is hidden`,
		`{"folders":{"root":"/srv","names":["a\nb"]}}`:        `has a control character`,
		`{"folders":{"root":"/srv","name":["a"]}}`:            `"folders": "name": this version`,
		`{} {}`: `byte 3 is '{': want the end`,
		`{`:     `it ends too early`,
		`[]`:    `it is a list, not an object`,
	} {
		_, err := decodeConfig([]byte(in))
		require.ErrorContains(t, err, want, in)
	}
}

func TestRuntimeIsFoundInAConfigThatCreateRefuses(t *testing.T) {
	got, err := decodeRuntime([]byte(`{"runtime":"/usr/sbin/runc","containers":7,"odd":true}`))
	require.NoError(t, err)
	require.Equal(t, "/usr/sbin/runc", got)
}

const twoGPUs = `"specs":["/etc/cdi/amd.json"],"devices":["amd.com/gpu=0","amd.com/gpu=GPU-1"]`

func TestLeasesOfTheCharmAreReadBack(t *testing.T) {
	for _, l := range []Leases{
		{Dir: "/run/x", Links: [][]int{{0, 8}, {8, 0}}, GPUs: []LeasedGPU{{"0000:03:00.0",
			[]string{"/dev/dri/renderD128"}}, {"0000:03:00.0-1", []string{"/dev/a", "/dev/b"}}}},
		{Dir: "/run/x", GPUs: []LeasedGPU{{"a", []string{"/dev/a"}}, {"b", []string{"/dev/b"}}}},
		{Dir: "/run/x", GPUs: []LeasedGPU{{"a", []string{"/dev/a"}}, {"b", []string{"/dev/b"}}},
			Bench: &Bench{"/run/y", []BenchGPU{{"0000:03:00.0", "/sys/x", clockpin.Standard}}}},
	} {
		data, err := json.Marshal(Config{Specs: []string{"/etc/cdi/amd.json"},
			Devices: []string{"amd.com/gpu=0", "amd.com/gpu=GPU-1"}, Leases: &l})
		require.NoError(t, err)
		got, err := decodeConfig(data)
		require.NoError(t, err)
		require.Equal(t, &l, got.Leases)
	}
}

func TestLeasesHaveADefaultFolderAndAreOffByDefault(t *testing.T) {
	for in, want := range map[string]*Leases{
		`{}`:                      nil,
		`{"leases":null}`:         nil,
		`{"leases":{}}`:           {Dir: lease.DefaultDir},
		`{"leases":{"links":[]}}`: {Dir: lease.DefaultDir},
	} {
		got, err := decodeConfig([]byte(in))
		require.NoError(t, err, in)
		require.Equal(t, want, got.Leases, in)
	}
}

func TestConfigOfALaterVersionIsRefused(t *testing.T) {
	_, err := decodeConfig([]byte(`{"format_version":1}`))
	require.NoError(t, err)
	_, err = decodeConfig([]byte(`{"later":[],"format_version":2}`))
	require.EqualError(t, err, "it has format 2 of a later version, and this one reads format 1: install the later "+
		"version again, or move the file away")
}

func TestLeasesErrorsNameTheField(t *testing.T) {
	for in, want := range map[string]string{
		`{"leases":[]}`:                                                         `"leases": it is a list, not an object`,
		`{"leases":{"wait":1}}`:                                                 `"leases": "wait": this version of the wrapper does not know it`,
		`{"leases":{"dir":"run"}}`:                                              `leases: dir: "run" is not an absolute path`,
		`{"leases":{"dir":7}}`:                                                  `"leases": "dir": it is a number, not a string`,
		`{"leases":{"bench":[]}}`:                                               `"bench": it is a list, not an object`,
		`{"leases":{"bench":{"wait":1}}}`:                                       `"bench": "wait": this version of the wrapper does not know it`,
		`{"leases":{"bench":{"dir":"run"}}}`:                                    `leases: bench: dir: "run" is not an absolute path`,
		`{"leases":{"bench":{"gpus":{}}}}`:                                      `"gpus": it is an object, not a list`,
		`{"leases":{"bench":{"gpus":[{"paths":1}]}}}`:                           `"paths": this version of the wrapper does not know it`,
		`{"leases":{"bench":{"gpus":[{"name":"0000:03:00.0-1"}]}}}`:             `leases: bench: gpus: "0000:03:00.0-1" is not the PCI address of a whole GPU`,
		`{"leases":{"bench":{"gpus":[{"name":"0000:03:00.0","sysfs":"sys"}]}}}`: `leases: bench: gpus: sysfs: "sys" is not an absolute path`,
		`{"leases":{"bench":{"gpus":[{"name":"0000:03:00.0","sysfs":"/sys","level":"high"}]}}}`: `leases: bench: gpus: level: "high" is not one of profile_standard, perf_determinism`,
		`{"leases":{"links":{}}}`:                                    `"links": it is an object, not a list`,
		`{"leases":{"links":[7]}}`:                                   `"links": row 0: it is a number, not a list`,
		`{"leases":{"links":[[],["x"]]}}`:                            `"links": row 1: it is a string, not a number`,
		`{"leases":{"links":[[1001]]}}`:                              `"links": row 0: 1001 is more than 1000`,
		`{"leases":{"links":[[0]]}}`:                                 `leases: links: there are 1 rows for 0 devices`,
		`{"leases":{"links":[[0]]},G}`:                               `leases: links: there are 1 rows for 2 devices`,
		`{"leases":{"links":[[0,1],[1]]},G}`:                         `leases: links: row 1 has 1 entries for 2 devices`,
		`{"leases":{},"leases":{}}`:                                  `"leases" is there twice`,
		`{"leases":{},"specs":["/a"],"devices":["amd.com/gpu=all"]}`: `leases: "amd.com/gpu=all" stands for several GPUs, and a lease is of one; name each in devices`,
		`{"leases":{},G}`:                                            `leases: gpus: there are 0 for 2 devices`,
	} {
		_, err := decodeConfig([]byte(strings.Replace(in, "G}", twoGPUs+"}", 1)))
		require.ErrorContains(t, err, want, in)
	}
}

func FuzzConfig(f *testing.F) {
	f.Add([]byte(`{"runtime":"/r","containers":"all",` + twoGPUs + `,"visible":["V"],"env":{"A":"b"},"leases":{"dir":"/run/x","gpus":[{"name":"a","nodes":["/dev/a"]},{"name":"b","nodes":["/dev/b"]}],"links":[[0,8],[8,0]]}}`))
	f.Add([]byte(`{"folders":{"root":"/srv","names":["a"],"readonly":"ro"},"leases":{"links":[[],[1]]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := decodeConfig(data)
		if err != nil {
			return
		}
		if l := c.Leases; l != nil && (len(l.GPUs) != len(c.Devices) || len(l.Links) > 0 &&
			len(l.Links) != len(c.Devices)) {
			t.Fatalf("%+v", l)
		}
		again, err := json.Marshal(c.Config) // what is taken can be written and taken again
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decodeConfig(again); err != nil {
			t.Fatalf("%s\n%s\n%v", data, again, err)
		}
	})
}

func FuzzMarker(f *testing.F) {
	for _, k := range []marker{
		{},
		{bundle: "/b", process: edits.Process{Groups: []uint32{44, 992},
			Env: edits.Environment{Set: []string{"A=b"}, Defaults: []string{"C="}}}},
		{bundle: "/b\"", lease: heldLease{gpus: []string{"0", "GPU-1a2b"}, pidFile: "/b/init.pid", cgroup: "c1"}},
	} {
		f.Add(k.appendTo(nil))
	}
	f.Add([]byte(`{"lease":{"gpus":[7]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		k, err := decodeMarker(data)
		if err != nil {
			return
		}
		out := k.appendTo(nil)
		again, err := decodeMarker(out)
		if err != nil || string(again.appendTo(nil)) != string(out) {
			t.Fatalf("%v\n%q\n%q", err, data, out)
		}
	})
}

// unnamed is a unit with two GPUs that have no unique id, and their leases.
func unnamed(t *testing.T) *testbed {
	return exclusive(t, func(c *Config) {
		c.Devices = []string{"amd.com/gpu=0", "amd.com/gpu=1"}
		c.Leases.GPUs = []LeasedGPU{{"0000:03:00.0", []string{"/dev/dri/renderD128"}},
			{"0000:c4:00.0", []string{"/dev/dri/renderD129"}}}
	})
}

// GPU 0 is gone, and the description made again: GPU 1 is number 0 now.
func (b *testbed) firstGPUGoes(t *testing.T) {
	t.Helper()
	spec, err := os.ReadFile("testdata/amd.json")
	require.NoError(t, err)
	moved := strings.NewReplacer(`"name": "0"`, `"name": "7"`, `"name":"0"`, `"name":"7"`, `"name": "1"`, `"name": "0"`, `"name":"1"`, `"name":"0"`).Replace(string(spec))
	require.NotEqual(t, string(spec), moved)
	b.put(t, "amd.json", moved)
}

// A second task must not get the card that the first one computes on, neither
// once the wrapper's config follows nor before that.
func TestLeaseIsOfTheGPUAndNotOfItsIndex(t *testing.T) {
	for name, follow := range map[string]func(*Config){
		"the config is older than the description": func(c *Config) {
			c.Devices = []string{"amd.com/gpu=0"} // as if there had been one
			c.Leases.GPUs = []LeasedGPU{{"0000:03:00.0", []string{"/dev/dri/renderD128"}}}
		},
		"the config is as new": func(c *Config) {
			c.Devices = []string{"amd.com/gpu=0"}
			c.Leases.GPUs = []LeasedGPU{{"0000:c4:00.0", []string{"/dev/dri/renderD129"}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := unnamed(t)
			require.NoError(t, b.task(t, "c1", "AMD_VISIBLE_DEVICES=1"))
			require.Equal(t, []string{"/dev/dri/renderD129"}, b.given(t))
			b.firstGPUGoes(t)
			b.configure(t, func(c *Config) {
				c.Leases = &Leases{Dir: b.path("leases")}
				follow(c)
			})
			err := b.task(t, "c2")
			require.Error(t, err)
			require.Regexp(t, `GPU 0: the wrapper's config has no name for its device nodes|0 \(GPU-3c4d, 0000:c4:00.0\) is held by the task of container c1`, err.Error())
		})
	}
}

func TestEachLeaseNameMustBeOfOneGPU(t *testing.T) {
	for want, gpus := range map[string][]LeasedGPU{
		"there are 1 for 2 devices":            {{"a", []string{"/dev/a"}}},
		`"a" is no name with nodes, or there`:  {{"a", []string{"/dev/a"}}, {"a", []string{"/dev/b"}}},
		`"b" is no name with nodes`:            {{"a", []string{"/dev/a"}}, {"b", nil}},
		`"/dev/a" is no absolute path, or the`: {{"a", []string{"/dev/a"}}, {"b", []string{"/dev/a"}}},
		`"x" is no absolute path`:              {{"a", []string{"/dev/a"}}, {"b", []string{"x"}}},
	} {
		b := exclusive(t, func(c *Config) { c.Leases.GPUs = gpus })
		require.ErrorContains(t, b.task(t, "c1"), want)
	}
}
