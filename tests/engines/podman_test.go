//go:build e2e

package engines

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

// podman runs as root, or as a user, with its own folders.
type podman struct {
	root, runRoot string
	user          *syscall.Credential
	env           []string
}

func (p podman) run(words ...string) (string, error) {
	c := exec.Command("podman", append([]string{"--root", p.root, "--runroot", p.runRoot, "--storage-driver", "vfs",
		"--cgroup-manager", "cgroupfs", "--events-backend", "none", "--log-level", "fatal"}, words...)...)
	c.Env = append(os.Environ(), p.env...)
	c.SysProcAttr = &syscall.SysProcAttr{Credential: p.user}
	c.Dir = "/"
	out, err := c.CombinedOutput()
	return string(out), err
}

// probe runs a container; words before its own are podman's.
func (p podman) probe(global, words string) (string, error) {
	line := strings.Fields(global + " run --rm --network none " + words + " gpu-test /bin/sh -c")
	return p.run(append(line, probe)...)
}

func (p podman) load(t *testing.T) {
	t.Helper()
	out, err := p.run("import", "--quiet", tarball(), "gpu-test")
	require.NoError(t, err, out)
}

func TestPodmanHasBothWays(t *testing.T) {
	needPackage(t, "podman", "podman")
	describe(t)
	before := snapshot(t, "/etc/containers", "/var/lib/concourse-ci-machine")
	p := podman{root: filepath.Join(dir, "podman"), runRoot: "/run/podman-test"}
	p.load(t)
	out, err := p.probe("", "--device amd.com/gpu=0")
	require.NoError(t, err, out)
	require.Equal(t, first, out, "CDI needs no configuration")

	dispatch(t, "runtime", "configure", "podman")
	for _, c := range []struct{ global, words, want string }{
		{"--runtime amd", "-e AMD_VISIBLE_DEVICES=1", second},
		{"--runtime amd", "-e AMD_VISIBLE_DEVICES=0-1 --user 1234", both},
		{"--runtime amd", "-e AMD_VISIBLE_DEVICES=0000:03:00.0-1", second},
		{"--runtime amd", "--annotation cdi.k8s.io/any=amd.com/gpu=0", first},
		{"--runtime amd", "--device amd.com/gpu=1", second},
		{"--runtime amd", "", nothing},
		{"", "-e AMD_VISIBLE_DEVICES=1", nothing},
		{"--runtime runc", "--device amd.com/gpu=0000:03:00.0-1", second},
		{"--runtime runc", "--device amd.com/gpu=all", both},
	} {
		out, err := p.probe(c.global, c.words)
		require.NoError(t, err, "%s %s: %s", c.global, c.words, out)
		require.Equal(t, c.want, out, c.global+" "+c.words)
	}
	dispatch(t, "runtime", "configure", "podman", "--set-as-default")
	out, err = p.probe("", "-e AMD_VISIBLE_DEVICES=1")
	require.NoError(t, err, out)
	require.Equal(t, second, out)
	dispatch(t, "runtime", "configure", "podman", "--remove")
	require.Equal(t, before, snapshot(t, "/etc/containers", "/var/lib/concourse-ci-machine"), "byte for byte as before")
	out, err = p.probe("--runtime amd", "")
	require.Error(t, err)
	require.Contains(t, out, "amd")
}

const ann = 3123

// user makes a person who has no rights, and ids for containers.
func user(t *testing.T, groups ...uint32) podman {
	t.Helper()
	home := "/run/ann"
	for file, line := range map[string]string{"/etc/passwd": fmt.Sprintf("ann:x:%d:%[1]d::%s:/bin/sh\n", ann, home), "/etc/group": fmt.Sprintf("ann:x:%d:\n", ann),
		"/etc/subuid": "ann:200000:65536\n", "/etc/subgid": "ann:200000:65536\n"} {
		data, err := os.ReadFile(file)
		if err != nil {
			require.ErrorIs(t, err, os.ErrNotExist)
		}
		if !strings.Contains(string(data), line) {
			require.NoError(t, os.WriteFile(file, append(data, line...), 0o644))
		}
	}
	for _, folder := range []string{home, "/run/user/ann"} {
		require.NoError(t, os.MkdirAll(folder, 0o700))
		require.NoError(t, os.Chmod(filepath.Dir(folder), 0o755))
		require.NoError(t, os.Chown(folder, ann, ann))
	}
	return podman{root: home + "/storage", runRoot: "/run/user/ann/containers", user: &syscall.Credential{Uid: ann, Gid: ann, Groups: groups},
		env: []string{"HOME=" + home, "XDG_RUNTIME_DIR=/run/user/ann", "XDG_CONFIG_HOME=" + home + "/.config",
			"XDG_CACHE_HOME=" + home + "/.cache"}}
}

// list lets ann read and write the nodes, as setfacl -m u:ann:rw does.
func list(t *testing.T) {
	t.Helper()
	const nobody = 1<<32 - 1
	acl := []byte{2, 0, 0, 0}
	for _, row := range [][3]uint32{{1, 6, nobody}, {2, 6, ann}, {4, 6, nobody}, {16, 6, nobody}, {32, 0, nobody}} { // owner, user, group, mask, others
		acl = binary.LittleEndian.AppendUint16(acl, uint16(row[0]))
		acl = binary.LittleEndian.AppendUint16(acl, uint16(row[1]))
		acl = binary.LittleEndian.AppendUint32(acl, row[2])
	}
	for _, n := range suite.StandIns {
		require.NoError(t, unix.Setxattr(n, "system.posix_acl_access", acl, 0))
	}
}

// Without root, what the user may open decides, and a refusal reports why.
func TestRootlessPodmanGivesWhatTheUserMayOpen(t *testing.T) {
	needPackage(t, "podman", "podman")
	needPackage(t, "crun", "crun")
	needPackage(t, "uidmap", "newuidmap")
	describe(t)
	a := user(t)
	a.load(t)
	own := exec.Command(filepath.Join(dir, "dispatch"), "runtime", "configure", "podman")
	own.Env, own.SysProcAttr = append(os.Environ(), a.env...), &syscall.SysProcAttr{Credential: a.user}
	out, err := own.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "1/1 write /run/ann/.config/containers/containers.conf.d/50-amd-gpu.conf (missing)\n")

	const variable = "-e AMD_VISIBLE_DEVICES=0"
	for _, c := range []struct {
		name     string
		uid, gid int
		mode     os.FileMode
		groups   []uint32
		listed   bool // in an access control list, as logind's
		words    string
		want     string // or what the refusal reports
	}{
		{"not his", 0, 44, 0o660, nil, false, variable, "cannot give the container /dev/kfd: its mode is 0660, and this user may not open it; as root run: setfacl -m u:<user>:rw /dev/kfd"},
		{"by a group", 0, 44, 0o660, []uint32{44}, false, variable, "and this user may open it by a group only, which the container does not keep; give it podman's --group-add keep-groups"},
		{"by a group that stays", 0, 44, 0o660, []uint32{44}, false, variable + " --group-add keep-groups", first},
		{"open to all", 0, 0, 0o666, nil, false, variable, first},
		{"open to all, as another user", 0, 0, 0o666, nil, false, variable + " --user 1234", first},
		{"his own", ann, 0, 0o600, nil, false, variable, first},
		{"his own, as himself inside", ann, 0, 0o600, nil, false, variable + " --userns keep-id", first},
		{"his own, as another user", ann, 0, 0o600, nil, false, variable + " --user 1234", "this user may open it, and the container's user 1234 is another"},
		{"in a list", 0, 44, 0o660, nil, true, variable, first},
		{"in a list, as another user", 0, 44, 0o660, nil, true, variable + " --user 1234", "this user may open it, and the container's user 1234 is another"},
		{"asks for none", 0, 44, 0o660, nil, false, "", nothing},
	} {
		nodes(t, c.uid, c.gid, c.mode)
		if c.listed {
			list(t)
		}
		a.user.Groups = c.groups
		out, err := a.probe("--runtime amd", c.words)
		if strings.Contains(c.want, " opens\n") || c.want == nothing {
			require.NoError(t, err, "%s: %s", c.name, out)
			require.Equal(t, c.want, out, c.name)
			continue
		}
		require.Error(t, err, "%s: %s", c.name, out)
		require.Contains(t, out, c.want, c.name)
	}

	// Podman's own CDI reports nothing of why.
	for _, n := range suite.StandIns {
		require.NoError(t, unix.Removexattr(n, "system.posix_acl_access"))
	}
	nodes(t, 0, 44, 0o660)
	a.user.Groups = nil
	out2, err := a.probe("", "--device amd.com/gpu=0")
	require.NoError(t, err, out2)
	require.Equal(t, closed, out2)
}
