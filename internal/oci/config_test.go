package oci

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdispec/edits"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/fixedclocks"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

func TestConfigOfTheCharmIsReadBack(t *testing.T) {
	c := Config{
		Runtime: "/opt/concourse/bin/runc", Containers: All, Specs: []string{"/etc/cdi/amd.json"},
		GPUs: []GPU{{"0000:03:00.0", "amd.com/gpu=0", []string{"/dev/dri/renderD128", "/dev/dri/card0"},
			&fixedclocks.Setting{Sysfs: "/sys/x", Level: fixedclocks.Standard}},
			{"0000:03:00.0-1", "amd.com/gpu=GPU-1", []string{"/dev/b"}, nil}},
		Leases:     &Leases{Dir: "/run/x", Links: [][]int{{0, 8}, {8, 0}}, Clocks: "/run/y", Missing: []string{"0000:04:00.0"}},
		Quarantine: "/var/x", State: "/run/x", Nodes: "/dev/.x",
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
		`{"runtme":"/x"}`:                                 `"runtme": this version of the wrapper does not support it`,
		`{"containers":"some"}`:                           `containers: "some" is not one of tasks, requested, all`,
		`{"runtime":"runc"}`:                              `runtime: "runc" is not an absolute path`,
		`{"specs":["amd.json"]}`:                          `specs: "amd.json" is not an absolute path`,
		`{"state":"x"}`:                                   `state: "x"`,
		`{"nodes":"x"}`:                                   `nodes: "x"`,
		`{"runtime":1}`:                                   `"runtime": it is a number, not a string`,
		`{"specs":[1]}`:                                   `"specs": one of them is a number, not a string`,
		`{"runtime":"/a","runtime":"/b"}`:                 `"runtime" is duplicate`,
		`{"visible":["A=B"]}`:                             `visible: "A=B" is not a name`,
		`{"env":{"A B":"x"}}`:                             `env: "A B" can't be set as`,
		`{"env":{"A=B":"x"}}`:                             `env: "A=B" can't be set as`,
		`{"env":{"A":"x","A":"y"}}`:                       `"A" is duplicate`,
		`{"env":{"A":7}}`:                                 `"env": "A": it is a number`,
		`{"env":{"A":"x\u0000"}}`:                         `env: "A" can't be set as`,
		`{"folders":{}}`:                                  `folders: root: "" is not an absolute path`,
		`{"folders":{"root":"/srv","containers":"some"}}`: `folders: containers: "some" is not one of`,
		`{"folders":{"root":"/srv","readonly":"yes"}}`:    `folders: readonly: "yes" is not one of rro, ro`,
		`{"folders":{"root":"/srv","names":["a/b"]}}`:     `folders: names: "a/b" is a path`,
		`{"folders":{"root":"/srv","names":[".a"]}}`:      `folders: names: ".a" is hidden`,
		`{"folders":{"root":"/srv","names":["a\nb"]}}`:    `has a control character`,
		`{"folders":{"root":"/srv","name":["a"]}}`:        `"folders": "name": this version`,
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

// twoGPUs are the members of a config for A and G.
const twoGPUs = `"specs":["/etc/cdi/amd.json"],"gpus":[{"name":"a","cdi":"amd.com/gpu=0","nodes":["/dev/a"]},` +
	`{"name":"b","cdi":"amd.com/gpu=GPU-1","nodes":["/dev/b"]}]`

func TestGPUErrorsNameTheField(t *testing.T) {
	const a = `{"name":"a","cdi":"amd.com/gpu=0","nodes":["/dev/a"]}`
	for in, want := range map[string]string{
		`{}`:                                       `"gpus": it is an object, not a list`,
		`[{"index":0}]`:                            `"index": this version of the wrapper does not support it`,
		`[{"name":"a","cdi":"0"}]`:                 `gpus: "0" is not a CDI name such as amd.com/gpu=0`,
		`[{"name":"a","cdi":"gpu=0"}]`:             `gpus: "gpu=0" is not a CDI name`,
		`[{"name":"a"}]`:                           `gpus: "" is not a CDI name`,
		`[{"name":"a","cdi":"a.com/b=all"}]`:       `gpus: "a.com/b=all" means several GPUs: name each of them`,
		`[{"name":"a","cdi":"a.com/b=0"}]`:         `gpus: "a" has no nodes, which a leased GPU needs`,
		`[{"cdi":"a.com/b=0","nodes":["/dev/a"]}]`: `gpus: "" is not a name`,
		`[` + a + `,` + a + `]`:                    `gpus: "a" is not a name, or is listed twice`,
		`[` + a + `,{"name":"b","cdi":"a/b=1","nodes":["/dev/a"]}]`:                                        `gpus: "/dev/a" is not an absolute path, or is listed twice`,
		`[{"name":"b","cdi":"a/b=1","nodes":["x"]}]`:                                                       `gpus: "x" is not an absolute path`,
		`[{"name":"a","cdi":"a/b=1","nodes":["/x"],"clocks":{"sysfs":"/sys","level":"profile_standard"}}]`: `gpus: clocks: "a" is not the PCI address of a whole GPU`,
		`[{"name":"0000:03:00.0-1","cdi":"a/b=1","nodes":["/x"],"clocks":{}}]`:                             `gpus: clocks: "0000:03:00.0-1" is not the PCI address of a whole GPU`,
		`[{"name":"0000:03:00.0","cdi":"a/b=1","nodes":["/x"],"clocks":{"sysfs":"sys"}}]`:                  `gpus: clocks: sysfs: "sys" is not an absolute path`,
		`[{"name":"0000:03:00.0","cdi":"a/b=1","nodes":["/x"],"clocks":{"sysfs":"/sys","level":"high"}}]`:  `gpus: clocks: level: "high" is not one of profile_standard, perf_determinism`,
		`[{"name":"0000:03:00.0","cdi":"a/b=1","nodes":["/x"],"clocks":{"path":1}}]`:                       `"path": this version of the wrapper does not support it`,
	} {
		_, err := decodeConfig([]byte(`{"specs":["/a"],"leases":{},"gpus":` + in + `}`))
		require.ErrorContains(t, err, want, in)
	}
	_, err := decodeConfig([]byte(`{"gpus":[` + a + `]}`))
	require.ErrorContains(t, err, "gpus: there are no specs to find them in")
}

func TestLeasesHaveADefaultFolderAndAreOffByDefault(t *testing.T) {
	for in, want := range map[string]*Leases{
		`{}`:                      nil,
		`{"leases":null}`:         nil,
		`{"leases":{}}`:           {Dir: lease.DefaultDir, Clocks: fixedclocks.DefaultDir},
		`{"leases":{"links":[]}}`: {Dir: lease.DefaultDir, Clocks: fixedclocks.DefaultDir},
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
		`{"leases":[]}`:                      `"leases": it is a list, not an object`,
		`{"leases":{"wait":1}}`:              `"leases": "wait": this version of the wrapper does not support it`,
		`{"leases":{"dir":"run"}}`:           `leases: dir: "run" is not an absolute path`,
		`{"leases":{"dir":7}}`:               `"leases": "dir": it is a number, not a string`,
		`{"leases":{"clocks":"run"}}`:        `leases: clocks: "run" is not an absolute path`,
		`{"leases":{"links":{}}}`:            `"links": it is an object, not a list`,
		`{"leases":{"links":[7]}}`:           `"links": row 0: it is a number, not a list`,
		`{"leases":{"links":[[],["x"]]}}`:    `"links": row 1: it is a string, not a number`,
		`{"leases":{"links":[[1001]]}}`:      `"links": row 0: 1001 is more than 1000`,
		`{"leases":{"links":[[0]]}}`:         `leases: links: there are 1 rows for 0 GPUs`,
		`{"leases":{"links":[[0]]},G}`:       `leases: links: there are 1 rows for 2 GPUs`,
		`{"leases":{"links":[[0,1],[1]]},G}`: `leases: links: row 1 has 1 entries for 2 GPUs`,
		`{"leases":{},"leases":{}}`:          `"leases" is duplicate`,
	} {
		_, err := decodeConfig([]byte(strings.Replace(in, "G}", twoGPUs+"}", 1)))
		require.ErrorContains(t, err, want, in)
	}
}

func FuzzConfig(f *testing.F) {
	f.Add([]byte(`{"runtime":"/r","containers":"all",` + twoGPUs + `,"visible":["V"],"env":{"A":"b"},"leases":{"dir":"/run/x","links":[[0,8],[8,0]]}}`))
	f.Add([]byte(`{"folders":{"root":"/srv","names":["a"],"readonly":"ro"},"leases":{"links":[[],[1]]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := decodeConfig(data)
		if err != nil {
			return
		}
		if l := c.Leases; l != nil && len(l.Links) > 0 && len(l.Links) != len(c.GPUs) {
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
		c.GPUs = []GPU{gpuA.called("0000:03:00.0", "0"), gpuB.called("0000:c4:00.0", "1")}
	})
}

// GPU 0 no longer exists, and the description made again: GPU 1 is number 0 now.
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
	const held = "0 (GPU-3c4d, 0000:c4:00.0) is held by the task of container c1"
	for name, c := range map[string]struct {
		gpus []GPU
		want string
	}{
		"the config is older than the description": {[]GPU{gpuA.called("0000:03:00.0", "0"), gpuB.called("0000:c4:00.0", "1")},
			"the CDI specs list for amd.com/gpu: "},
		"as if there had been one": {[]GPU{gpuA.called("0000:03:00.0", "0")}, "list different device nodes of it; " +
			"the unit writes the spec again at its next hook; " + lease.RunAgain},
		"the config is as new": {[]GPU{gpuB.called("0000:c4:00.0", "0")}, held},
	} {
		t.Run(name, func(t *testing.T) {
			b := unnamed(t)
			require.NoError(t, b.task(t, "c1", "AMD_VISIBLE_DEVICES=1"))
			require.Equal(t, []string{"/dev/dri/renderD129"}, b.given(t))
			b.firstGPUGoes(t)
			b.configure(t, func(conf *Config) { conf.Leases, conf.GPUs = &Leases{Dir: b.path("leases")}, c.gpus })
			require.ErrorContains(t, b.task(t, "c2"), c.want)
			require.NotContains(t, b.text(t), "/dev/dri")
		})
	}
}

// A spec that is older or newer than the config must not hand out a GPU that the config does
// not name, or under another one's name, whether GPUs are leased or shared.
func TestSpecWithOtherNodesGivesNoGPU(t *testing.T) {
	const stale = "list different device nodes of it"
	third := []string{"/dev/dri/renderD130", "/dev/dri/card2"}
	for name, c := range map[string]struct {
		nodes0, nodes1 []string
		want           string
	}{
		"those of the spec":          {gpuA.Nodes, gpuB.Nodes, ""},
		"no card node is named":      {gpuA.Nodes[:1], gpuB.Nodes[:1], ""},
		"a node that the spec lacks": {append([]string{"/dev/dri/x"}, gpuA.Nodes...), gpuB.Nodes, ""},
		"swapped":                    {gpuB.Nodes, gpuA.Nodes, stale},
		"one is another GPU":         {third, gpuB.Nodes, stale},
		"they share a node":          {[]string{"/dev/dri/renderD128", "/dev/dri/card1"}, []string{"/dev/dri/renderD129", "/dev/dri/card0"}, stale},
	} {
		for mode, leases := range map[string]*Leases{"shared": nil, "leased": {}} {
			b := newTestbed(t)
			b.configure(t, func(conf *Config) {
				if leases != nil {
					conf.Leases = &Leases{Dir: b.path("leases")}
				}
				conf.GPUs = []GPU{{"a", gpuA.CDI, c.nodes0, nil}, {"b", gpuB.CDI, c.nodes1, nil}}
			})
			err := b.task(t, "c1")
			if c.want == "" {
				require.NoError(t, err, "%s %s", name, mode)
				continue
			}
			require.ErrorContains(t, err, c.want, "%s %s", name, mode)
			require.NotContains(t, b.text(t), "/dev/dri")
			require.NoDirExists(t, b.path("leases"))
		}
	}
}
