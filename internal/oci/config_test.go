package oci

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
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
