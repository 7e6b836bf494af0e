package host_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func sh(script string, args ...string) host.Command {
	return host.Command{Argv: append([]string{"sh", "-c", script, "sh"}, args...)}
}

func run(t *testing.T, c host.Command) (string, *host.CommandError) {
	t.Helper()
	out, err := host.Exec{}.Run(context.Background(), c)
	var e *host.CommandError
	if err != nil {
		require.ErrorAs(t, err, &e)
	}
	return string(out), e
}

func TestRunGivesOutputInputAndEnvironment(t *testing.T) {
	c := sh(`cat; printf '%s %s' "$A" "$1"`, "a b")
	c.Stdin, c.Env = []byte("in "), []string{"A=1 2"}
	out, e := run(t, c)
	require.Nil(t, e)
	require.Equal(t, "in 1 2 a b", out)
}

// What takes long is followed while it runs, and is there afterwards as well.
func TestCommandThatIsShownWritesToStandardErrorToo(t *testing.T) {
	for _, tail := range []int{0, 100} {
		f, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
		require.NoError(t, err)
		own := os.Stderr
		os.Stderr = f
		c := sh("echo out; echo error >&2; exit 3")
		c.Shown, c.Tail = true, tail
		out, e := run(t, c)
		os.Stderr = own
		require.NoError(t, f.Close())
		require.Equal(t, 3, e.Code)
		shown, err := os.ReadFile(f.Name())
		require.NoError(t, err)
		require.ElementsMatch(t, []string{"out", "error"}, strings.Fields(string(shown)))
		require.Equal(t, "out\nerror\n", out+e.Stderr+strings.Repeat("\n", min(1, len(e.Stderr))))
	}
}

func TestRunWithoutStdinHasNoInput(t *testing.T) {
	out, e := run(t, sh("cat; echo end"))
	require.Nil(t, e)
	require.Equal(t, "end\n", out)
}

func TestFailedCommandHasItsStatusAndLastLine(t *testing.T) {
	out, e := run(t, sh("echo part; echo one >&2; echo two >&2; exit 7"))
	require.Equal(t, "part\n", out)
	require.Equal(t, 7, e.Code)
	require.Equal(t, "one\ntwo", e.Stderr)
	require.Equal(t, "two", e.LastLine())
	require.Contains(t, e.Error(), "exit 7: one\ntwo")

	_, e = run(t, sh("kill -TERM $$"))
	require.Equal(t, -1, e.Code)
	require.Contains(t, e.Error(), "terminated")

	_, e = run(t, host.Command{Argv: []string{"no-such-program-anywhere"}})
	require.Equal(t, -1, e.Code)
	require.Contains(t, e.Error(), `cannot run "no-such-program-anywhere"`)
}

func TestErrorNeverHoldsEnvironmentOrInput(t *testing.T) {
	c := sh("exit 1")
	c.Env, c.Stdin = []string{"TOKEN=hunter2"}, []byte("hunter2")
	_, e := run(t, c)
	require.NotContains(t, e.Error(), "hunter2")
	require.NotContains(t, c.String(), "hunter2")
}

func alive(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// pidPipe makes a pipe that a command writes a process id to. The context ends
// when it did, so that the command is stopped at a known place.
func pidPipe(t *testing.T) (ctx context.Context, path string, pid func() int) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "pid")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	said := make(chan string, 1)
	go func() {
		text, _ := os.ReadFile(path)
		said <- string(text)
		cancel()
	}()
	return ctx, path, func() int {
		n, err := strconv.Atoi(strings.TrimSpace(<-said))
		require.NoError(t, err)
		return n
	}
}

func TestStoppedCommandEndsItsChildren(t *testing.T) {
	ctx, pipe, pid := pidPipe(t)
	_, err := host.Exec{}.Run(ctx, sh(`sleep 1000 & echo $! > "$1"; wait`, pipe))
	require.ErrorIs(t, err, context.Canceled)
	child := pid()
	require.Eventually(t, func() bool { return !alive(child) }, time.Minute, time.Millisecond)
}

func TestDeadlineIsReportedWithItsLength(t *testing.T) {
	c := sh("echo begun >&2; exec sleep 1000")
	c.Deadline = 300 * time.Millisecond
	_, e := run(t, c)
	require.Equal(t, c.Deadline, e.Timeout)
	require.Nil(t, e.Ended, "it ended when it was killed")
	require.Equal(t, -1, e.Code)
	require.True(t, errors.Is(e, context.DeadlineExceeded))
	require.Contains(t, e.Error(), "gave up after 300ms")
}

// B14: a GPU tool that hangs in the kernel does not even die of SIGKILL. The program that replaces it
// here leaves the group that is killed, which comes to the same for Run: the command goes
// on, and Run returns all the same.
func TestChildThatCannotBeKilledIsAbandoned(t *testing.T) {
	ctx, pipe, pid := pidPipe(t)
	self, err := os.Executable()
	require.NoError(t, err)
	out, err := host.Exec{}.Run(ctx, host.Command{Argv: []string{self, "regroup", pipe}})
	require.ErrorIs(t, err, context.Canceled)
	require.Nil(t, out)
	child := pid()
	require.True(t, alive(child))
	var failed *host.CommandError
	require.ErrorAs(t, err, &failed)
	select {
	case <-failed.Ended:
		t.Fatal("it has not ended")
	default:
	}
	require.NoError(t, syscall.Kill(child, syscall.SIGKILL))
	<-failed.Ended
}

func TestGrandchildWithTheOutputOpenDoesNotHoldTheCommand(t *testing.T) {
	for name, after := range map[string]string{"command ends": "", "command is stopped": "; wait"} {
		ctx, pipe, pid := pidPipe(t)
		if after == "" {
			ctx = context.Background()
		}
		out, _ := host.Exec{}.Run(ctx, sh(`setsid sleep 1000 & echo done; echo $! > "$1"`+after, pipe))
		require.Equal(t, "done\n", string(out), name)
		require.NoError(t, syscall.Kill(pid(), syscall.SIGKILL), name)
	}
}

func TestTailOfACommandIsTheEndOfAllThatItWrites(t *testing.T) {
	c := sh("i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done; echo wrong >&2; exit 3")
	c.Tail = 30
	out, e := run(t, c)
	require.Equal(t, 3, e.Code)
	require.Len(t, out, 30)
	require.Regexp(t, `\d\nline 19999\nwrong\n$`, out)
	require.Empty(t, e.Stderr)

	c = sh("echo short; echo both >&2")
	c.Tail = 30
	out, e = run(t, c)
	require.Nil(t, e)
	require.Equal(t, "short\nboth\n", out)

	c = sh("echo before it hangs; sleep 60")
	c.Tail, c.Deadline = 30, 3*time.Second
	out, e = run(t, c)
	require.Equal(t, c.Deadline, e.Timeout)
	require.Equal(t, "before it hangs\n", out)
}

func TestTryLockDoesNotWait(t *testing.T) {
	r := hosttest.Root(t)
	unlock, err := r.TryLock(lockPath)
	require.NoError(t, err)
	_, err = r.TryLock(lockPath)
	require.ErrorIs(t, err, host.ErrLocked)
	unlock()
	unlock, err = r.TryLock(lockPath)
	require.NoError(t, err)
	unlock()
}
