package report

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/gpuhealth"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// source reads the tree in this process.
func source(t *testing.T, r host.Root) Source {
	t.Helper()
	parts, err := Parts(r)
	require.NoError(t, err)
	return Source{Parts: parts, About: "about\n", ReadTree: func(_ context.Context, parts []string) ([]byte, error) {
		var b bytes.Buffer
		err := WriteTree(r, parts, &b)
		return b.Bytes(), err
	}}
}

func written(t *testing.T, s Source) (string, []error) {
	t.Helper()
	var b bytes.Buffer
	_, problems, err := Write(t.Context(), s, time.Unix(1_800_000_000, 0), &b)
	require.NoError(t, err)
	dir := t.TempDir()
	untar := exec.Command("tar", "--extract", "--gzip", "--directory", dir)
	untar.Stdin = &b
	out, err := untar.CombinedOutput()
	require.NoError(t, err, string(out))
	return filepath.Join(dir, "report"), problems
}

// What a program reads of the tree in a report is what it reads of the machine.
func TestTreeIsAFixtureOfTheMachine(t *testing.T) {
	for _, name := range hosttest.HostNames() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := hosttest.Host(t, name)
			dir, problems := written(t, source(t, r))
			require.Empty(t, problems)
			tree := host.Root(filepath.Join(dir, "tree"))
			require.Equal(t, readings(t, r), readings(t, tree))
		})
	}
}

// readings returns what discovery and the owner of the GPUs read, without their times.
func readings(t *testing.T, r host.Root) string {
	t.Helper()
	inv, err := gpu.Discover(r)
	require.NoError(t, err)
	report := gpuhealth.ReadReport(t.Context(), r)
	for i := range report.GPUs {
		report.GPUs[i].History = nil
	}
	text, err := json.MarshalIndent(struct {
		GPUs    []gpu.GPU
		Reading []api.Status
	}{inv.GPUs, report.GPUs}, "", " ")
	require.NoError(t, err)
	return strings.ReplaceAll(string(text), string(r), "")
}

func TestReportHasAnswersAndProblems(t *testing.T) {
	r := hosttest.Host(t, "mi210x4")
	s := source(t, r)
	s.Answers = []Answer{
		{"gpu-list.txt", func(w io.Writer) error { fmt.Fprintln(w, "four"); return nil }},
		{"gpu-health.txt", func(io.Writer) error { return errors.New("one is critical") }},
	}
	read := s.ReadTree
	s.ReadTree = func(ctx context.Context, parts []string) ([]byte, error) {
		all, err := read(ctx, parts)
		if parts[0] == "0000:c3:00.0" { // a reader that was ended in the middle of a file
			return all[:3*512+100], errors.New("gave up after 20s")
		}
		return all, err
	}
	dir, problems := written(t, s)
	wants := map[string]string{"README": "about\n", "gpu-list.txt": "four\n", "gpu-health.txt": "one is critical\n"}
	for file, want := range wants {
		text, err := os.ReadFile(filepath.Join(dir, file))
		require.NoError(t, err)
		require.Equal(t, want, string(text), file)
	}
	require.Len(t, problems, 1)
	text, err := os.ReadFile(filepath.Join(dir, "problems.txt"))
	require.NoError(t, err)
	require.Contains(t, string(text), "cannot read all files of 0000:c3:00.0: gave up after 20s")
	tree := host.Root(filepath.Join(dir, "tree"))
	inv, err := gpu.Discover(tree)
	require.NoError(t, err)
	require.Len(t, inv.GPUs, 3, "a GPU that hangs hides no other")
}

func TestUnreadableFilesAreListed(t *testing.T) {
	r := hosttest.Host(t, "amd")
	parts, err := Parts(r)
	require.NoError(t, err)
	require.Len(t, parts, 2)
	gpuDir := "/sys/bus/pci/devices/" + parts[1]
	require.NoError(t, os.Remove(r.Path(gpuDir+"/unique_id")))
	require.NoError(t, os.Symlink("unique_id", r.Path(gpuDir+"/unique_id"))) // an endless link
	dir, problems := written(t, source(t, r))
	require.Empty(t, problems)
	text, err := os.ReadFile(filepath.Join(dir, Unread+parts[1]+".txt"))
	require.NoError(t, err)
	require.Contains(t, string(text), "unique_id: too many links")
}

func TestSecretsStayOut(t *testing.T) {
	r := hosttest.Host(t, "amd")
	parts, err := Parts(r)
	require.NoError(t, err)
	for _, p := range []string{"/etc/default/gpukit", "/etc/concourse-ci-machine/config.env", "/proc/cmdline",
		"/etc/hostname"} {
		hosttest.Put(t, r, p, "TOKEN=hunter2\n")
	}
	hosttest.Put(t, r, pciDevices+parts[1]+"/serial_number", "hunter2\n")
	var b bytes.Buffer
	for _, part := range parts {
		require.NoError(t, WriteTree(r, []string{part}, &b))
	}
	require.NotContains(t, b.String(), "hunter2")
	require.ErrorContains(t, WriteTree(r, []string{"../../etc"}, &b), "want the PCI address of a GPU")
}
