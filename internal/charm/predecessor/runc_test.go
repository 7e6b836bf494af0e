package predecessor

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// Shims of the Python charm's worker find runc through its files. The files stay until the
// last shim has ended.
func TestWrappersStayWhileTheirContainersRun(t *testing.T) {
	for _, exe := range []string{"/var/lib/concourse/bin/concourse", "/var/lib/concourse/bin/containerd-shim-runc-v2"} {
		h, run := predecessor(t, "rocm")
		hosttest.Link(t, h.Root, "/proc/4711/exe", exe)
		hosttest.Link(t, h.Root, "/proc/4712/exe", "/var/lib/concourse/releases/8.2.5/bin/concourse")
		_, err := diffed(t, h).Apply(t.Context(), nil)
		require.NoError(t, err)
		require.Empty(t, run.Ran)
		for _, p := range []string{"/opt/bin/runc-amd-wrapper", "/opt/bin/runc.real", "/var/lib/concourse/containerd-gpu.toml"} {
			require.True(t, h.Exists(p), p)
		}
		require.False(t, h.Exists(concourse.KeyDir+"/session_signing_key"), "the rest does not wait")
		require.Empty(t, diffed(t, h))

		require.NoError(t, h.Remove("/proc/4711/exe"))
		_, err = diffed(t, h).Apply(t.Context(), nil)
		require.NoError(t, err)
		require.False(t, h.Exists("/opt/bin"))
		require.Empty(t, diffed(t, h))
	}
}

const (
	stanzaHead    = `[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]`
	stanzaType    = `  runtime_type = "io.containerd.runc.v2"`
	stanzaOptions = `  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]`
	stanzaBinary  = `    BinaryName = "/usr/local/bin/runc-wrapper"`
)

func TestConfigurationOfContainerdIsRestored(t *testing.T) {
	stanza := strings.Join([]string{"", stanzaHead, stanzaType, stanzaOptions, stanzaBinary, ""}, "\n")
	for name, c := range map[string]struct{ have, want string }{
		"appended":                   {"version = 2\n" + stanza, "version = 2\n"},
		"to an empty file":           {stanza, ""},
		"twice":                      {"version = 2\n" + stanza + stanza, "version = 2\n"},
		"to a file without line end": {"version = 2" + stanza, "version = 2\n"},
		"and more after it":          {"version = 2\n" + stanza + "\n[debug]\n  level = \"info\"\n", "version = 2\n\n[debug]\n  level = \"info\"\n"},
		"an option of the operator's stays": {strings.Join([]string{stanzaHead, stanzaType, stanzaOptions, stanzaBinary, "    SystemdCgroup = true", ""}, "\n"),
			strings.Join([]string{stanzaHead, stanzaType, stanzaOptions, "    SystemdCgroup = true", ""}, "\n")},
		"a setting of the operator's stays": {strings.Join([]string{stanzaHead, stanzaType, "  privileged_without_host_devices = true", stanzaOptions, stanzaBinary, ""}, "\n"),
			strings.Join([]string{stanzaHead, stanzaType, "  privileged_without_host_devices = true", ""}, "\n")},
		"another runtime above stays": {strings.Join([]string{`[plugins.x.runtimes.kata]`, stanzaType, stanzaOptions, stanzaBinary, ""}, "\n"),
			strings.Join([]string{`[plugins.x.runtimes.kata]`, stanzaType, ""}, "\n")},
		"no table":                    {stanzaBinary + "\n", ""},
		"another binary":              {stanzaOptions + "\n    BinaryName = \"/usr/bin/crun\"\n", stanzaOptions + "\n    BinaryName = \"/usr/bin/crun\"\n"},
		"in a comment":                {"# " + stanzaBinary + "\n", "# " + stanzaBinary + "\n"},
		"line ends of another system": {"version = 2\r\n" + strings.ReplaceAll(stanza, "\n", "\r\n"), "version = 2\r\n"},
	} {
		got := withoutStanza([]byte(c.have))
		require.Equal(t, c.want, string(got), name)
		require.Equal(t, string(got), string(withoutStanza(got)), name)
	}
}

func TestStoppedContainerdIsNotRestarted(t *testing.T) {
	for _, state := range []string{"LoadState=not-found\nActiveState=inactive", "LoadState=loaded\nActiveState=inactive"} {
		h, run := predecessor(t, "worker")
		run.Answer("systemctl show", "Id=containerd.service\n"+state+"\n")
		_, err := diffed(t, h).Apply(t.Context(), nil)
		require.NoError(t, err)
		require.Empty(t, run.Ran)
		require.False(t, h.Exists(oldHookWrapper))
	}
}

func TestContainerdsModeAndOtherBackupsStay(t *testing.T) {
	h, _ := predecessor(t, "worker")
	require.NoError(t, os.Chmod(h.Path(containerdConfig), 0o600))
	for _, p := range []string{".backup-20250101000000", ".backup-of-ours"} {
		hosttest.Put(t, h.Root, containerdConfig+p, "version = 1\n")
	}
	_, err := diffed(t, h).Apply(t.Context(), nil)
	require.NoError(t, err)
	st, err := h.Stat(containerdConfig)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), st.Mode().Perm())
	found, err := h.Glob(containerdConfig + ".*")
	require.NoError(t, err)
	require.Equal(t, []string{containerdConfig + ".backup-20250101000000", containerdConfig + ".backup-of-ours"}, found)
}

// Only the wrapper's own lines are removed.
func FuzzWithoutStanza(f *testing.F) {
	f.Add("version = 2\n\n" + stanzaHead + "\n" + stanzaType + "\n" + stanzaOptions + "\n" + stanzaBinary + "\n[debug]\n")
	f.Add(stanzaBinary)
	f.Add("runtimes = [\"/opt/bin/runc.real\", \"crun\"]")
	f.Fuzz(func(t *testing.T, text string) {
		got := string(withoutStanza([]byte(text)))
		require.Equal(t, got, string(withoutStanza([]byte(got))))
		if !strings.Contains(text, oldHookWrapper) {
			require.Equal(t, text, got)
		}
		for line := range strings.Lines(got) {
			require.Contains(t, text, line)
		}
		list := string(withOwnRuntimes([]byte(text)))
		require.Equal(t, list, string(withOwnRuntimes([]byte(list))))
		if !strings.Contains(text, oldRealRunc) {
			require.Equal(t, text, list)
		}
	})
}
