package oci

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func testSpec(t *testing.T) cdiSpec {
	t.Helper()
	data, err := os.ReadFile("testdata/amd.json")
	require.NoError(t, err)
	s, err := decodeCDI("testdata/amd.json", data)
	require.NoError(t, err)
	return s
}

func TestResolveGivesEachPathOnceAndTheSpecsOwnFirst(t *testing.T) {
	nodes, err := resolve([]cdiSpec{testSpec(t)}, []string{"amd.com/gpu=1", "amd.com/gpu=all", "amd.com/gpu=GPU-3c4d"})
	require.NoError(t, err)
	var paths []string
	for _, n := range nodes {
		paths = append(paths, n.Path)
		require.Equal(t, n.Path, n.HostPath)
	}
	require.Equal(t, []string{"/dev/kfd", "/dev/dri/card1", "/dev/dri/renderD129", "/dev/dri/card0", "/dev/dri/renderD128"}, paths)
}

func TestResolveNamesTheDevicesThereAre(t *testing.T) {
	_, err := resolve([]cdiSpec{testSpec(t)}, []string{"amd.com/gpu=GPU-gone"})
	require.EqualError(t, err, "cannot find GPU amd.com/gpu=GPU-gone: the CDI specs have of amd.com/gpu: 0, 1, all, GPU-1a2b, GPU-3c4d")
	_, err = resolve([]cdiSpec{testSpec(t)}, []string{"nvidia.com/gpu=0"})
	require.ErrorContains(t, err, "have of nvidia.com/gpu: none")
}

func TestSpecsThatCannotBeAppliedAreRefused(t *testing.T) {
	const head = `{"cdiVersion":"0.5.0","kind":"amd.com/gpu","devices":[{"name":"0","containerEdits":{`
	for in, want := range map[string]string{
		`{"cdiVersion":"2.0.0","kind":"a/b"}`: "is not 0.x or 1.x",
		`{"kind":"a/b"}`:                      "is not 0.x or 1.x",
		`{"cdiVersion":"0.5.0","kind":"gpu"}`: "is not vendor/class",
		`{"cdiVersion":`:                      "cannot decode CDI spec /x.json",
		head + `"hooks":[{"hookName":"createContainer","path":"/x"}]}}]}`:                    "it has hooks",
		head + `"mounts":[{}]}}]}`:                                                           "it has mounts",
		head + `"intelRdt":{}}}]}`:                                                           "it has intelRdt",
		head + `"deviceNodes":[{"path":"dev/kfd"}]}}]}`:                                      "is not absolute and clean",
		head + `"deviceNodes":[{"path":"/dev/../etc/x"}]}}]}`:                                "is not absolute and clean",
		head + `"deviceNodes":[{"path":""}]}}]}`:                                             "is not absolute and clean",
		head + `"deviceNodes":[{"path":"/dev/sda","type":"b"}]}}]}`:                          `type "b"`,
		head + `"deviceNodes":[{"path":"/dev/a","minor":1},{"path":"/dev/a","minor":2}]}}]}`: "in two ways",
	} {
		s, err := decodeCDI("/x.json", []byte(in))
		if err == nil {
			_, err = resolve([]cdiSpec{s}, []string{"amd.com/gpu=0"})
		}
		require.ErrorContains(t, err, want, in)
	}
	s, err := decodeCDI("/x.json", []byte(head+`"intelRdt":null,"env":[],"additionalGids":[5]}}]}`))
	require.NoError(t, err)
	_, err = resolve([]cdiSpec{s}, []string{"amd.com/gpu=0"})
	require.NoError(t, err)
}

func FuzzDecodeCDI(f *testing.F) {
	seed, err := os.ReadFile("testdata/amd.json")
	require.NoError(f, err)
	f.Add(seed)
	f.Add([]byte(`{"cdiVersion":"0.5.0","kind":"amd.com/gpu","devices":[{"name":"all","containerEdits":{"deviceNodes":[null]}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := decodeCDI("x", data)
		if err != nil {
			return
		}
		nodes, err := resolve([]cdiSpec{s}, []string{s.Kind + "=all"})
		if err != nil && nodes != nil {
			t.Fatal("nodes of a refused spec")
		}
		for _, n := range nodes {
			if n.Path == "" || n.Path[0] != '/' || n.HostPath == "" {
				t.Fatalf("%+v", n)
			}
		}
	})
}
