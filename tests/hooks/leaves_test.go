package hooks

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a unit provides is written in many places; whatever it is, removing the unit takes
// it away. What may stay is listed here, with why.
func TestRemovedUnitLeavesNothingItInstalled(t *testing.T) {
	t.Parallel()
	stays := []string{
		"/var/lib/concourse/",                  // releases and volumes: other units may use them
		"/run/concourse-ci-machine/locks/hook", // the run holds it
		"/etc/passwd", "/etc/group",            // users may own files that stay
	}
	for name, bring := range map[string]func(t *testing.T) (*unit, map[string]string){
		"worker with leases": func(t *testing.T) (*unit, map[string]string) {
			u := newUnit(t, fixture("both-passed"), options{"compute-runtime": "rocm", "amd-container-toolkit": "skip", "gpu-sharing": "exclusive"})
			before := below(u)
			u.works()
			return u, before
		},
		"worker with a kubelet": func(t *testing.T) (*unit, map[string]string) {
			u := newUnit(t, fixture("amd"), options{"compute-runtime": "rocm", "amd-container-toolkit": "skip"})
			const plugins, service = "/var/lib/kubelet/device-plugins", "concourse-gpu-device-plugin.service"
			before := below(u)
			u.works()
			require.False(t, u.Root.Exists("/etc/systemd/system/"+service), "no kubelet")
			require.NoError(t, u.Root.MkdirAll(plugins, 0o750))
			before["/var"] = "d"
			u.hook("update-status")
			require.True(t, u.Machine.Up(service))
			require.NotContains(t, u.hook("update-status").Plan(), "plugin", "a second run plans nothing")
			const driver = "concourse-gpu-dra-driver.service"
			u.Model.Config["kubernetes"] = "claims"
			u.hook("config-changed")
			require.False(t, u.Machine.Up(service))
			require.True(t, u.Machine.Up(driver))
			require.NotContains(t, u.hook("update-status").Plan(), "driver", "a second run plans nothing")
			u.Model.Config["kubernetes"] = "off"
			u.hook("config-changed")
			require.False(t, u.Machine.Up(driver))
			require.False(t, u.Root.Exists("/opt/concourse-ci-machine/bin/gpu-dra-driver"))
			require.False(t, u.Root.Exists("/opt/concourse-ci-machine/bin/gpu-device-plugin"))
			u.Model.Config["kubernetes"] = "auto"
			u.hook("config-changed")
			return u, before
		},
		"worker with CUDA": func(t *testing.T) (*unit, map[string]string) {
			u := newUnit(t, fixture("both-passed"), options{"compute-runtime": "cuda"})
			before := below(u)
			u.works()
			return u, before
		},
		"worker that became the web": func(t *testing.T) (*unit, map[string]string) {
			u := newUnit(t, fixture("amd"), options{"mode": "auto", "compute-runtime": "rocm", "amd-container-toolkit": "skip", "enable-metrics": true})
			before := below(u)
			u.giveKey()
			u.answered()
			u.Model.Relate(1, "peers", u.Model.App()).LocalApp["admin-password"] = password
			u.databased()
			u.Model.Leader = false
			u.hook("install")
			require.True(t, u.Root.Exists("/etc/systemd/system/concourse-cdi-refresh.path"))
			u.Model.Leader = true
			u.hook("leader-elected")
			require.True(t, u.Root.Exists("/etc/systemd/system/concourse-server.service"))
			require.False(t, u.Root.Exists("/etc/systemd/system/concourse-cdi-refresh.path"), "nobody is handed GPUs here")
			return u, before
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u, before := bring(t)
			require.Greater(t, len(below(u)), len(before)+10, "too little was brought for this to show anything")
			requireListed(t, before, below(u))
			u.hook("stop")
			removed := map[string]bool{}
			for step := range strings.Lines(u.hook("remove").Plan()) {
				_, op, _ := strings.Cut(strings.TrimSpace(step), " ")
				require.False(t, removed[op], "twice: %s", op)
				removed[op] = true
			}
			require.Greater(t, len(removed), 10)
			for path, is := range below(u) {
				_, was := before[path]
				known := slices.ContainsFunc(stays, func(s string) bool { return strings.HasPrefix(path, s) })
				require.True(t, was || known || strings.HasPrefix(is, "d"), "%s stays", path)
			}
		})
	}
}
