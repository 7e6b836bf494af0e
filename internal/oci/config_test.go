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
	}
	data, err := json.Marshal(c)
	require.NoError(t, err)
	got, err := DecodeConfig(data)
	require.NoError(t, err)
	require.Equal(t, c, got)
}

func TestConfigHasDefaults(t *testing.T) {
	got, err := DecodeConfig([]byte(`{"runtime":"/usr/sbin/runc"}`))
	require.NoError(t, err)
	require.Equal(t, Config{Runtime: "/usr/sbin/runc", Containers: Tasks, State: DefaultState, Nodes: DefaultNodes}, got)
}

func TestConfigErrorsNameTheField(t *testing.T) {
	for in, want := range map[string]string{
		`{"runtme":"/x"}`:        `unknown field "runtme"`,
		`{"containers":"some"}`:  `containers: "some" is not one of tasks, all`,
		`{"runtime":"runc"}`:     `runtime: "runc" is not an absolute path`,
		`{"specs":["amd.json"]}`: `specs: "amd.json" is not an absolute path`,
		`{"state":"x"}`:          `state: "x"`,
		`{"nodes":"x"}`:          `nodes: "x"`,
		`{"devices":["0"],"specs":["/etc/cdi/amd.json"]}`:     `devices: "0" is not a CDI name`,
		`{"devices":["gpu=0"],"specs":["/etc/cdi/amd.json"]}`: `devices: "gpu=0" is not a CDI name`,
		`{"devices":["amd.com/gpu=0"]}`:                       `no specs to find them in`,
		`{"runtime":1}`:                                       `field Config.runtime`,
		`{} {}`:                                               `more than one JSON value`,
		`{`:                                                   `unexpected EOF`,
	} {
		_, err := DecodeConfig([]byte(in))
		require.ErrorContains(t, err, want, in)
	}
}

func TestRuntimeIsFoundInAConfigThatCreateRefuses(t *testing.T) {
	got, err := decodeRuntime([]byte(`{"runtime":"/usr/sbin/runc","containers":7,"odd":true} trailing`))
	require.NoError(t, err)
	require.Equal(t, "/usr/sbin/runc", got)
}
