package config

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

// No option is merely accepted, and none exists in one place only (D29).
func TestTableAgreesWithConfigYAML(t *testing.T) {
	data, err := os.ReadFile("../../config.yaml")
	require.NoError(t, err)
	var file struct {
		Options map[string]struct {
			Type        string
			Default     any
			Description string
		}
	}
	require.NoError(t, yaml.Unmarshal(data, &file))
	for _, o := range Options() {
		f, ok := file.Options[o.Name]
		require.True(t, ok, "%s is not in config.yaml", o.Name)
		require.Equal(t, o.Default, f.Default, o.Name)
		require.Equal(t, map[bool]string{true: "boolean", false: "string"}[o.Default == false || o.Default == true], f.Type, o.Name)
		require.NotEmpty(t, f.Description, o.Name)
		delete(file.Options, o.Name)
	}
	require.Empty(t, file.Options, "in config.yaml only")
}

func TestDefaultsAreAWholeWorkerOnceModeIsSet(t *testing.T) {
	c, problems := Parse(map[string]any{"mode": "worker"})
	require.Empty(t, problems)
	require.Equal(t, Config{Mode: "worker", LogLevel: "info", ComputeRuntime: "none", GPUDeviceIDs: "all",
		FoldersFor: "tasks", Toolkit: "auto", ToolkitVersion: "1.2.0", DNSServers: []string{"1.1.1.1", "8.8.8.8"}, DrainTimeout: 10 * time.Minute}, c)
}

// The documented deploy line has enable-gpu=true and names no runtime.
func TestEnableGPUMeansAutoOnlyWhereNoRuntimeIsNamed(t *testing.T) {
	for runtime, want := range map[string]string{"none": "auto", "rocm": "rocm", "cuda": "cuda", "auto": "auto"} {
		c, problems := Parse(map[string]any{"mode": "worker", "compute-runtime": runtime, "enable-gpu": true})
		require.Empty(t, problems)
		require.Equal(t, want, c.ComputeRuntime)
	}
}

// D27: no value is taken on trust, and each problem names its option.
func TestEachWrongValueIsNamed(t *testing.T) {
	for _, c := range []struct {
		option string
		value  any
		want   string
	}{
		{"mode", "all", `mode: "all" is not one of auto, web, worker`},
		{"mode", "auto", `mode: "auto" is not available in this version of the charm; set mode=worker`},
		{"mode", "web", `mode: "web" is not available in this version of the charm; set mode=worker`},
		{"version", "v8.2.5", `version: "v8.2.5" has a leading v; write 8.2.5`},
		{"version", "latest", `version: "latest" is not a version like 8.2.5; leave it empty for the web's own version`},
		{"release-mirror", "mirror", `release-mirror: "mirror" is not an http or https URL`},
		{"release-sha256", "abc", `release-sha256: "abc" is not a SHA-256: want the 64 hex digits that sha256sum prints`},
		{"log-level", "loud", `log-level: "loud" is not one of debug, info, warn, error, fatal`},
		{"tag", "a,,b", `tag: "" is not a tag: want words with commas between them, without white space or quotes`},
		{"tag", "a b", `tag: "a b" is not a tag: want words with commas between them, without white space or quotes`},
		{"compute-runtime", "rcom", `compute-runtime: "rcom" is not one of none, auto, cuda, rocm`},
		{"enable-gpu", "yes", `enable-gpu: yes is not true or false`},
		{"hsa-override-gfx-version", "11", `hsa-override-gfx-version: "11" is not empty, auto or a version like 11.0.0`},
		{"srv-folders", "../etc", `srv-folders: "../etc" is not the name of a folder in /srv`},
		{"srv-folders-containers", "some", `srv-folders-containers: "some" is not one of tasks, all`},
		{"amd-container-toolkit", "maybe", `amd-container-toolkit: "maybe" is not one of auto, required, skip`},
		{"amd-container-toolkit-version", "latest", `amd-container-toolkit-version: "latest" is not a version like 1.2.0`},
		{"rocm-base-url", "ftp://x", `rocm-base-url: "ftp://x" is not an http or https URL`},
		{"containerd-dns-server", "1.1.1.1,dns", `containerd-dns-server: "dns" is not an IP address; want addresses with commas between them`},
		{"worker-drain-timeout", "-1s", `worker-drain-timeout: "-1s" is not a time between 0s and 24h, such as 30s, 10m or 1h`},
		{"no-proxy", "a b", `no-proxy: "a b" has white space, quotes or backslashes; want hosts with commas between them`},
		{"log-level", 3, `log-level: 3 is not text`},
	} {
		raw := map[string]any{"mode": "worker"}
		raw[c.option] = c.value
		_, problems := Parse(raw)
		require.Len(t, problems, 1, c.want)
		require.Equal(t, c.want, problems[0].String())
	}
}

func TestAllProblemsAreReportedAtOnce(t *testing.T) {
	_, problems := Parse(map[string]any{"mode": "all", "log-level": "loud", "tag": ","})
	require.Len(t, problems, 3)
}

// D32: a proxy's password is in no status and in no log.
func TestAProblemWithAProxyDoesNotRepeatIt(t *testing.T) {
	_, problems := Parse(map[string]any{"mode": "worker", "http-proxy": "http://me:pa ss@proxy", "https-proxy": "socks:hunter2"})
	require.Len(t, problems, 2)
	for _, p := range problems {
		require.NotContains(t, p.String(), "pa ss")
		require.NotContains(t, p.String(), "hunter2")
	}
}

func FuzzParseNeverPanics(f *testing.F) {
	for _, o := range Options() {
		f.Add(o.Name, "0-3,GPU-1")
	}
	f.Fuzz(func(t *testing.T, option, value string) {
		c, problems := Parse(map[string]any{"mode": "worker", option: value})
		if len(problems) == 0 {
			for _, tag := range c.Tags {
				require.False(t, strings.ContainsAny(tag, ", \n\""))
			}
		}
	})
}
