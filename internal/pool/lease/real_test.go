package lease

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const (
	childDir  = "LEASE_TEST_DIR"
	childExec = "LEASE_TEST_EXEC"
	becomes   = "become"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == becomes { // what runc is to the wrapper
		fmt.Println("become")
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	if dir := os.Getenv(childDir); dir != "" {
		if err := child(dir); err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// realLeases are checked against the kernel's own /proc.
func realLeases(dir string) Leases {
	return Leases{Dir: dir + "/leases", GPUs: []string{"a", "b", "c", "d"}, Euid: uint32(os.Geteuid())}
}

// child leases, and shows that it alone has its GPUs: it locks a file for each
// of them that only holders lock, and that the kernel lets go of with it. Then
// it begins again, until it kills itself before a change of a file, or is killed.
func child(dir string) error {
	pid := os.Getpid()
	id := "c" + strconv.Itoa(pid)
	r := rand.New(rand.NewPCG(uint64(pid), 0))
	l := realLeases(dir)
	left := 1 + r.IntN(150)
	l.step = func(string) {
		if left--; left == 0 {
			_ = unix.Kill(pid, unix.SIGKILL)
			select {}
		}
	}
	c := Call{Container: id, PidFile: dir + "/none", Cgroup: id, PID: pid}
	if os.Getenv(childExec) != "" {
		l.step = nil
		if _, err := l.Take(c, Want{Count: 1}); err != nil {
			return err
		}
		fmt.Println("taken")
		return unix.Exec(os.Args[0], []string{os.Args[0], becomes}, os.Environ())
	}
	for {
		w := Want{Count: 1 + r.IntN(3)}
		gpus, err := l.Take(c, w)
		var refused *Refusal
		if errors.As(err, &refused) {
			runtime.Gosched()
			continue
		}
		if err != nil {
			return err
		}
		if len(gpus) != w.Count {
			return fmt.Errorf("%d are %v", w.Count, gpus)
		}
		var witnesses []int
		for _, g := range gpus {
			fd, err := unix.Open(filepath.Join(dir, "witness-"+strconv.Itoa(g)), unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
			if err == nil {
				err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
			}
			if err != nil {
				return fmt.Errorf("GPU %d is held twice: %w", g, err)
			}
			witnesses = append(witnesses, fd)
		}
		fmt.Println(gpus)
		for _, fd := range witnesses {
			unix.Close(fd)
		}
		if err := l.Cancel(id); err != nil {
			return err
		}
	}
}

// Many processes lease at once, and each is killed: by itself, at any change of
// a file, or from outside at any time.
func TestProcessesThatAreKilledHoldNothingTwice(t *testing.T) {
	dir := tempDir(t)
	const workers, rounds = 8, 12
	var group sync.WaitGroup
	granted := make([]int, workers)
	failed := make([]error, workers)
	for i := range workers {
		group.Go(func() {
			for round := range rounds {
				n, err := runChild(dir, (i+round)%3 == 0, 1+round)
				granted[i] += n
				failed[i] = errors.Join(failed[i], err)
			}
		})
	}
	group.Wait()
	all := 0
	for i := range workers {
		require.NoError(t, failed[i])
		all += granted[i]
	}
	t.Logf("%d processes had %d leases and were killed", workers*rounds, all)
	require.Greater(t, all, workers)
	l := realLeases(dir)
	states, _, err := l.Read()
	require.NoError(t, err)
	for _, s := range states {
		require.False(t, s.Held, "%+v", s)
	}
	got, err := l.Take(Call{Container: "last", PidFile: dir + "/none", Cgroup: "last", PID: os.Getpid()}, Want{Count: 4})
	require.NoError(t, err)
	require.Equal(t, []int{0, 1, 2, 3}, got)
}

// runChild counts the leases of one process until it is killed: from here after
// some of them, or by itself.
func runChild(dir string, fromHere bool, after int) (leases int, err error) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return 0, err
	}
	var last string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		last = lines.Text()
		if leases++; fromHere && leases == after {
			_ = cmd.Process.Kill()
			_, _ = io.Copy(io.Discard, out)
		}
	}
	var ended *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &ended) || !ended.Sys().(syscall.WaitStatus).Signaled() {
		return leases, fmt.Errorf("%v: %s", err, last)
	}
	return leases, nil
}

// While a program of several threads becomes another its first thread ends, and
// for a moment looks like a zombie.
func TestLeaseLastsWhileTheWrapperBecomesRunc(t *testing.T) {
	dir := tempDir(t)
	l := realLeases(dir)
	looks := 0
	for range 30 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childDir+"="+dir, childExec+"=1")
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		lines := bufio.NewReader(out)
		said, err := lines.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "taken\n", said)
		became := make(chan string, 1)
		go func() {
			said, _ := lines.ReadString('\n')
			became <- said
		}()
		for said = ""; said == ""; looks++ {
			states, _, err := l.Read()
			require.NoError(t, err)
			at := slices.IndexFunc(states, func(s State) bool { return s.Held })
			require.GreaterOrEqual(t, at, 0, "after %d looks", looks)
			require.Empty(t, states[at].Doubt)
			select {
			case said = <-became:
			default:
			}
		}
		require.Equal(t, "become\n", said)
		require.NoError(t, in.Close())
		require.NoError(t, cmd.Wait())
		states, _, err := l.Read()
		require.NoError(t, err)
		require.False(t, slices.ContainsFunc(states, func(s State) bool { return s.Held }))
	}
	t.Logf("looked %d times", looks)
}
