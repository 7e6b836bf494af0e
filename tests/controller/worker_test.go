//go:build controller

package controller

import (
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
	"github.com/fourdollars/concourse-ci-machine/tests/lxdhost"
)

// worker is the life of a worker that has no web: what Juju and the charm must do with one
// another.
func (s *site) worker(t *testing.T) {
	const name, unit = "workers", "rocm-worker/0"
	release, other := filepath.Join(s.folder, "standin.tgz"), filepath.Join(s.folder, "other.tgz")
	id, otherID := standInRelease(t, release, "0"), standInRelease(t, other, "1")
	s.juju("add-model", name)
	s.juju("model-config", "--model", name, "update-status-hook-interval=10s")
	deploy := func(path string) string { return filepath.Join(s.folder, path, charmName) }

	s.Sub(t, "a worker without its GPU says which command passes one through", func(t *testing.T) {
		s.juju("deploy", "--model", name, deploy("first"), "rocm-worker", "--config", "mode=worker", "--config", "compute-runtime=rocm",
			"--resource", "concourse-release="+release)
		s.comesTo(name, unit, "blocked: no AMD GPU passed through")
	})
	s.Sub(t, "pass-gpu.sh passes it", func(t *testing.T) {
		out, err := s.operator(t.Context(), []string{"MODEL=" + name}, s.script("pass-gpu.sh"), unit, "--vendor", "amd", "--pci", lxdhost.AMDPCI).CombinedOutput()
		require.NoError(t, err, "%s", out)
		s.comesTo(name, unit, "waiting: Waiting for a web")
		nodes := s.juju("exec", "--model", name, "--unit", unit, "--", "ls /dev/dri/renderD128 /dev/kfd")
		require.Contains(t, nodes, "/dev/kfd")
		require.Equal(t, id, s.release(name, unit))
	})
	s.Sub(t, "a wrong option is told and mended", func(t *testing.T) {
		s.juju("config", "--model", name, "rocm-worker", "compute-runtime=rocket")
		s.comesTo(name, unit, `blocked: compute-runtime: "rocket" is not one of`)
		s.juju("config", "--model", name, "rocm-worker", "compute-runtime=rocm")
		s.comesTo(name, unit, "waiting: Waiting for a web")
	})
	s.Sub(t, "an action takes no parameter that it does not name", func(t *testing.T) {
		for _, c := range []struct{ action, param, want string }{
			{"restart-services", "key=tsa-host", `additional property "key" is not allowed`},
			{"rotate-keys", "keys=tsa", "keys : must match one of the enum values"},
		} {
			// juju itself does not fail if an action did.
			out, err := s.operator(t.Context(), nil, "juju", "run", "--model", name, unit, c.action, c.param).CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Contains(t, string(out), `cannot run "`+c.action+`" action: validation failed`)
			require.Contains(t, string(out), c.want)
		}
		require.Contains(t, s.juju("run", "--model", name, unit, "list-gpus"), lxdhost.AMDPCI)
	})
	s.Sub(t, "another release can be attached", func(t *testing.T) {
		s.juju("attach-resource", "--model", name, "rocm-worker", "concourse-release="+other)
		s.eventually(name, "the other release is used", func(model) bool { return s.release(name, unit) == otherID })
	})
	s.Sub(t, "a refresh brings the other charm, and the resource can stay unnamed", func(t *testing.T) {
		s.juju("refresh", "--model", name, "rocm-worker", "--path", deploy("second"))
		s.eventually(name, "the unit runs the other charm", func(model) bool {
			return strings.Contains(s.charmVersion(name, unit), "second")
		})
		s.comesTo(name, unit, "waiting: Waiting for a web")
		require.Equal(t, otherID, s.release(name, unit))
	})
	s.Sub(t, "a refresh brings charm and resource at once", func(t *testing.T) {
		s.juju("refresh", "--model", name, "rocm-worker", "--path", deploy("first"), "--resource", "concourse-release="+release)
		s.eventually(name, "the unit runs the first charm and release", func(model) bool {
			return strings.Contains(s.charmVersion(name, unit), "first") && s.release(name, unit) == id
		})
		s.comesTo(name, unit, "waiting: Waiting for a web")
	})
	s.Sub(t, "a refresh that adds an endpoint goes by the takeover charm", func(t *testing.T) {
		s.juju("deploy", "--model", name, deploy("older"), "older", "--config", "mode=worker", "--config", "compute-runtime=none",
			"--resource", "concourse-release="+release)
		s.comesTo(name, "older/0", "waiting: Waiting for a web")
		// Once a Juju takes the whole charm, docs/how-to/migrate.md must follow.
		out, err := s.operator(t.Context(), nil, "juju", "refresh", "--model", name, "older", "--path", deploy("second")).CombinedOutput()
		require.Error(t, err, "%s", out)
		require.Contains(t, string(out), "one or more of the provided endpoints")
		s.juju("refresh", "--model", name, "older", "--path", deploy("takeover"))
		s.eventually(name, "the unit runs the takeover charm", func(model) bool {
			return strings.Contains(s.charmVersion(name, "older/0"), "takeover")
		})
		s.juju("remove-application", "--model", name, "--no-prompt", "older")
	})
	s.Sub(t, "an option takes a secret that it is granted", func(t *testing.T) {
		uri := s.juju("add-secret", "--model", name, "proxy", "http-proxy=http://somebody:password@"+gateway+":3128")
		s.juju("config", "--model", name, "rocm-worker", "http-proxy="+uri)
		s.comesTo(name, unit, "blocked: http-proxy: cannot read the secret")
		s.juju("grant-secret", "--model", name, "proxy", "rocm-worker")
		s.comesTo(name, unit, "waiting: Waiting for a web")
		s.juju("update-secret", "--model", name, "proxy", "wrong=http://"+gateway+":3128", "other=none")
		s.comesTo(name, unit, "blocked: http-proxy: the secret has the keys")
		s.juju("config", "--model", name, "rocm-worker", "--reset", "http-proxy")
		s.comesTo(name, unit, "waiting: Waiting for a web")
		s.juju("remove-secret", "--model", name, "proxy")
	})
	s.Sub(t, "a worker more has what the application has, and no GPU", func(t *testing.T) {
		const more = "rocm-worker/1"
		s.juju("add-unit", "--model", name, "rocm-worker")
		s.comesTo(name, more, "blocked: no AMD GPU passed through")
		require.Equal(t, id, s.release(name, more))
		require.Contains(t, s.model(name).unit(unit).statusLine(), "waiting: Waiting for a web")
		s.juju("remove-unit", "--model", name, "--no-prompt", "--destroy-storage", more)
		s.eventually(name, more+" is gone", func(m model) bool { return len(m.units("rocm-worker")) == 1 })
		s.comesTo(name, unit, "waiting: Waiting for a web")
	})
	s.Sub(t, "a removed unit goes", func(t *testing.T) {
		s.juju("remove-application", "--model", name, "--no-prompt", "--destroy-storage", "rocm-worker")
		s.eventually(name, "the worker is gone", func(m model) bool { return len(m.Applications) == 0 })
		s.juju("destroy-model", "--no-prompt", name)
	})
}

// release is the one that the unit uses.
func (s *site) release(name, unit string) string {
	s.T.Helper()
	return path.Base(s.juju("exec", "--model", name, "--unit", unit, "--", "readlink "+release.Link))
}

// charmVersion is the version of the charm that the unit runs.
func (s *site) charmVersion(name, unit string) string {
	s.T.Helper()
	return s.juju("exec", "--model", name, "--unit", unit, "--", "cat /var/lib/juju/agents/unit-"+strings.ReplaceAll(unit, "/", "-")+"/charm/version")
}

// script is the path of one of the project's.
func (s *site) script(name string) string {
	path, err := filepath.Abs("../../scripts/" + name)
	require.NoError(s.T, err)
	return path
}
