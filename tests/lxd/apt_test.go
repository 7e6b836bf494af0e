//go:build e2e

package lxd

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// signer is a key of gpg's.
type signer struct {
	t           *testing.T
	home        string
	public      []byte // armored
	fingerprint string
}

// gpg leaves an agent behind, which ends with the process namespace.
func (s *signer) gpg(stdin string, args ...string) []byte {
	s.t.Helper()
	c := exec.Command("unshare", append([]string{"--pid", "--fork", "--kill-child", "gpg", "--homedir", s.home, "--batch", "--quiet"}, args...)...)
	c.Stdin = strings.NewReader(stdin)
	var errs bytes.Buffer
	c.Stderr = &errs
	out, err := c.Output()
	require.NoError(s.t, err, "gpg %v: %s", args, &errs)
	return out
}

func newSigner(t *testing.T, home string) *signer {
	t.Helper()
	require.NoError(t, os.Mkdir(home, 0o700))
	s := &signer{t: t, home: home}
	s.gpg("", "--passphrase", "", "--quick-gen-key", "test <test@example.com>", "rsa2048", "sign", "never")
	s.public = s.gpg("", "--armor", "--export")
	for line := range strings.Lines(string(s.gpg("", "--with-colons", "--list-keys"))) {
		if f := strings.Split(line, ":"); f[0] == "fpr" && s.fingerprint == "" {
			s.fingerprint = f[9]
		}
	}
	return s
}

// toolkitControl is of a package that replaces AMD's container toolkit: its name, its
// version and what its preinst asks for.
const (
	toolkit        = "amd-container-toolkit"
	toolkitControl = "Package: " + toolkit + "\nVersion: 1.3.0\nArchitecture: all\nMaintainer: Test <test@example.com>\nDescription: stands in for AMD's\n"
	toolkitPreinst = "#!/bin/sh -e\ntest -d /sys/module/amdgpu/drivers\n"
)

// repository is a mirror of repo.radeon.com with the toolkit for the units,
// as files by their path.
func repository(t *testing.T, dir string, s *signer) map[string][]byte {
	t.Helper()
	tree := filepath.Join(dir, "deb")
	for path, text := range map[string]string{"DEBIAN/control": toolkitControl, "DEBIAN/preinst": toolkitPreinst, "usr/bin/amd-ctk": "#!/bin/sh\n"} {
		path = filepath.Join(tree, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o755))
	}
	out, err := exec.Command("dpkg-deb", "--root-owner-group", "-Znone", "--build", tree, tree+".deb").CombinedOutput()
	require.NoError(t, err, "%s", out)
	deb, err := os.ReadFile(tree + ".deb")
	require.NoError(t, err)
	list := fmt.Sprintf("%sFilename: pool/toolkit.deb\nSize: %d\nSHA256: %x\n\n", toolkitControl, len(deb), sha256.Sum256(deb))
	codename, _, err := series()
	require.NoError(t, err)
	release := "Origin: repo.radeon.com\nSuite: " + codename + "\nCodename: " + codename + "\nDate: Thu, 01 Jan 2026 00:00:00 UTC\nArchitectures: amd64\nComponents: main\n" +
		fmt.Sprintf("SHA256:\n %x %d main/binary-amd64/Packages\n", sha256.Sum256([]byte(list)), len(list))
	const at = "/amd-container-toolkit/apt/"
	dist := at + "dists/" + codename
	return map[string][]byte{
		"/rocm/rocm.gpg.key":                 s.public,
		at + "pool/toolkit.deb":              deb,
		dist + "/InRelease":                  s.gpg(release, "--clearsign"),
		dist + "/main/binary-amd64/Packages": []byte(list),
	}
}

// serve answers from files on a socket in the file system.
func serve(t *testing.T, socket string, files map[string][]byte) {
	t.Helper()
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, ok := files[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Write(data)
	})}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
}
