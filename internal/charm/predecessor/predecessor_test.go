package predecessor

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// predecessor returns a unit of the Python charm, with a simulated systemd.
func predecessor(t testing.TB, name string) (host.Host, *hosttest.Runner) {
	run := hosttest.NewRunner(t).Answer("systemctl", "").
		Answer("systemctl show", "Id=containerd.service\nLoadState=loaded\nActiveState=active\n")
	return host.Host{Root: hosttest.Predecessor(t, name), Runner: run, Clock: hosttest.Clock{T: hosttest.Now}}, run
}

// listing returns every file of the unit except the kernel's, with mode, path and target of a
// link, and the contents by path.
func listing(t testing.TB, r host.Root) (lines []string, content map[string]string) {
	t.Helper()
	content = map[string]string{}
	require.NoError(t, filepath.WalkDir(string(r), func(full string, e fs.DirEntry, err error) error {
		require.NoError(t, err)
		p := r.Rel(full)
		if p == "/sys" || p == "/proc" {
			return fs.SkipDir
		}
		st, err := e.Info()
		require.NoError(t, err)
		switch {
		case e.IsDir():
			lines = append(lines, fmt.Sprintf("%04o %s/", st.Mode().Perm(), strings.TrimSuffix(p, "/")))
		case e.Type() == fs.ModeSymlink:
			to, err := r.Readlink(p)
			require.NoError(t, err)
			lines = append(lines, fmt.Sprintf("link %s %s", p, to))
		default:
			data, err := os.ReadFile(full)
			require.NoError(t, err)
			content[p] = string(data)
			lines = append(lines, fmt.Sprintf("%04o %s", st.Mode().Perm(), p))
		}
		return nil
	}))
	return lines, content
}

func diffed(t testing.TB, h host.Host) plan.Plan {
	t.Helper()
	p, err := plan.Diff(context.Background(), h, Leftovers(h.Root)...)
	require.NoError(t, err)
	return p
}

func TestLeftoversOfThePredecessorAreRemoved(t *testing.T) {
	for _, name := range hosttest.PredecessorNames() {
		t.Run(name, func(t *testing.T) {
			h, run := predecessor(t, name)
			_, before := listing(t, h.Root)
			p := diffed(t, h)
			var steps strings.Builder
			require.NoError(t, p.Print(&steps))
			notes, err := p.Apply(t.Context(), nil)
			require.NoError(t, err)
			require.Empty(t, notes)
			lines, after := listing(t, h.Root)
			for i, line := range lines {
				_, p, _ := strings.Cut(line, " ")
				if text, file := after[p]; file && before[p] != text {
					lines[i] += " (changed)"
				}
			}
			hosttest.Golden(t, filepath.Join("testdata", name+".golden"),
				steps.String()+"\n"+strings.Join(run.Ran, "\n")+"\n\n"+strings.Join(lines, "\n")+"\n")
			require.Empty(t, diffed(t, h), "a second run finds nothing")
			require.Empty(t, Remarks(h.Root))
		})
	}
}

// Each run is killed one step later than the previous one. They continue with the remaining
// files and end like one complete run.
func TestPredecessorConvergesWhenKilledAfterEachStep(t *testing.T) {
	for _, name := range hosttest.PredecessorNames() {
		t.Run(name, func(t *testing.T) {
			whole, _ := predecessor(t, name)
			p := diffed(t, whole)
			_, err := p.Apply(t.Context(), nil)
			require.NoError(t, err)
			want, wantContent := listing(t, whole.Root)
			h, run := predecessor(t, name)
			runs := 0
			for due := diffed(t, h); len(due) > 0; due = diffed(t, h) {
				require.Less(t, runs, len(p), "each run does what the one before left: %s", due[0].Op)
				_, err := due[:min(runs+1, len(due))].Apply(t.Context(), nil)
				require.NoError(t, err)
				runs++
			}
			got, content := listing(t, h.Root)
			require.Equal(t, want, got)
			require.Equal(t, wantContent, content)
			if name == "worker" {
				require.Equal(t, []string{"systemctl try-restart containerd.service"}, run.Ran)
			}
		})
	}
}

// A failed step is tried again, because the files that lead to it still exist.
func TestFailedStepsAreRetried(t *testing.T) {
	for name, failing := range map[string]string{"web": "systemctl disable --now concourse-exporter.service", "worker": "systemctl try-restart containerd.service"} {
		h, run := predecessor(t, name)
		run.Fail(failing, 1, "Failed to connect to bus")
		_, err := diffed(t, h).Apply(t.Context(), nil)
		if name == "web" {
			require.ErrorContains(t, err, "cannot stop concourse-exporter.service")
		} else {
			require.NoError(t, err, "containerd is the system's: a remark, and no end")
			require.True(t, h.Exists("/usr/local/bin/runc-wrapper"), "containerd may still run it")
		}
		run.Answer(failing, "")
		_, err = diffed(t, h).Apply(t.Context(), nil)
		require.NoError(t, err)
		require.Empty(t, diffed(t, h))
	}
}

func TestNoStepsWithoutThePredecessor(t *testing.T) {
	for _, name := range append(hosttest.HostNames(), "") {
		root := host.Root(t.TempDir())
		if name != "" {
			root = host.Root(filepath.Join(hosttest.HostsDir(), name))
		}
		require.Empty(t, Leftovers(root), name)
		require.Empty(t, Remarks(root), name)
		_, ok := WorkerName(root, concourse.WorkDir)
		require.False(t, ok, name)
	}
}

// Files with another owner at paths of the Python charm stay.
func TestFilesOfTheOperatorStay(t *testing.T) {
	own := map[string]string{
		"/etc/systemd/system/concourse-exporter.service":    "[Service]\nExecStart=/opt/ours/exporter\n",
		"/etc/concourse-exporter.env":                       "OURS=1\n",
		"/usr/local/bin/concourse-exporter.py":              "print('ours')\n",
		"/usr/local/bin/runc-wrapper":                       "#!/bin/sh\nexec runc \"$@\"\n",
		"/opt/bin/runc-wrapper":                             "#!/bin/sh\nexec runc --bundle \"$@\" # config.json\n",
		"/opt/bin/runc.real":                                "ours\n",
		"/opt/bin/helm":                                     "ours\n",
		"/usr/bin/runc.real":                                "ours\n",
		"/usr/bin/runc":                                     "the package's\n",
		"/usr/bin/nvidia-container-runtime.real":            "ours\n",
		"/etc/containerd/config.toml":                       "version = 2\n",
		"/etc/containerd/config.toml.backup-20260101000000": "version = 2\n",
		"/etc/nvidia-container-runtime/config.toml":         "runtimes = [\"runc\", \"crun\"]\n",
		"/root/.flyrc":                                      "targets:\n  exporter:\n    api: https://ci.example\n",
	}
	t.Run("without the Python charm", func(t *testing.T) {
		r := hosttest.Host(t, "no-gpu")
		for p, text := range own {
			hosttest.Put(t, r, p, text)
		}
		hosttest.Link(t, r, "/opt/bin/runc", "/usr/bin/crun")
		require.Empty(t, Leftovers(r))
		require.Empty(t, Remarks(r), "nothing to remark where nothing is taken over")
	})
	t.Run("with it", func(t *testing.T) {
		h, _ := predecessor(t, "worker")
		delete(own, "/root/.flyrc")          // a worker has no exporter
		delete(own, "/opt/bin/runc-wrapper") // stays the Python charm's, and with it:
		delete(own, "/opt/bin/runc.real")    //
		delete(own, "/usr/bin/runc.real")    //
		delete(own, "/etc/containerd/config.toml.backup-20260101000000")
		for p, text := range own {
			require.NoError(t, h.Remove(p))
			hosttest.Put(t, h.Root, p, text)
		}
		require.NoError(t, h.Remove("/opt/bin/runc"))
		hosttest.Link(t, h.Root, "/opt/bin/runc", "/usr/bin/crun")
		remarks := Remarks(h.Root)
		for _, p := range []string{"/etc/systemd/system/concourse-exporter.service", "/etc/concourse-exporter.env", "/usr/local/bin/concourse-exporter.py",
			"/usr/local/bin/runc-wrapper", "/usr/bin/nvidia-container-runtime.real", "/opt/bin/runc"} {
			require.Contains(t, strings.Join(remarks, "\n"), "kept "+p+": ")
		}
		_, err := diffed(t, h).Apply(t.Context(), nil)
		require.NoError(t, err)
		_, after := listing(t, h.Root)
		for p, text := range own {
			require.Equal(t, text, after[p], p)
		}
		to, err := h.Readlink("/opt/bin/runc")
		require.NoError(t, err)
		require.Equal(t, "/usr/bin/crun", to)
		require.NotContains(t, after, "/opt/bin/runc-wrapper")
	})
	t.Run("fly's targets", func(t *testing.T) {
		h, _ := predecessor(t, "web")
		const both = "targets:\n  exporter:\n    api: http://10.40.0.11:8080\n  ci:\n    api: https://ci.example\n"
		hosttest.Put(t, h.Root, "/root/.flyrc", both)
		require.Contains(t, strings.Join(Remarks(h.Root), "\n"), "fly --target exporter delete-target")
		_, err := diffed(t, h).Apply(t.Context(), nil)
		require.NoError(t, err)
		_, after := listing(t, h.Root)
		require.Equal(t, both, after["/root/.flyrc"])
	})
}

// Every hook looks, on machines of which few ever had the Python charm.
func BenchmarkNoPredecessor(b *testing.B) {
	root := hosttest.Host(b, "no-gpu")
	hosttest.Put(b, root, "/etc/containerd/config.toml", "version = 2\n")
	for b.Loop() {
		require.Empty(b, Leftovers(root))
	}
}
