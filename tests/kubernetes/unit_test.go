//go:build kubernetes

package kubernetes

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdi"
	"github.com/fourdollars/concourse-ci-machine/internal/oci"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

const resource = "amd.com/gpu"

// unit makes the machine one with n GPUs, which the device plugin offers.
func unit(t *testing.T, n int) {
	t.Helper()
	configure(t, n)
	offers(t, n)
}

// configure makes the machine one with tasks that lease the first n GPUs, as the charm does, and
// containers of other engines can have them, too. It waits for what the test before had to
// be given back.
func configure(t *testing.T, n int) {
	t.Helper()
	first.configure(t, 0, n)
}

// configure does the same for the GPUs from one on to another, on a node.
func (m member) configure(t *testing.T, from, to int) {
	t.Helper()
	inventory, err := gpu.Discover(host.Root("/"))
	require.NoError(t, err)
	all := inventory.GPUsOf(gpu.AMD)
	require.Len(t, all, gpus)
	runc, err := exec.LookPath("runc")
	require.NoError(t, err)
	config := oci.Config{Runtime: runc, Containers: oci.Requested, Specs: []string{cdi.Path}, Visible: []string{"AMD_VISIBLE_DEVICES"},
		Leases: &oci.Leases{Dir: lease.DefaultDir}, Quarantine: quarantine.AdmissionFile}
	record := quarantine.Record{At: time.Now(), Policy: quarantine.Auto}
	for i := from; i < to; i++ {
		g := all[i]
		require.Equal(t, render(i), g.Render.Path)
		name := g.Address()
		config.GPUs = append(config.GPUs, oci.GPU{Name: name, CDI: "amd.com/gpu=" + strconv.Itoa(i), Nodes: []string{g.Render.Path}})
		record.GPUs = append(record.GPUs, quarantine.GPU{Ref: quarantine.Ref{Name: name, Index: i}, State: quarantine.InService, Since: time.Now()})
	}
	text, err := json.Marshal(config)
	require.NoError(t, err)
	write(t, m.root.Path(oci.DefaultConfig), string(text))
	require.NoError(t, quarantine.RecordFile.Write(m.root, record))
	require.NoError(t, os.RemoveAll(m.root.Path(quarantine.AdmissionFile)))
	m.dispatch(t, "cdi", "generate", "--output", cdi.Path)
	for i := from; i < to; i++ {
		m.held(t, i, "")
	}
}

// offers waits until the node can allocate n GPUs.
func offers(t *testing.T, n int) {
	t.Helper()
	first.offers(t, n)
}

func (m member) offers(t *testing.T, n int) {
	t.Helper()
	eventually(t, strconv.Itoa(n)+" GPUs are offered", func() (string, bool) {
		now := m.status(t).Allocatable[resource]
		return "it can allocate " + now, now == strconv.Itoa(n)
	})
}

func dispatch(t *testing.T, words ...string) string {
	t.Helper()
	return first.dispatch(t, words...)
}

func (m member) dispatch(t *testing.T, words ...string) string {
	t.Helper()
	argv := m.inside(append([]string{filepath.Join(dir, "dispatch")}, words...))
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	require.NoError(t, err, "dispatch %s\n%s", strings.Join(words, " "), out)
	return string(out)
}

// startPlugin starts gpu-device-plugin as a unit does.
func startPlugin(t *testing.T, words ...string) *part {
	t.Helper()
	return newPart(t, "gpu-device-plugin", append([]string{filepath.Join(dir, "gpu-device-plugin")}, words...)...)
}

// nodes are what a pod with these GPUs opens.
func nodes(gpus ...int) []string {
	paths := []string{"/dev/kfd"}
	for _, i := range gpus {
		paths = append(paths, render(i))
	}
	return paths
}
