//go:build e2e

package engines

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdi"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

// dir has what was built, the engines' folders and the image.
var dir string

func TestMain(m *testing.M) {
	os.Exit(suite.Namespaced{
		Name:    "engines",
		Missing: missing(),
		Flags:   syscall.CLONE_NEWPID | syscall.CLONE_NEWNET,
		Outside: build,
		Inside:  inside,
	}.Run(m))
}

func missing() string {
	if os.Geteuid() != 0 {
		return "root is needed to run container engines"
	}
	if lacks := suite.Lacks("runc busybox-static containerd", "runc", "busybox", "containerd", "ctr", "go"); lacks != "" {
		return lacks
	}
	if _, err := suite.Minors(); err != nil {
		return err.Error()
	}
	return ""
}

func build() (told string, end func() error, err error) {
	return suite.Folder("engines-test-", func(dir string) error {
		if err := suite.Build(dir, "./src/dispatch", "./src/runc-amd-wrapper"); err != nil {
			return err
		}
		return buildEngines(dir)
	})
}

func inside(m *testing.M, told string) int {
	dir = told
	return suite.Beneath(m, ownMachine)
}

// ownMachine has its own /proc, /dev, /run and /etc.
func ownMachine() error {
	if err := suite.OwnMachine(dir); err != nil {
		return err
	}
	if err := os.Chmod("/dev/shm", os.ModeSticky|0o777); err != nil { // a user's locks are there
		return err
	}
	// crun refuses a machine that has both versions of cgroups.
	if err := syscall.Unmount("/sys/fs/cgroup/unified", syscall.MNT_DETACH); err != nil && err != syscall.EINVAL && err != syscall.ENOENT {
		return err
	}
	if err := os.RemoveAll(filepath.Dir(cdi.Path)); err != nil {
		return err
	}
	if err := os.RemoveAll("/etc/concourse-ci-machine"); err != nil {
		return err
	}
	return image()
}

// image makes an image's file system, with busybox alone.
func image() error {
	bin := filepath.Join(dir, "image/bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return err
	}
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		return err
	}
	if out, err := exec.Command("cp", busybox, bin+"/busybox").CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	if err := os.Symlink("busybox", bin+"/sh"); err != nil {
		return err
	}
	out, err := exec.Command("tar", "-C", filepath.Join(dir, "image"), "-cf", tarball(), ".").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func tarball() string { return filepath.Join(dir, "image.tar") }

func wrapper() string { return filepath.Join(dir, "runc-amd-wrapper") }

// needPackage fails, or skips if this release of the system has no such package.
func needPackage(t *testing.T, name string, programs ...string) {
	t.Helper()
	suite.Need(t, missing())
	if lacks := suite.Lacks(name, programs...); lacks != "" {
		if os.Getenv("E2E") == "1" && !strings.Contains(","+os.Getenv("E2E_WITHOUT")+",", ","+name+",") {
			t.Fatal(lacks)
		}
		t.Skip(lacks)
	}
}

// run runs a program and returns all that it writes.
func run(argv ...string) (string, error) {
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	return string(out), err
}

func must(t *testing.T, argv ...string) string {
	t.Helper()
	out, err := run(argv...)
	require.NoError(t, err, "%s\n%s", strings.Join(argv, " "), out)
	return out
}

func dispatch(t *testing.T, words ...string) string {
	t.Helper()
	return must(t, append([]string{filepath.Join(dir, "dispatch")}, words...)...)
}

// describe has the stand-ins in /etc/cdi/amd.json as the charm describes two GPUs, closed
// to all but root and group 44.
func describe(t *testing.T) {
	t.Helper()
	describeOf(t, 44)
}

// describeOf has the nodes belong to another group.
func describeOf(t *testing.T, group int) {
	t.Helper()
	numbers, err := suite.Minors()
	require.NoError(t, err)
	node := func(path string) host.Node {
		return host.Node{Path: path, Major: 10, Minor: uint32(numbers[path]), Mode: 0o660, GID: uint32(group)}
	}
	r, left, err := cdi.Resource([]gpu.GPU{
		{Slot: gpu.Slot{PCI: "0000:03:00.0", UniqueID: "a1b2c3d4e5f60000"}, Render: node(suite.StandIns[1])},
		{Slot: gpu.Slot{PCI: "0000:03:00.0", Partition: 1}, Render: node(suite.StandIns[2])},
	}, gpu.KFD{State: gpu.KFDPresent, Node: node(suite.StandIns[0])})
	require.NoError(t, err)
	require.Empty(t, left)
	p, err := r.Diff(t.Context(), hosttest.RealAt("/"))
	require.NoError(t, err)
	_, err = p.Apply(t.Context(), nil)
	require.NoError(t, err)
	nodes(t, 0, group, 0o660)
}

func nodes(t *testing.T, uid, gid int, mode os.FileMode) {
	t.Helper()
	for _, n := range suite.StandIns {
		require.NoError(t, os.Chown(n, uid, gid))
		require.NoError(t, os.Chmod(n, mode))
	}
}

// probe opens each node for reading and writing. The shell would make a file if none
// exists.
const probe = `for d in kfd dri/renderD128 dri/renderD129; do
  if [ ! -e /dev/$d ]; then echo "$d absent"; elif (: 3<>/dev/$d) 2>/dev/null; then echo "$d opens"; else echo "$d closed"; fi
done`

const (
	first   = "kfd opens\ndri/renderD128 opens\ndri/renderD129 absent\n"
	second  = "kfd opens\ndri/renderD128 absent\ndri/renderD129 opens\n"
	both    = "kfd opens\ndri/renderD128 opens\ndri/renderD129 opens\n"
	nothing = "kfd absent\ndri/renderD128 absent\ndri/renderD129 absent\n"
	closed  = "kfd closed\ndri/renderD128 closed\ndri/renderD129 absent\n"
)

// snapshot is files, also in folders, with their modes and contents.
func snapshot(t *testing.T, folders ...string) string {
	t.Helper()
	var b strings.Builder
	for _, folder := range folders {
		_ = filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return nil // one that is not there has nothing
			}
			st, err := d.Info()
			require.NoError(t, err)
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			fmt.Fprintf(&b, "%s %s\n%s\n", path, st.Mode(), data)
			return nil
		})
	}
	return b.String()
}
