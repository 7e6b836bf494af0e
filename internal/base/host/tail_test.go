package host_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/testutil/hosttest"
)

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

func TestLockThatSomebodyHasIsNotWaitedFor(t *testing.T) {
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
