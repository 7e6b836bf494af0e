package resource

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// signer makes a key and returns it with a function that signs inline.
func signer(t *testing.T) (public []byte, fingerprint string, sign func(text string) []byte) {
	home := t.TempDir()
	gpg := func(stdin string, args ...string) []byte {
		c := exec.Command("gpg", append([]string{"--homedir", home, "--batch", "--quiet"}, args...)...)
		c.Stdin = strings.NewReader(stdin)
		out, err := c.Output()
		require.NoError(t, err)
		return out
	}
	t.Cleanup(func() { exec.Command("gpgconf", "--homedir", home, "--kill", "all").Run() })
	gpg("", "--passphrase", "", "--quick-gen-key", "Repository <r@example.com>", "rsa2048", "sign", "never")
	public = gpg("", "--armor", "--export")
	_, fingerprint, err := parseKey(public)
	require.NoError(t, err)
	return public, fingerprint, func(text string) []byte { return gpg(text, "--clearsign") }
}

// The real apt reads the key and the source that are written here, takes the
// commands, and refuses a repository that another key signed.
func TestAptAcceptsKeySourceAndCommands(t *testing.T) {
	for _, tool := range []string{"apt-get", "gpg"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(tool + " is not installed")
		}
	}
	public, fingerprint, sign := signer(t)
	_, _, forge := signer(t)
	packages := "Package: pkg\nVersion: 1.2.0-24.04\nArchitecture: amd64\nFilename: pkg.deb\nSize: 1\n" +
		"SHA256: " + strings.Repeat("0", 64) + "\nMaintainer: A <a@example.com>\nDescription: a test\n\n" +
		"Package: pkg\nVersion: 1.3.0-24.04\nArchitecture: amd64\nFilename: pkg3.deb\nSize: 1\n" +
		"SHA256: " + strings.Repeat("0", 64) + "\nMaintainer: A <a@example.com>\nDescription: a test\n\n"
	release := fmt.Sprintf("Origin: test\nSuite: noble\nCodename: noble\nDate: Fri, 02 Jan 2026 00:00:00 UTC\nArchitectures: amd64\nComponents: main\nSHA256:\n %x %d main/binary-amd64/Packages\n",
		sha256.Sum256([]byte(packages)), len(packages))
	files := map[string][]byte{
		"/key": public, "/good/dists/noble/main/binary-amd64/Packages": []byte(packages), "/good/dists/noble/InRelease": sign(release),
		"/flat/Packages": []byte(packages), "/flat/InRelease": sign(strings.ReplaceAll(release, "main/binary-amd64/", "")),
		"/bad/dists/noble/main/binary-amd64/Packages": []byte(packages), "/bad/dists/noble/InRelease": forge(release),
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if data, ok := files[r.URL.Path]; ok {
			w.Write(data)
			return
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(server.Close)

	for _, repo := range []string{"good", "flat", "bad"} {
		h := host.Host{Root: hosttest.Root(t), Runner: host.Exec{}, Clock: hosttest.Clock{T: hosttest.Now}}
		conf := fmt.Sprintf("Dir \"%s\";\nDir::State::status \"%s\";\nDir::Bin::methods \"/usr/lib/apt/methods\";\n"+
			"APT::Architecture \"amd64\";\nAPT::Sandbox::User \"\";\nAcquire::Retries \"0\";\nAcquire::http::Proxy \"false\";\n", h.Path("/"), h.Path(DpkgStatus))
		apt := filepath.Join(t.TempDir(), "apt.conf")
		require.NoError(t, os.WriteFile(apt, []byte(conf), 0o644))
		t.Setenv("APT_CONFIG", apt)
		for _, dir := range []string{"/etc/apt/apt.conf.d", "/etc/apt/preferences.d", "/var/lib/apt/lists/partial", "/var/cache/apt/archives/partial"} {
			require.NoError(t, h.MkdirAll(dir, 0o755))
		}
		hosttest.Put(t, h.Root, DpkgStatus, "")
		hosttest.Put(t, h.Root, "/etc/apt/sources.list.d/broken.sources",
			"Types: deb\nURIs: "+server.URL+"/none\nSuites: noble\nComponents: main\n")
		hosttest.Put(t, h.Root, lists+"other.example_dists_noble_InRelease", "")

		key := AptKey{Path: keyPath, URL: server.URL + "/key", Fingerprint: fingerprint}
		apply(t, h, key)
		s := AptSource{Name: "test", URIs: []string{server.URL + "/" + repo}, Suites: []string{"noble"}, Components: []string{"main"},
			Architectures: []string{"amd64"}, SignedBy: h.Path(keyPath)}
		if repo == "flat" {
			s.Suites, s.Components = []string{"/"}, nil
		}
		apply(t, h, s)
		steps := diff(t, h, Package{Name: "pkg", Version: "1.2.0", Source: &s})
		err := steps[0].Do(context.Background())
		if repo == "bad" {
			require.ErrorContains(t, err, "NO_PUBKEY", "signed by a key that is not in the keyring")
			continue
		}
		require.NoError(t, err, "the broken source next to it is not asked")
		require.True(t, h.Exists(lists+"other.example_dists_noble_InRelease"), "other lists are kept")
		own, err := h.Glob(lists + "127.0.0.1*InRelease")
		require.NoError(t, err)
		require.Len(t, own, 1)
		require.True(t, s.lists(filepath.Base(own[0])), "apt names its lists as is thought here: %s", own[0])

		require.NoError(t, os.WriteFile(apt, []byte(conf+"APT::Get::Simulate \"true\";\n"), 0o644))
		require.NoError(t, steps[1].Do(context.Background()))
		added, err := Package{Name: "pkg", Version: "1.2.0", Source: &s}.Added(t.Context(), h)
		require.NoError(t, err)
		require.Equal(t, []string{"pkg"}, added)
		steps = diff(t, h, Package{Name: "pkg", Version: "1.4.0", Source: &s})
		require.ErrorContains(t, steps[1].Do(context.Background()), "Version '1.4.0*' for 'pkg' was not found")
	}
}
