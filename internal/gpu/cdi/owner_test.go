package cdi

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func content(t *testing.T, h host.Host) string {
	t.Helper()
	data, err := h.ReadFile(Path)
	require.NoError(t, err)
	return string(data)
}

func TestRemovalRestoresThePreviousFile(t *testing.T) {
	for name, before := range map[string]string{
		"AMD's tool":  `{"cdiVersion":"0.6.0","kind":"amd.com/gpu","devices":[{"name":"0","containerEdits":{"deviceNodes":[{"path":"/dev/dri/card0"}]}}]}`,
		"not JSON":    "kind: amd.com/gpu\n",
		"its slot":    `{"devices":[{"name":"pci-0000:03:00.0"}]}`,
		"annotations": `{"devices":[{"name":"0","annotations":{"site":"x"}}]}`,
		"empty":       "",
	} {
		h := host.Host{Root: hosttest.Root(t), Runner: hosttest.NewRunner(t), Clock: hosttest.Clock{T: hosttest.Now}}
		hosttest.Put(t, h.Root, "/etc/cdi/other.json", "{}")
		hosttest.Put(t, h.Root, Path, before)
		require.Empty(t, apply(t, h, Absent{"compute-runtime is none"}), name)
		require.Equal(t, before, content(t, h), name)

		r, _, err := Resource([]gpu.GPU{card(0)}, kfd())
		require.NoError(t, err)
		require.Equal(t, "move "+Path+" to "+saved, apply(t, h, Keep{})[0].Op, name)
		require.Empty(t, apply(t, h, Keep{}), name)
		apply(t, h, r)
		require.Empty(t, apply(t, h, Keep{}), name)
		require.Empty(t, apply(t, h, r), name)

		require.Len(t, apply(t, h, Absent{"compute-runtime is none"}), 1, name)
		require.Equal(t, before, content(t, h), name)
		require.False(t, h.Exists(saved), name)
		require.Empty(t, apply(t, h, Absent{"compute-runtime is none"}), name)
		require.True(t, h.Exists("/etc/cdi/other.json"), name)
	}
}

// Each description by another program is kept, once. The last one comes back.
func TestSecondForeignDescriptionKeepsTheFirst(t *testing.T) {
	h := host.Host{Root: hosttest.Root(t), Runner: hosttest.NewRunner(t), Clock: hosttest.Clock{T: hosttest.Now}}
	r, _, err := Resource([]gpu.GPU{card(0)}, kfd())
	require.NoError(t, err)
	for _, text := range []string{"first", "second", "second", "third", "first", "third"} {
		hosttest.Put(t, h.Root, Path, text)
		apply(t, h, Keep{})
		apply(t, h, r)
	}
	apply(t, h, Absent{"compute-runtime is none"})
	require.Equal(t, "third", content(t, h))
	kept, err := h.Glob(saved + "*")
	require.NoError(t, err)
	texts := []string{}
	for _, file := range kept {
		text, err := h.ReadText(file)
		require.NoError(t, err)
		texts = append(texts, text)
	}
	require.ElementsMatch(t, []string{"first", "second", "third"}, texts)
}

// A run that is killed between the two moves does the second one later.
func TestInterruptedMovesLoseNoDescription(t *testing.T) {
	h := host.Host{Root: hosttest.Root(t), Runner: hosttest.NewRunner(t), Clock: hosttest.Clock{T: hosttest.Now}}
	hosttest.Put(t, h.Root, saved, "first")
	hosttest.Put(t, h.Root, Path, "second")
	p, err := Keep{}.Diff(t.Context(), h)
	require.NoError(t, err)
	require.Len(t, p, 2)
	require.NoError(t, p[0].Do(t.Context()))
	require.Len(t, apply(t, h, Keep{}), 1)
	for file, want := range map[string]string{saved: "second", saved + ".1": "first"} {
		text, err := h.ReadText(file)
		require.NoError(t, err)
		require.Equal(t, want, text)
	}
}

func TestOwnDescriptionIsRemoved(t *testing.T) {
	r, _, err := Resource([]gpu.GPU{card(0)}, kfd())
	require.NoError(t, err)
	h, _ := install(t, r)
	p := apply(t, h, Absent{"compute-runtime is none"})
	require.Len(t, p, 1)
	require.Equal(t, "compute-runtime is none", p[0].Why)
	require.False(t, h.Exists(Path))
	require.Empty(t, apply(t, h, Absent{""}))
}

func FuzzOwn(f *testing.F) {
	f.Add([]byte(`{"devices":[{"name":"0000:03:00.0-1"}]}`))
	f.Add([]byte(`[`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := host.Root(t.TempDir())
		hosttest.Put(t, r, Path, string(data))
		there, _, err := own(r)
		require.NoError(t, err)
		require.True(t, there)
	})
}
