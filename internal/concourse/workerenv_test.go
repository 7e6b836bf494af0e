package concourse

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/resourcetest"
)

func gpuWorker() WorkerConfig {
	return WorkerConfig{
		WorkDir: WorkDir,
		Name:    "gpu-0-0badcafe", LogLevel: "info", TSA: TSA{Hosts: []string{"10.0.0.2:2222"}, HostKeys: []string{"ssh-rsa AAAA"}},
		Tags: []string{"gpu", "compute-runtime=rocm"}, Wrapped: true, WorkerOptions: WorkerOptions{ContainerdDNSServer: []string{"10.0.0.53", "fd00::53"}},
		Proxy: resource.Proxies{HTTP: "http://proxy:3128", HTTPS: "http://u:p@proxy:3128", No: "10.0.0.0/8,.internal"},
	}
}

func TestWorkerEnvironment(t *testing.T) {
	f, err := gpuWorker().File(nil)
	require.NoError(t, err)
	require.Equal(t, EnvFile, f.Path)
	require.Equal(t, os.FileMode(0o640), f.Mode)
	hosttest.Golden(t, "testdata/worker-config.env", string(f.Data))
}

// Concourse ignores names that it does not know, so each one is checked.
func TestWorkerKnowsEveryVariable(t *testing.T) {
	proxied := gpuWorker()
	proxied.ContainerdDNSProxyEnable = true
	known := variables(t, "worker")
	for _, c := range []WorkerConfig{gpuWorker(), proxied} {
		for key := range c.Env() {
			require.True(t, slices.Contains(known, key) || strings.HasSuffix(key, "_proxy"), "%s is no variable of concourse worker", key)
		}
	}
}

// D31: only the operator's DNS servers, and none with the proxy.
func TestDNSIsTheMachinesUnlessSaidOtherwise_D31(t *testing.T) {
	c := gpuWorker()
	c.ContainerdDNSServer = nil
	require.NotContains(t, c.Env(), "CONCOURSE_CONTAINERD_DNS_SERVER")
	require.NotContains(t, c.Env(), "CONCOURSE_CONTAINERD_DNS_PROXY_ENABLE")
	c = gpuWorker()
	c.ContainerdDNSProxyEnable = true
	require.NotContains(t, c.Env(), "CONCOURSE_CONTAINERD_DNS_SERVER")
	require.Equal(t, "true", c.Env()["CONCOURSE_CONTAINERD_DNS_PROXY_ENABLE"])
}

// D26: everything that the charm can write it can also take back.
func TestEveryKeyIsTakenBackWhenCleared_D26(t *testing.T) {
	full, err := gpuWorker().File(nil)
	require.NoError(t, err)
	least, err := WorkerConfig{Name: "n", WorkDir: WorkDir, LogLevel: "info"}.File(full.Data)
	require.NoError(t, err)
	clean, err := WorkerConfig{Name: "n", WorkDir: WorkDir, LogLevel: "info"}.File(nil)
	require.NoError(t, err)
	require.Equal(t, string(clean.Data), string(least.Data))
}

// D35: no other program can read the file, at any moment: it is created 0600 and
// replaced in one step.
func TestWorkerEnvironmentIsWrittenClosed_D35(t *testing.T) {
	h := hosttest.Real(t)
	hosttest.Put(t, h.Root, EnvFile, "CONCOURSE_NAME=old\n")
	f, err := gpuWorker().File(nil)
	require.NoError(t, err)
	require.NoError(t, resourcetest.Apply(t, h, f))
	st, err := h.Stat(EnvFile)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o640), st.Mode())
	require.Empty(t, resourcetest.Ops(t, h, f))
}

// D16: the same facts give the same bytes, so nothing restarts for nothing.
func TestSameFactsRestartNothing_D16(t *testing.T) {
	h := hosttest.Real(t)
	h.Runner = hosttest.NewRunner(t).Answer("systemctl restart", "")
	var restarts []string
	for range 3 {
		existing, _ := h.ReadFile(EnvFile)
		f, err := gpuWorker().File(existing)
		require.NoError(t, err)
		unit, err := WorkerUnit()
		require.NoError(t, err)
		want := []plan.Resource{f, unit, resource.Trigger{Name: "worker", Inputs: [][]byte{f.Data, unit.Data}, Op: "restart",
			Then: []host.Command{resource.Systemctl("restart", Unit)}}}
		restarts = append(restarts, strings.Join(resourcetest.Ops(t, h, want...), ","))
		require.NoError(t, resourcetest.Apply(t, h, want...))
	}
	require.Equal(t, []string{"write " + EnvFile + ",write " + UnitFile + ",restart", "", ""}, restarts)
}

// variables are those that a release's `concourse <command> --help` names, sorted;
// the worker's without CONCOURSE_GARDEN_*, with which one that runs containerd does
// not start. tests/concourse compares them with the release.
func variables(t *testing.T, command string) []string {
	data, err := os.ReadFile("testdata/variables-8.2.5/" + command)
	require.NoError(t, err)
	return strings.Fields(string(data))
}

func TestFolderOfCertificatesIsTheCharmsUnlessTheOperatorHasOne(t *testing.T) {
	const folder = CertsFolders + "/0badcafe"
	for existing, want := range map[string]string{
		"": folder,
		"CONCOURSE_CERTS_DIR=" + CertsFolders + "/feedface\n": folder,
		"CONCOURSE_CERTS_DIR=/etc/ssl/certs\n":                "/etc/ssl/certs",
	} {
		f, err := WorkerConfig{CertsDir: folder}.File([]byte(existing))
		require.NoError(t, err)
		require.Equal(t, want, EnvValues(f.Data)["CONCOURSE_CERTS_DIR"])
		again, err := WorkerConfig{CertsDir: folder}.File(f.Data)
		require.NoError(t, err)
		require.Equal(t, string(f.Data), string(again.Data))
		gone, err := WorkerConfig{}.File(f.Data)
		require.NoError(t, err)
		if want == folder {
			want = ""
		}
		require.Equal(t, want, EnvValues(gone.Data)["CONCOURSE_CERTS_DIR"])
	}
}
