package oci

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/gpu/cdispec/edits"
	"concourse-ci-machine/internal/pool/clockpin"
	"concourse-ci-machine/internal/pool/lease"
)

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

func TestLeasesHaveADefaultFolderAndAreOffWithoutAWord(t *testing.T) {
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
