package admission

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// An APU's memory is in two files.
func TestMemoryInUseIsTheSumOfItsFiles(t *testing.T) {
	files := map[string]string{"/vram": "500\n", "/gtt": "600\n", "/damaged": "x"}
	read := func(file string) ([]byte, error) {
		text, ok := files[file]
		if !ok {
			return nil, os.ErrNotExist
		}
		return []byte(text), nil
	}
	f := File{GPUs: []GPU{{Name: "a", Files: []string{"/vram", "/gtt"}, Most: 1100},
		{Name: "b", Files: []string{"/vram", "/damaged"}}, {Name: "c", Files: []string{"/missing"}}}}
	names := []string{"c", "b", "a"}
	for gpu := range names {
		require.Empty(t, f.Want(names, read).Unready(gpu), names[gpu])
	}
	f.GPUs[0].Most--
	require.Equal(t, "has 1 KiB of its memory in use, though its last task has ended", f.Want(names, read).Unready(2))
}

// Names decide, because the file can list GPUs that this request does not have.
func TestWantHasTheIndexesOfItsOwnGPUs(t *testing.T) {
	f := File{GPUs: []GPU{{Name: "x", Reason: "is missing", Avoid: []string{"hash"}, Taken: 90},
		{Name: "b", Reason: "is quarantined\xff", Taken: 40}, {Name: "a", Avoid: []string{"hash"}}}}
	want := f.Want([]string{"a", "b"}, os.ReadFile)
	want.Unready = nil
	require.Equal(t, lease.Want{Excluded: map[int]string{1: "is quarantined?"},
		Avoid: map[int][]string{0: {"hash"}}, Taken: map[int]uint64{1: 40}}, want)
}
