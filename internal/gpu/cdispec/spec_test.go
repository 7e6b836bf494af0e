package cdispec

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/rawjson"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdispec/edits"
)

// resolved is what the named devices of one spec give.
func resolved(data string, names ...string) (Edits, error) {
	s, err := Decode("/x.json", []byte(data))
	if err != nil {
		return Edits{}, err
	}
	devices, err := Find([]*Spec{s}, names)
	if err != nil {
		return Edits{}, err
	}
	return Merge(devices)
}

func file(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(data)
}

func TestEditsHaveEachPathOnceAndTheSpecsFirst(t *testing.T) {
	e, err := resolved(file(t, "../../oci/testdata/amd.json"), "amd.com/gpu=1", "amd.com/gpu=all", "amd.com/gpu=GPU-3c4d")
	require.NoError(t, err)
	var paths []string
	for _, n := range e.Nodes {
		paths = append(paths, n.Path)
		require.Equal(t, n.Path, n.HostPath)
	}
	require.Equal(t, []string{"/dev/kfd", "/dev/dri/card1", "/dev/dri/renderD129", "/dev/dri/card0", "/dev/dri/renderD128"}, paths)
}

func TestUnknownDeviceErrorListsTheDevices(t *testing.T) {
	_, err := resolved(file(t, "../../oci/testdata/amd.json"), "amd.com/gpu=GPU-gone")
	require.EqualError(t, err, "cannot find GPU amd.com/gpu=GPU-gone: the CDI specs list for amd.com/gpu: 0, 1, all, GPU-1a2b, 0000:03:00.0, GPU-3c4d, 0000:c4:00.0")
	_, err = resolved(file(t, "../../oci/testdata/amd.json"), "nvidia.com/gpu=0")
	require.ErrorContains(t, err, "list for nvidia.com/gpu: none")
}

func TestUnsupportedSpecsAreRejected(t *testing.T) {
	const head = `{"cdiVersion":"0.5.0","kind":"amd.com/gpu","devices":[{"name":"0","containerEdits":{`
	for in, want := range map[string]string{
		`{"cdiVersion":"2.0.0","kind":"a/b"}`: `is not 0.x or 1.x`,
		`{"kind":"a/b"}`:                      `is not 0.x or 1.x`,
		`{"cdiVersion":"0.5.0","kind":"gpu"}`: `is not vendor/class`,
		`{"cdiVersion":`:                      `cannot decode CDI spec /x.json: it ends too early`,
		`[]`:                                  `cannot decode CDI spec /x.json: it is a list, not an object`,
		`{"cdiVersion":7}`:                    `cdiVersion: it is a number, not a string`,
		`{"cdiVersion":"0.5.0","kind":"amd.com/gpu","devices":[7]}`:                          `devices: it is a number`,
		head + `"hooks":[{"hookName":"createcontainer","path":"/x"}]}}]}`:                    `unknown hook "createcontainer"`,
		head + `"hooks":[{"hookName":"prestart","path":"x"}]}}]}`:                            `path "x" of hook prestart is not absolute and clean`,
		head + `"hooks":[{"hookName":"prestart","path":"/x","timeout":-1}]}}]}`:              `timeout: -1 is not a whole number`,
		head + `"mounts":[{}]}}]}`:                                                           `containerPath "" is not absolute`,
		head + `"mounts":[{"hostPath":"/x","containerPath":"/x","options":["ridmap"]}]}}]}`:  `has the option ridmap`,
		head + `"env":["=x"]}}]}`:                                                            `"=x" is not NAME=value`,
		head + `"env":{}}}]}`:                                                                `env: it is an object, not a list`,
		head + `"additionalGids":[1.5]}}]}`:                                                  `1.5 is not a whole number`,
		head + `"intelRdt":{}}}]}`:                                                           `intelRdt: this wrapper can't apply that`,
		head + `"netDevices":[{"hostInterfaceName":"eth1","name":"e"}]}}]}`:                  `netDevices: this wrapper can't apply that`,
		head + `"deviceNodes":[{"path":"dev/kfd"}]}}]}`:                                      `is not absolute and clean`,
		head + `"deviceNodes":[{"path":"/dev/../etc/x"}]}}]}`:                                `is not absolute and clean`,
		head + `"deviceNodes":[{"path":"/dev/a","hostPath":"a"}]}}]}`:                        `is not absolute and clean`,
		head + `"deviceNodes":[{"path":""}]}}]}`:                                             `is not absolute and clean`,
		head + `"deviceNodes":[{"path":"/dev/sda","type":"b"}]}}]}`:                          `type "b"`,
		head + `"deviceNodes":[{"path":"/dev/a","major":4294967296}]}}]}`:                    `is more than 4294967295`,
		head + `"deviceNodes":[{"path":"/dev/a","major":"7"}]}}]}`:                           `major: it is a string, not a number`,
		head + `"deviceNodes":[{"path":"/dev/a","Path":"/dev/b"}]}}]}`:                       `key "Path" must be written "path"`,
		head + `"deviceNodes":[{"path":"/dev/a","path":"/dev/b"}]}}]}`:                       `key "path" is duplicate`,
		head + `"deviceNodes":[{"path":"/dev/a","minor":1},{"path":"/dev/a","minor":2}]}}]}`: `in two ways`,
	} {
		_, err := resolved(in, "amd.com/gpu=0")
		require.ErrorContains(t, err, want, in)
	}
	_, err := resolved(head+`"intelRdt":null,"env":[],"netDevices":[],"hooks":null,"additionalGids":[0,5]}}]}`, "amd.com/gpu=0")
	require.NoError(t, err)
}

func FuzzDecodeCDI(f *testing.F) {
	for _, name := range []string{"amd", "nvidia"} {
		f.Add([]byte(file(f, "../../oci/testdata/"+name+".json")))
	}
	f.Add([]byte(`{"cdiVersion":"0.5.0","kind":"amd.com/gpu","devices":[{"name":"all","containerEdits":{"deviceNodes":[null]}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Decode("x", data)
		if err != nil {
			return
		}
		for _, d := range s.Devices {
			e, err := Merge([]Device{d})
			if err != nil {
				continue
			}
			for _, n := range e.Nodes {
				if !isCleanAbs(n.Path) || !isCleanAbs(n.HostPath) {
					t.Fatalf("%+v", n)
				}
			}
			// What comes of it goes into config.json as JSON.
			doc, err := rawjson.Parse([]byte("{}"))
			if err != nil {
				t.Fatal(err)
			}
			all := edits.Edits{Mounts: e.Mounts, Hooks: e.Hooks, Process: edits.Process{Groups: e.GIDs, Env: edits.Environment{Set: e.Env}}}
			parts, err := all.Apply(doc)
			if changed := bytes.Join(parts, nil); err != nil || parts != nil && !json.Valid(changed) {
				t.Fatalf("%v: %s", err, changed)
			}
		}
	})
}
