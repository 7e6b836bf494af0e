package onemachine

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// socket returns a line of /proc/net/tcp about a listening socket.
func socket(port, inode int) string {
	return fmt.Sprintf("   0: 00000000:%04X 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 %d 1 0 100 0 0 10 0\n", port, inode)
}

func TestPortsThatTheCINeedsMustBeFree(t *testing.T) {
	const file = "/etc/concourse-ci-machine/config.yaml"
	for name, tt := range map[string]struct {
		options   string
		port      int
		tcp6, own bool // own: the socket's process can be read
		want      string
	}{
		"no port of the CI":        {"mode: all", 8081, false, true, ""},
		"the page":                 {"mode: all", 8080, false, true, "port 8080, which the web needs, is used by nginx (process 321); stop that program, or write another web-port to " + file},
		"another port for it":      {"{mode: all, web-port: 8081}", 8080, false, true, ""},
		"that other port":          {"{mode: all, web-port: 8081}", 8081, true, false, "port 8081, which the web needs, is used by a program of another user; stop that program, or write another web-port to " + file},
		"workers' registration":    {"mode: all", 2222, false, false, "port 2222, which the web needs, is used by a program of another user; stop that program"},
		"a worker has no web":      {"mode: worker", 8080, false, true, ""},
		"containers":               {"mode: worker", 7777, true, true, "port 7777, which the worker needs, is used by nginx (process 321); stop that program"},
		"metrics of GPUs":          {"mode: worker", 9401, false, true, "port 9401, which the GPU exporter needs, is used by nginx (process 321); stop that program"},
		"metrics of jobs":          {"{mode: all, enable-metrics: true}", 9358, false, true, "port 9358, which the exporter of jobs needs, is used by nginx (process 321); stop that program"},
		"metrics that are not on":  {"{mode: all, enable-metrics: false}", 9358, false, true, ""},
		"a socket without a port":  {"mode: all", 0, false, true, ""},
		"options with a bad value": {"{mode: all, web-port: 0}", 8081, false, true, "web-port"},
	} {
		t.Run(name, func(t *testing.T) {
			r := hosttest.Root(t)
			hosttest.Put(t, r, OptionsFile, tt.options+"\n")
			table := map[bool]string{false: "/proc/net/tcp", true: "/proc/net/tcp6"}[tt.tcp6]
			hosttest.Put(t, r, table, "  sl  local_address\n"+socket(tt.port, 7801))
			hosttest.Put(t, r, "/proc/321/comm", "nginx\n")
			require.NoError(t, r.MkdirAll("/proc/321/fd", 0o755))
			if tt.own {
				require.NoError(t, os.Symlink("socket:[7801]", r.Path("/proc/321/fd/4")))
			}
			err := machineOn(t, r).checkPorts()
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestMachineOfAnotherCIIsNotSetUp(t *testing.T) {
	for name, tt := range map[string]struct {
		file, text string
		want       string
	}{
		"a new machine":          {"/run/systemd/system/x", "", ""},
		"no systemd":             {"/run/x", "", "systemd does not run here"},
		"a web's service":        {concourse.WebUnitFile, "", concourse.WebUnitFile + " belongs to another Concourse"},
		"a worker's service":     {concourse.UnitFile, "", concourse.UnitFile + " belongs to another Concourse"},
		"a running web":          {"/proc/321/cmdline", "/opt/concourse/bin/concourse\x00web\x00", "another Concourse runs here (process 321)"},
		"a running worker":       {"/proc/321/cmdline", "concourse\x00worker\x00--name=x\x00", "another Concourse runs here (process 321)"},
		"a command of Concourse": {"/proc/321/cmdline", "concourse\x00generate-key\x00", ""},
		"no command":             {"/proc/321/cmdline", "concourse\x00", ""},
		"another web":            {"/proc/321/cmdline", "python3\x00web\x00", ""},
		"a kernel thread":        {"/proc/321/cmdline", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := hosttest.Root(t)
			require.NoError(t, r.MkdirAll("/proc", 0o755))
			if name != "no systemd" {
				require.NoError(t, r.MkdirAll("/run/systemd/system", 0o755))
			}
			hosttest.Put(t, r, tt.file, tt.text)
			err := machineOn(t, r).refuse(t.Context())
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, "cannot set up this machine: "+tt.want)
		})
	}
}

func TestGivenReleaseIsACompressedFile(t *testing.T) {
	dir := t.TempDir()
	var tarball bytes.Buffer
	require.NoError(t, gzip.NewWriter(&tarball).Close())
	for name, text := range map[string]string{"text": "x", "tarball": tarball.String()} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	t.Chdir(dir)
	for release, want := range map[string]string{"": "", "tarball": filepath.Join(dir, "tarball"), filepath.Join(dir, "tarball"): filepath.Join(dir, "tarball")} {
		m := Model{Host: host.Host{}, Release: release}
		require.NoError(t, m.findRelease())
		require.Equal(t, want, m.Release)
	}
	for release, want := range map[string]string{
		"missing": "cannot use --release=missing: no such file or directory; give the file concourse-",
		"text":    "cannot use --release=text: it is not a compressed file; give the file concourse-",
	} {
		m := Model{Release: release}
		require.ErrorContains(t, m.findRelease(), want)
	}
}

// A folder that cannot be read may have files of others.
func TestUnreadableFolderIsNotOverwritten(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root reads all folders")
	}
	r := hosttest.Root(t)
	closed := r.Path("/var/lib/concourse/data")
	require.NoError(t, os.MkdirAll(closed, 0o755))
	require.NoError(t, os.Chmod(closed, 0))
	t.Cleanup(func() { os.Chmod(closed, 0o755) })
	require.ErrorIs(t, machineOn(t, r).refuseFolders(), fs.ErrPermission)
}
