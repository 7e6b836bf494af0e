package engines

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// A folder that was there, or has another file by now, stays.
func TestFoldersThatWereMadeAreRemoved(t *testing.T) {
	for engine, folder := range map[string]string{"docker": "/etc/docker", "podman": "/etc/containers/containers.conf.d",
		"crio": "/etc/crio/crio.conf.d", "containerd": "/etc/containerd"} {
		for name, prepare := range map[string]func(dir string) error{
			"new":   func(string) error { return nil },
			"there": func(dir string) error { return os.MkdirAll(dir, 0o755) },
			"used":  func(dir string) error { return os.MkdirAll(dir+"/more", 0o755) },
		} {
			r := hosttest.Host(t, "amd")
			h := hosttest.Quiet(t, r)
			h.Runner = hosttest.NewRunner(t).Answer("dockerd --version", "Docker version 27.5.1").
				Answer("containerd --version", "containerd containerd.io 1.7.25")
			hosttest.Put(t, r, "/usr/bin/runc-amd-wrapper", "")
			require.NoError(t, os.Chmod(r.Path("/usr/bin/runc-amd-wrapper"), 0o755))
			if name == "there" {
				require.NoError(t, prepare(r.Path(folder)))
			}
			apply := func(request Request) {
				t.Helper()
				want, _, err := Want(t.Context(), h, request)
				require.NoError(t, err)
				p, err := plan.Diff(t.Context(), h, want...)
				require.NoError(t, err)
				_, err = p.Apply(t.Context(), nil)
				require.NoError(t, err)
			}
			request := Request{Engine: engine, Wrapper: "/usr/bin/runc-amd-wrapper"}
			apply(request)
			request.Default = Set
			apply(request)
			require.NoError(t, prepare(r.Path(folder)))
			apply(Request{Engine: engine, Remove: true})
			require.Equal(t, name != "new", r.Exists(folder), "%s, %s", engine, name)
			require.False(t, r.Exists("/var/lib/concourse-ci-machine"), "%s, %s", engine, name)
		}
	}
}
