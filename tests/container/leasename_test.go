//go:build e2e

package container

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/oci"
	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

// unnamed lends a bed GPUs that have no unique id: in the description a GPU is
// its index, and the lease its PCI address.
func (u *unit) unnamed(b *bed, nodes ...string) {
	u.t.Helper()
	numbers, err := suite.Minors()
	require.NoError(u.t, err)
	pci := map[string]string{"/dev/dri/renderD128": "0000:03:00.0", "/dev/dri/renderD129": "0000:0a:00.0"}
	s := spec(u.t)
	c := oci.Config{Visible: []string{"AMD_VISIBLE_DEVICES"}, Leases: &oci.Leases{Dir: filepath.Join(u.dir, "leases")}}
	var devices []any
	for i, path := range nodes {
		name := string(rune('0' + i))
		devices = append(devices, map[string]any{"name": name, "containerEdits": map[string]any{
			"deviceNodes": []any{map[string]any{"path": path, "type": "c", "major": 10, "minor": numbers[path]}}}})
		c.GPUs = append(c.GPUs, oci.GPU{Name: pci[path], CDI: "amd.com/gpu=" + name, Nodes: []string{path}})
	}
	s["devices"] = devices
	b.write("amd.json", s)
	b.configure(c)
}

// GPU 0 goes away and GPU 1 becomes GPU 0: no second task gets the one that a
// task computes on.
func TestGPUThatGetsAnotherIndexStaysItsTasks(t *testing.T) {
	u := newUnit(t, 2)
	holder := u.container(settings[1], "AMD_VISIBLE_DEVICES=1")
	u.unnamed(holder, "/dev/dri/renderD128", "/dev/dri/renderD129")
	holder.bundle()
	require.NoError(t, holder.up())
	u.fifo(holder.id)
	require.NoError(t, holder.run(task))
	require.Equal(t, []string{"+", holder.id, "129"}, u.event())

	second := u.container(settings[1])
	u.unnamed(second, "/dev/dri/renderD129")
	second.bundle()
	require.Error(t, second.up())
	require.Contains(t, second.logged(), "cannot lease 1 GPU: 0 of 1 are free; 0 is held by the task of container "+holder.id)
	holder.kill9("exec.pid")
	require.Eventually(t, func() bool { return second.up() == nil }, 20*time.Second, 5*time.Millisecond)
}
