//go:build controller

package controller

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/debian"
	"github.com/fourdollars/concourse-ci-machine/tests/lxdhost"
)

// What bounds one command of Juju's, the bootstrap, and the wait for what a model's
// units come to; a busy machine with two cores takes a tenth of it.
const (
	commandPatience   = 5 * time.Minute
	bootstrapPatience = 15 * time.Minute
	unitPatience      = 15 * time.Minute
)

const (
	gateway = "10.77.0.1"
	// the network is this host's own: nothing outside it sees these addresses
	preseed = `config: {}
networks:
- name: lxdbr0
  type: bridge
  config: {ipv4.address: ` + gateway + `/24, ipv4.nat: "false", ipv6.address: none, ipv4.firewall: "false", ipv6.firewall: "false"}
storage_pools: [{name: default, driver: dir}]
profiles:
- name: default
  devices:
    root: {type: disk, path: /, pool: default}
    eth0: {type: nic, name: eth0, network: lxdbr0}
`
)

// site is a host with LXD, and an operator's system on it with juju and lxc.
type site struct {
	*lxdhost.Host
	folder string // what the tests bring, at the same path for the operator
	root   string // the operator's system
}

// takes prints how long a step took.
func takes(what string, start time.Time) {
	fmt.Printf("%6.1f s  %s\n", time.Since(start).Seconds(), what)
}

// prepare makes all that the controller needs, and the host.
func prepare(t *testing.T) *site {
	t.Helper()
	start := time.Now()
	system, err := image().Tar(t.Context())
	require.NoError(t, err)
	juju, err := programs(t.Context(), system)
	require.NoError(t, err)
	takes("Juju's programs and the machines' image, or both of the cache", start)

	start = time.Now()
	folder, err := os.MkdirTemp("", "site-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(folder)) })
	require.NoError(t, os.Chmod(folder, 0o755))
	for _, sub := range []string{"first", "second", "takeover", "fake", "tmp"} {
		require.NoError(t, os.Mkdir(filepath.Join(folder, sub), 0o755))
	}
	require.NoError(t, debian.Unpack(t.Context(), juju, filepath.Join(folder, "bin")))
	placeStandIns(t, folder)
	packCharms(t, folder)
	lxdhost.FakeGPUs(t, filepath.Join(folder, "fake"))
	takes("the charms", start)

	start = time.Now()
	s := &site{Host: lxdhost.Start(t, filepath.Join(folder, "fake")), folder: folder}
	s.OnHost("ip", "link", "set", "lo", "up")
	s.Run(preseed, "lxd", "init", "--preseed")
	s.Run("", "lxc", "profile", "set", "default", "raw.lxc", lxdhost.InUnit(filepath.Join(folder, "fake"), "opt/host-class"))
	imageMetadata(t, folder+"/metadata.tar")
	s.long(t, "lxc", "image", "import", folder+"/metadata.tar", system, "--alias", imageAlias)
	s.operatorSystem(t, system)
	takes("LXD and an operator's system", start)
	return s
}

// long runs a command against the daemon that may take longer than most.
func (s *site) long(t *testing.T, argv ...string) {
	t.Helper()
	out, err := s.Command(argv...).CombinedOutput()
	require.NoError(t, err, "%v: %s", argv, out)
}

// operatorSystem is the machines' system once more, with this machine's lxc and
// the project's folder in it. The agent's version is asked for by running it, which
// takes the libraries that it was built with.
func (s *site) operatorSystem(t *testing.T, system string) {
	t.Helper()
	s.root = filepath.Join(s.Dir, "operator")
	require.NoError(t, debian.Unpack(t.Context(), system, s.root))
	project, err := filepath.Abs("../..")
	require.NoError(t, err)
	lxc, err := exec.LookPath("lxc")
	require.NoError(t, err)
	require.NoError(t, copyFile(lxc, s.root+"/usr/local/bin/lxc", 0o755))
	for _, dir := range []string{"/proc", "/sys", "/dev", s.folder, s.Dir + "/lxd", project} {
		require.NoError(t, os.MkdirAll(s.root+dir, 0o755))
		s.OnHost("mount", "--rbind", dir, s.root+dir)
	}
}

// operator is a command of the operator's.
func (s *site) operator(ctx context.Context, env []string, argv ...string) *exec.Cmd {
	enter := []string{"-t", strconv.Itoa(s.Init), "-m", "-n", "-p", "-u", "-i", "--", "chroot", s.root, "env", "-i",
		"PATH=" + s.folder + "/front:" + s.folder + "/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8",
		"LXD_DIR=" + s.Dir + "/lxd", "JUJU_DATA=/root/juju", "TMPDIR=" + s.folder + "/tmp"}
	c := exec.CommandContext(ctx, "nsenter", append(append(enter, env...), argv...)...)
	c.WaitDelay = time.Second
	return c
}

// try runs juju for the operator: what it printed, and an error with what it said.
func (s *site) try(argv ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), commandPatience)
	defer cancel()
	c := s.operator(ctx, nil, append([]string{"juju"}, argv...)...)
	var said bytes.Buffer
	c.Stderr = &said
	out, err := c.Output()
	if err != nil {
		err = fmt.Errorf("juju %s: %w: %s%s", strings.Join(argv, " "), err, out, said.Bytes())
	}
	return strings.TrimSpace(string(out)), err
}

func (s *site) juju(argv ...string) string {
	s.T.Helper()
	out, err := s.try(argv...)
	require.NoError(s.T, err)
	return out
}

// bootstrap makes the controller, with agents of the folder and nothing that must be had by
// the network alone.
func (s *site) bootstrap(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), bootstrapPatience)
	defer cancel()
	argv := []string{"juju", "bootstrap", "localhost", "site", "--build-agent", "--bootstrap-base=ubuntu@24.04",
		"--controller-charm-path=" + s.folder + "/controller.charm", "--config", "bootstrap-timeout=900"}
	for _, setting := range []string{"image-metadata-defaults-disabled=true", "enable-os-refresh-update=false", "enable-os-upgrade=false"} {
		argv = append(argv, "--config", setting, "--model-default", setting)
	}
	out, err := s.operator(ctx, nil, argv...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Log(s.juju("version"))
}
