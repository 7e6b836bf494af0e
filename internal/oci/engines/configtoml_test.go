package engines

import (
	"testing"

	"github.com/pelletier/go-toml/v2"
	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// What looks like a key or a table inside a string stays text, and the key is set.
func TestTextInsideAStringIsNotAKey(t *testing.T) {
	const cri = "[plugins.\"io.containerd.grpc.v1.cri\"]\n"
	for name, before := range map[string]string{
		"a key in a string of its table":     "version = 2\n" + cri + "note = '''\nenable_cdi = false\n'''\nenable_cdi = false\n",
		"a key in a string, and no other":    "version = 2\n" + cri + "note = \"\"\"\n  enable_cdi = true\n\"\"\"\n",
		"the table in a string":              "version = 2\nnote = '''\n" + cri + "enable_cdi = false\n'''\n" + cri + "x = 1\n",
		"the table in a string, no other":    "version = 2\nnote = '''\n" + cri + "enable_cdi = false\n'''\n",
		"a key in an array of strings":       "version = 2\n" + cri + "notes = [\n'''\nenable_cdi = true\n''',\n'''[x]''' ]\nenable_cdi = false # theirs\n",
		"a line like a table before the key": "version = 2\n" + cri + "notes = [\n[ 1 ],\n]\nenable_cdi = false\n",
		"ours in a string":                   "version = 2\n" + cri + "note = '''\n  enable_cdi = true" + ours + "\n'''\n",
		"lines end as on Windows":            "version = 2\r\n" + cri + "enable_cdi = false\r\nx = 1\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			h := machine(t, "containerd", containerd17)
			const file = "/etc/containerd/config.toml"
			hosttest.Put(t, h.Root, file, before)
			r := Request{Engine: "containerd", Wrapper: wrapper}
			do(t, h, r)
			var was, is map[string]any
			data, err := h.ReadFile(file)
			require.NoError(t, err)
			require.NoError(t, toml.Unmarshal([]byte(before), &was))
			require.NoError(t, toml.Unmarshal(data, &is))
			require.Equal(t, true, at(is, "plugins", criGRPC, "enable_cdi"), string(data))
			for _, keys := range [][]string{{"note"}, {"plugins", criGRPC, "note"}, {"plugins", criGRPC, "notes"}} {
				require.Equal(t, at(was, keys...), at(is, keys...))
			}
			require.Empty(t, planOf(t, h, r))

			hosttest.Put(t, h.Root, file, string(data)+"# edited\n") // so that it is taken out by its parts
			require.Contains(t, do(t, h, Request{Engine: "containerd", Remove: true}), "nothing of it is left")
			left, err := h.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, before+"# edited\n", string(left))
		})
	}
}

// A key that another form of TOML sets already is left as it is.
func TestExistingKeyIsNotSetAgain(t *testing.T) {
	h := machine(t, "containerd", containerd17)
	before := "version = 2\nplugins.\"io.containerd.grpc.v1.cri\".enable_cdi = true\n"
	after, put, err := configTOML{}.add([]byte(before), []part{{Name: table("plugins", criGRPC) + ": enable_cdi", Text: "  enable_cdi = true" + ours}})
	require.NoError(t, err)
	require.Empty(t, put)
	require.Equal(t, before, string(after))
	hosttest.Put(t, h.Root, "/etc/containerd/config.toml", "version = 2\nplugins.\"io.containerd.grpc.v1.cri\".enable_cdi = false\n")
	want, _, err := Want(t.Context(), h, Request{Engine: "containerd", Wrapper: wrapper})
	require.NoError(t, err)
	_, err = want[0].Diff(t.Context(), h)
	require.ErrorContains(t, err, "its format is unknown; add this by hand:\n")
}
