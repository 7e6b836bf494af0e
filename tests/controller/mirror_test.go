//go:build controller

package controller

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	suites "github.com/fourdollars/concourse-ci-machine/tests/suite"
)

// mirror serves two releases to the units, and whatever more lies in its folder.
type mirror struct {
	folder, url string
	old, new    version
	stop        func()
}

type version struct{ number, sum string }

// releaseFolder is the folder of the release that the variable names, "" if it names none.
func releaseFolder(t *testing.T) string {
	t.Helper()
	release := os.Getenv(suites.ReleaseEnv)
	if st, err := os.Stat(release); release != "" && err == nil && !st.IsDir() {
		dir := t.TempDir()
		out, err := exec.Command("tar", "-xzf", release, "-C", dir, "--strip-components=1").CombinedOutput()
		require.NoError(t, err, "%s", out)
		return dir
	}
	folder, err := suites.ReleaseFolder("")
	require.NoError(t, err)
	return folder
}

// startMirror has the release, and the same under a number beside its own, so that
// there is something to upgrade from or to.
func (s *site) startMirror(t *testing.T, release string) *mirror {
	t.Helper()
	out, err := exec.Command(filepath.Join(release, "bin/concourse"), "--version").Output()
	require.NoError(t, err)
	number := strings.TrimSpace(string(out))
	require.Regexp(t, `^\d+\.\d+\.\d+$`, number)
	before, after := number, number
	if start, last := number[:len(number)-1], number[len(number)-1]; last > '0' {
		before = start + string(last-1)
	} else {
		after = start + "1"
	}
	m := &mirror{folder: filepath.Join(s.folder, "mirror")}
	m.old, m.new = m.add(t, release, number, before), m.add(t, release, number, after)
	l := s.listen(t, "0")
	m.url = "http://" + l.Addr().String()
	server := &http.Server{Handler: http.FileServer(http.Dir(m.folder))}
	go server.Serve(l) // ends when it is closed
	m.stop = sync.OnceFunc(func() { require.NoError(t, server.Close()) })
	t.Cleanup(m.stop)
	return m
}

// add writes a release under a number, with a resource type registry-image that
// needs no registry.
func (m *mirror) add(t *testing.T, release, number, as string) version {
	t.Helper()
	const image = "concourse/resource-types/registry-image/"
	data := compressed(t, func(b tarball) {
		require.NoError(t, filepath.WalkDir(release, func(path string, e fs.DirEntry, err error) error {
			name := "concourse" + strings.TrimPrefix(path, release)
			if err != nil || e.IsDir() || strings.HasPrefix(name, image) {
				return err
			}
			info, err := os.Stat(path)
			require.NoError(t, err)
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			if name == "concourse/bin/concourse" {
				data = bytes.ReplaceAll(data, []byte(number), []byte(as))
			}
			b.add(name, int64(info.Mode().Perm()), data)
			return nil
		}))
		b.add(image+"resource_metadata.json", 0o644, []byte(`{"type":"registry-image","version":"1.0.0","privileged":false,"unique_version_history":false}`))
		b.add(image+"rootfs.tgz", 0o644, compressed(t, tarball.busybox))
	})
	dir, file := filepath.Join(m.folder, "v"+as), fmt.Sprintf("concourse-%s-linux-%s.tgz", as, runtime.GOARCH)
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, file), data, 0o644))
	return version{as, fmt.Sprintf("%x", sha256.Sum256(data))}
}

// busybox is a root file system of this machine's, with the stand-ins for registry-image and
// for ROCm.
func (b tarball) busybox() {
	path, err := exec.LookPath("busybox")
	require.NoError(b.t, err)
	applets, err := exec.Command(path, "--list").Output()
	require.NoError(b.t, err)
	for _, name := range []string{"bin", "dev", "etc", "opt", "proc", "root", "sys", "tmp"} {
		b.dir(name)
	}
	b.file("bin/busybox", path)
	for _, name := range strings.Fields(string(applets)) {
		if name != "busybox" {
			b.link("bin/"+name, "busybox")
		}
	}
	b.add("etc/passwd", 0o644, []byte("root:x:0:0:root:/root:/bin/sh\n"))
	b.add("etc/group", 0o644, []byte("root:x:0:\n"))
	const tree = "testdata/registry-image/"
	require.NoError(b.t, filepath.WalkDir(tree, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			b.file(strings.TrimPrefix(path, tree), path)
		}
		return err
	}))
}

// listen opens a socket in the host's network, where this program is not.
func (s *site) listen(t *testing.T, port string) (l net.Listener) {
	t.Helper()
	network, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", s.Init))
	require.NoError(t, err)
	defer network.Close()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		err := unix.Setns(int(network.Fd()), unix.CLONE_NEWNET)
		if err == nil {
			l, err = net.Listen("tcp", net.JoinHostPort(gateway, port))
		}
		done <- err
	}()
	require.NoError(t, <-done)
	return l
}
