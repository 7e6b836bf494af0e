//go:build e2e

package container

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/healthcheck"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

// checked is a unit with a health check, by the real runc: a script that sh runs.
type checked struct {
	*bed
	host.Host
	job healthcheck.Job
}

func newChecked(t *testing.T, mode os.FileMode) *checked {
	ownSrv(t)
	return checkedIn(newBed(t, mode))
}

// ownSrv replaces /srv in this mount namespace.
func ownSrv(t *testing.T) {
	need(t)
	require.NoError(t, os.MkdirAll("/srv", 0o755))
	require.NoError(t, syscall.Mount("tmpfs", "/srv", "tmpfs", 0, "mode=755"))
	t.Cleanup(func() { require.NoError(t, syscall.Unmount("/srv", syscall.MNT_DETACH)) })
}

func checkedIn(b *bed) *checked {
	p := &checked{bed: b, Host: host.New("")}
	b.t.Cleanup(func() { require.NoError(b.t, os.RemoveAll(healthcheck.Dir)) })
	p.job = healthcheck.Job{Slot: gpu.Slot{PCI: "0000:03:00.0"}, Command: "/srv/tools/check", Runc: b.real, Devices: p.nodes("/dev/kfd", "/dev/dri/renderD128"), Recursive: true}
	return p
}

// nodes are device nodes as the charm describes them.
func (p *checked) nodes(paths ...string) (nodes []*specs.DeviceNode) {
	numbers, err := suite.Minors()
	require.NoError(p.t, err)
	for _, path := range paths {
		var st syscall.Stat_t
		require.NoError(p.t, syscall.Lstat(path, &st))
		mode, uid, gid := os.FileMode(st.Mode&0o777), st.Uid-uint32(p.offset), st.Gid-uint32(p.offset) // as the machine sees them
		nodes = append(nodes, &specs.DeviceNode{Path: path, Type: "c", Major: 10, Minor: int64(numbers[path]), FileMode: &mode, UID: &uid, GID: &gid, Permissions: "rw"})
	}
	return nodes
}

// run is the health check with this script as gpu-health-check.
func (p *checked) run(script string, deadline time.Duration) (quarantine.HealthCheck, string) {
	p.t.Helper()
	p.put(script)
	check, output := p.job.Run(p.t.Context(), p.Host, deadline)
	require.False(p.t, check.Ended.Before(check.Began))
	left, err := p.Glob(bundleOfHealthCheck + "/state/*")
	require.NoError(p.t, err)
	require.Empty(p.t, left, "no container stays")
	return check, output
}

func (p *checked) put(script string) {
	require.NoError(p.t, os.MkdirAll(filepath.Dir(p.job.Command), 0o755))
	require.NoError(p.t, os.WriteFile(p.job.Command, []byte(script), 0o755))
}

const bundleOfHealthCheck = healthcheck.Dir + "/concourse-gpu-health-check-0000-03-00.0"

const sh = "#!/bin/sh\n"

func TestHealthCheckEndsAsItsProgramDoes(t *testing.T) {
	onEachCgroup(t, func(t *testing.T, _ string) {
		p := newChecked(t, 0o660)
		check, output := p.run(sh+"echo computed; echo beside >&2\n", time.Minute)
		require.Equal(t, quarantine.Passed, check.End, output+check.Reason)
		require.ElementsMatch(t, []string{"computed", "beside", ""}, strings.Split(output, "\n"))

		check, output = p.run(sh+"printf '\\033[2Jwrong sum\\n'; exit 3\n", time.Minute)
		require.Equal(t, quarantine.Failed, check.End, output+check.Reason)
		require.Equal(t, 3, check.Exit)
		require.Equal(t, "?[2Jwrong sum\n", output)

		check, output = p.run(sh+"sh -c 'kill -SEGV $$'\n", time.Minute)
		require.Equal(t, quarantine.Failed, check.End, output+check.Reason)
		require.Equal(t, 139, check.Exit)

		check, output = p.run(sh+"i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done\n", time.Minute)
		require.Equal(t, quarantine.Passed, check.End, output+check.Reason)
		require.Len(t, output, 4096)
		require.True(t, strings.HasSuffix(output, "line 2999\n"))
	})
}

// A program that hangs costs its time, and is ended with all that it began.
func TestHealthCheckThatDoesNotEndIsEnded(t *testing.T) {
	p := newChecked(t, 0o660)
	check, output := p.run(sh+"trap '' TERM INT HUP; (sleep 4242 &) ; echo begun; sleep 4243\n", 5*time.Second)
	require.Equal(t, quarantine.Failed, check.End, output+check.Reason)
	require.True(t, check.Late)
	require.Equal(t, "begun\n", output)
	require.Empty(t, programs(t, "sleep\x00424"))
}

// A check that could not run proves nothing about the GPU.
func TestHealthCheckThatDoesNotStartDoesNotJudgeTheGPU(t *testing.T) {
	p := newChecked(t, 0o660)
	_, output := p.run(sh, time.Minute)
	require.Empty(t, output)
	require.NoError(t, os.Chmod(p.job.Command, 0o700))
	check, output := p.job.Run(t.Context(), p.Host, time.Minute)
	require.Equal(t, quarantine.NotRun, check.End, output)
	require.Contains(t, check.Reason, "permission denied")

	p.job.Runc = "/nowhere/runc"
	check, output = p.job.Run(t.Context(), p.Host, time.Minute)
	require.Equal(t, quarantine.NotRun, check.End, output)
	require.Contains(t, check.Reason, "/nowhere/runc")
}

// The program has this GPU and what all users may read, and nothing more.
func TestHealthCheckSeesItsGPUOnly(t *testing.T) {
	for name, node := range map[string]struct {
		mode  os.FileMode
		group int
		file  string // of root's group, in the folder of the program
	}{"by its group": {0o660, 992, "hidden"}, "by everybody": {0o666, 0, "hidden"}, "by the group root": {0o660, 0, "read"}} {
		t.Run(name, func(t *testing.T) {
			ownSrv(t)
			b := newBed(t, node.mode)
			b.hostNodes(node.mode, 0, node.group)
			p := checkedIn(b)
			for _, secret := range []string{"/srv/tools/secret", "/srv/other/seen", "/etc/concourse-ci-machine/probe-secret"} {
				dir := filepath.Dir(secret)
				if _, err := os.Stat(dir); err != nil {
					require.NoError(t, os.MkdirAll(dir, 0o755))
					t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
				}
				require.NoError(t, os.WriteFile(secret, []byte("secret"), 0o640))
				t.Cleanup(func() { require.NoError(t, os.RemoveAll(secret)) })
			}
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			t.Cleanup(func() { l.Close() })
			numbers, err := suite.Minors()
			require.NoError(t, err)
			check, output := p.run(sh+fmt.Sprintf(`
echo "user: $(id -u) $(id -g)"
`+probe+`
for f in /srv/tools/secret /srv/other/seen /etc/concourse-ci-machine/probe-secret /etc/shadow /root /var/lib /home; do
  if cat $f >/dev/null 2>&1 || ls $f/* >/dev/null 2>&1; then echo "$f: read"; else echo "$f: hidden"; fi
done
for f in /srv/tools/check /usr/bin/new /etc/new /new /sys/new; do
  if (echo x >> $f) 2>/dev/null; then echo "$f: written"; else echo "$f: kept"; fi
done
echo x > /tmp/own && echo "tmp: own"
echo "processes: $(ls -d /proc/[0-9]* | wc -l)"
echo "net: $(tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' ' | tr '\n' ' ')"
if (busybox nc -w 2 127.0.0.1 %d </dev/null) 2>/dev/null; then echo "host: reached"; else echo "host: not reached"; fi
if busybox mknod /tmp/node c 10 %d 2>/dev/null; then echo "mknod: made"; else echo "mknod: refused"; fi
grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status | tr -d '\t '
echo "env: $GPU_INDEX $GPU_PCI $(env | cut -d= -f1 | sort | tr '\n' ' ')"
`, l.Addr().(*net.TCPAddr).Port, numbers["/dev/dri/renderD129"]), time.Minute)
			require.Equal(t, quarantine.Passed, check.End, output+check.Reason)
			got := found(output)
			for what, want := range map[string]string{
				"user": "65534 65534", "kfd": "opens", "dri/renderD128": "opens", "dri/renderD129": "absent",
				"/srv/tools/secret": node.file, "/srv/other/seen": "hidden", "/etc/concourse-ci-machine/probe-secret": "hidden", "/etc/shadow": "hidden",
				"/root": "hidden", "/var/lib": "hidden", "/home": "hidden",
				"/srv/tools/check": "kept", "/usr/bin/new": "kept", "/etc/new": "kept", "/new": "kept", "/sys/new": "kept", "tmp": "own",
				"net": "lo", "host": "not reached", "mknod": "refused",
				"env": "0 0000:03:00.0 GPU_INDEX GPU_PCI HOME LANG PATH PWD",
			} {
				require.Equal(t, want, strings.TrimSpace(got[what]), "%s in %s", what, output)
			}
			for _, line := range []string{"CapEff:0000000000000000", "CapBnd:0000000000000000", "NoNewPrivs:1"} {
				require.Contains(t, strings.Split(output, "\n"), line)
			}
			require.Less(t, len(got["processes"]), 2, "its own alone: %s", got["processes"])
		})
	}
}

// Whatever a health check left that was killed is ended before the next one.
func TestHealthCheckThatWasKilledIsBegunAgain(t *testing.T) {
	p := newChecked(t, 0o660)
	p.run(sh, time.Minute)
	p.put(sh + "sleep 4244\n")
	runc := exec.Command(p.real, "--root", bundleOfHealthCheck+"/state", "run", "--detach", "--bundle", bundleOfHealthCheck, filepath.Base(bundleOfHealthCheck))
	require.NoError(t, runc.Run())
	require.Eventually(t, func() bool { return len(programs(t, "sleep\x004244")) > 0 }, time.Minute, 20*time.Millisecond)
	check, output := p.run(sh+"exit 0\n", time.Minute)
	require.Equal(t, quarantine.Passed, check.End, output+check.Reason)
	require.Empty(t, programs(t, "sleep\x004244"))
}

// programs are the command lines of this machine that contain a text.
func programs(t *testing.T, text string) (lines []string) {
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, file := range all {
		if line, _ := os.ReadFile(file); strings.Contains(string(line), text) {
			lines = append(lines, string(line))
		}
	}
	return lines
}

// inside runs commands as root of a nested machine, to whom the bundle belongs there. It
// has no cgroups of its own here, as LXD gives, so the container gets none.
type inside struct{ *bed }

func (i inside) Run(ctx context.Context, c host.Command) ([]byte, error) {
	i.chown(i.path("run"), i.offset)
	config := i.path(bundleOfHealthCheck + "/config.json")
	if data, err := os.ReadFile(config); err == nil {
		data = regexp.MustCompile(`"cgroupsPath":"[^"]+",`).ReplaceAll(data, nil)
		require.NoError(i.t, os.WriteFile(config, data, 0o600))
	}
	c.Argv = slices.Concat(i.enter, c.Argv)
	return host.Exec{}.Run(ctx, c)
}

// In an LXD-like machine, with a root that can make no nodes: the GPU's are the machine's
// own.
func TestHealthCheckInsideLXD(t *testing.T) {
	for name, group := range map[string]int{"by its group": 44, "by the group root": 0} {
		t.Run(name, func(t *testing.T) {
			ownSrv(t)
			b := nested(t, 0o660, group)
			p := checkedIn(b)
			p.Host.Root, p.Host.Runner = host.Root(b.dir), inside{b}
			require.NoError(t, os.Chown(b.dir, nestedRoot, nestedRoot))
			for _, dir := range []string{"usr", "etc"} {
				require.NoError(t, os.Mkdir(b.path(dir), 0o755))
			}
			for _, link := range []string{"bin", "lib", "lib64"} {
				require.NoError(t, os.Symlink("usr/"+link, b.path(link)))
			}
			check, output := p.run(sh+probe, time.Minute)
			require.Equal(t, quarantine.Passed, check.End, output+check.Reason)
			require.Equal(t, map[string]string{"kfd": "opens", "dri/renderD128": "opens", "dri/renderD129": "absent"}, found(output))
		})
	}
}
