package gpureset

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestFileOpenedInBetweenStopsTheReset(t *testing.T) {
	for name, opens := range map[string]func(t *testing.T, r host.Root){
		"a node": func(t *testing.T, r host.Root) { link(t, r, "/proc/77/task/77/fd/5", "/dev/dri/renderD129") },
		"a card": func(t *testing.T, r host.Root) { link(t, r, "/proc/77/task/77/fd/5", "/dev/dri/card2") },
		"a mapping": func(t *testing.T, r host.Root) {
			link(t, r, "/proc/77/task/77/fd/0", "/dev/null")
			hosttest.Put(t, r, "/proc/77/task/77/maps", "7f00-7f01 rw-s 100000 00:06 5   /dev/dri/renderD129 (deleted)\n")
		},
		"a thread with its own descriptors": func(t *testing.T, r host.Root) {
			link(t, r, "/proc/77/task/77/fd/0", "/dev/null")
			hosttest.Put(t, r, "/proc/77/task/77/maps", "7f00-7f01 r-xp 0 08:01 5   /usr/bin/python3\n")
			link(t, r, "/proc/77/task/78/fd/5", "/dev/dri/renderD129")
		},
		"a thread of a leader that has ended": func(t *testing.T, r host.Root) {
			require.NoError(t, r.MkdirAll("/proc/77/task/77/fd", 0o755))
			hosttest.Put(t, r, "/proc/77/task/77/maps", "")
			hosttest.Put(t, r, "/proc/77/task/78/maps", "7f00-7f01 rw-s 100000 00:06 5   /dev/dri/renderD129\n")
		},
		"KFD": func(t *testing.T, r host.Root) {
			id, err := r.ReadText(kfdDir + "/topology/nodes/" + strconv.Itoa(kfdNode(t, r)) + "/gpu_id")
			require.NoError(t, err)
			hosttest.Put(t, r, kfdDir+"/proc/77/vram_"+strings.TrimSpace(id), "4096\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := machine(t, health.Hang)
			m.step = func(what string) {
				if what == "look" {
					opens(t, m.Host.Root)
				}
			}
			a, err := m.Reset(names[1])
			require.NoError(t, err)
			require.Equal(t, Stopped, a.Result)
			require.Equal(t, "process 77 has opened GPU 0000:43:00.0", a.Reason)
			require.Zero(t, resets(t, m.Host.Root))
			free(t, m)
			m.step = nil
			require.NoError(t, os.RemoveAll(m.Host.Path("/proc/77")))
			require.NoError(t, os.RemoveAll(m.Host.Path(kfdDir+"/proc/77")))
			a, err = m.Reset(names[1])
			require.NoError(t, err)
			require.Equal(t, Done, a.Result, "a reset that was stopped is no reset")
		})
	}
}

func TestProcessThatCannotBeReadStopsTheReset(t *testing.T) {
	m := machine(t, health.Hang)
	hosttest.Put(t, m.Host.Root, "/proc/77/task/77/fd", "not a folder")
	_, err := m.Reset(names[1])
	require.ErrorContains(t, err, "cannot see who has it open: cannot read the files of process 77: ")
	require.Zero(t, resets(t, m.Host.Root))
}

func TestProcessesAreNotReadWithoutAGPUToReset(t *testing.T) {
	m := machine(t, health.Hang)
	hosttest.Put(t, m.Host.Root, "/proc/77/task", "not a folder")
	w, err := m.Look()
	require.NoError(t, err)
	require.NotEmpty(t, w.OpenUnknown)
	require.NoError(t, quarantine.RecordFile.Write(m.Host.Root, quarantine.Record{At: hosttest.Now, Policy: quarantine.Auto}))
	w, err = m.Look()
	require.NoError(t, err)
	require.Empty(t, w.OpenUnknown)
	require.Nil(t, w.Open)
}

// A real thread with its own descriptors has a file open that its process has not.
func TestRealThreadWithItsOwnDescriptors(t *testing.T) {
	file := t.TempDir() + "/renderD129"
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	open, read := make(chan error), make(chan struct{})
	var thread func()
	thread = func() {
		runtime.LockOSThread() // and the thread ends with the goroutine
		if unix.Gettid() == os.Getpid() {
			go thread()
			<-read
			return
		}
		err := unix.Unshare(unix.CLONE_FILES)
		if err == nil {
			_, err = unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		}
		open <- err
		<-read
	}
	go thread()
	err := <-open
	defer close(read)
	require.NoError(t, err)
	nodes, err := nodesOf("/", os.Getpid())
	require.NoError(t, err)
	require.True(t, nodes["renderD129"])
}

func link(t *testing.T, r host.Root, path, target string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(r.Path(path[:strings.LastIndexByte(path, '/')]), 0o755))
	require.NoError(t, os.Symlink(target, r.Path(path)))
}
