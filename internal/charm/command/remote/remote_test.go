package remote

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTargetThatIsAnOptionIsRefused(t *testing.T) {
	for _, target := range []string{"", "-oProxyCommand=x", "a b", "a\nb", "a\x00"} {
		_, err := Open(Node{Target: target})
		require.ErrorContains(t, err, "want USER@HOST", "%q", target)
	}
}

func TestUnknownHostsAndPasswordPromptsAreRefused(t *testing.T) {
	n, err := Open(Node{Target: "ann@node"})
	require.NoError(t, err)
	args := strings.Join(n.argv("-t", "id"), " ")
	require.Contains(t, args, "-o StrictHostKeyChecking=yes")
	require.Contains(t, args, "-o BatchMode=yes", "nobody can answer without a terminal")
	require.True(t, strings.HasSuffix(args, " -t -- ann@node id"), args)
	require.True(t, strings.HasSuffix(strings.Join(n.argv("-O", "exit"), " "), " -O exit -- ann@node"))
	n.Terminal = true
	require.NotContains(t, strings.Join(n.argv("id"), " "), "BatchMode")
	require.NoError(t, n.Close())
	require.NoDirExists(t, n.dir)
}

func TestFactsAreShownWithoutControlCharacters(t *testing.T) {
	f := parseFacts("Welcome!\r\nhost node\nsystem Debian \x1b[2J\nmachine x86_64\nuid 0\nmanager apt-get\nkfd yes\n" +
		"gpu 0000:03:00.0 0x744c amdgpu\ngpu 0000:04:00.0 0x744c \ngpu x\n")
	require.Equal(t, []GPU{{"0000:03:00.0", "0x744c", "amdgpu"}, {"0000:04:00.0", "0x744c", ""}}, f.GPUs)
	require.True(t, f.Root && f.KFD)
	var b strings.Builder
	require.NoError(t, f.Write(&b, "node"))
	require.Equal(t, "node: Debian ?[2J, x86_64\n2 AMD GPUs\n  0000:03:00.0  0x744c  driver amdgpu\n"+
		"  0000:04:00.0  0x744c  no driver\nrocm-gpu-exporter is not installed\n", b.String())
	for text, missing := range map[string]bool{"": false, "gpu 0000:03:00.0 0x744c amdgpu\n": true} {
		b.Reset()
		require.NoError(t, parseFacts("machine x86_64\nmanager apt-get\n"+text).Write(&b, "node"))
		require.Equal(t, missing, strings.Contains(b.String(), "/dev/kfd is missing"), text)
	}
}

func TestPackageIsTheOneForTheMachine(t *testing.T) {
	dir := t.TempDir()
	deb := filepath.Join(dir, "rocm-gpu-exporter_amd64.deb")
	require.NoError(t, os.WriteFile(deb, nil, 0o644))
	for _, from := range []string{dir, deb} {
		got, err := packageFile(from, "rocm-gpu-exporter_amd64.deb")
		require.NoError(t, err)
		require.Equal(t, deb, got)
	}
	_, err := packageFile(dir, "rocm-gpu-exporter_arm64.deb")
	require.ErrorContains(t, err, "rocm-gpu-exporter_arm64.deb: download it from the release")
	_, err = packageFile(deb, "rocm-gpu-exporter_amd64.rpm")
	require.ErrorContains(t, err, "the machine needs rocm-gpu-exporter_amd64.rpm")
}

// The answer comes from another machine.
func FuzzFacts(f *testing.F) {
	f.Add("host a\nsystem b\nmachine x86_64\nuid 0\nmanager apt-get\nversion 1\nactive yes\ngpu 0000:03:00.0 0x744c amdgpu\n")
	f.Add("gpu\ngpu \x1b[2J \xff\n\nuid")
	f.Fuzz(func(t *testing.T, answer string) {
		facts := parseFacts(answer)
		var b strings.Builder
		require.NoError(t, facts.Write(&b, "node"))
		require.NotContains(t, strings.ReplaceAll(b.String(), "\n", ""), "\x1b")
		require.NotNil(t, facts.GPUs)
	})
}
