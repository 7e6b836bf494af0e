package lease

import (
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The value is from the paper's appendix.
func TestSipHashIsThePapers(t *testing.T) {
	var key [keySize]byte
	data := make([]byte, 15)
	for i := range key {
		key[i] = byte(i)
	}
	for i := range data {
		data[i] = byte(i)
	}
	require.Equal(t, uint64(0xa129ca6149be45e5), sipHash(key, data))
	require.Equal(t, uint64(0x726fdb47dd0e0e31), sipHash(key, nil))
}

func TestDigestIsKeyedAndSeparatesTexts(t *testing.T) {
	w := newWorld(t, true)
	l := w.leases("a")
	digest := func(texts ...string) string {
		d, err := l.Digest(texts...)
		require.NoError(t, err)
		return d
	}
	one := digest("sh", "-c")
	require.Equal(t, one, digest("sh", "-c"))
	require.NotEqual(t, one, digest("sh-c", ""))
	require.NotEqual(t, one, digest("-c", "sh"))
	st, err := os.Stat(w.path("leases", keyName))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), st.Mode())

	require.NoError(t, os.Remove(w.path("leases", keyName)))
	require.NotEqual(t, one, digest("sh", "-c"), "another key")
	w.put(w.path("leases", keyName), "cut")
	two := digest("sh", "-c")
	require.Equal(t, two, digest("sh", "-c"), "a cut key is made again")
	files, err := os.ReadDir(w.path("leases"))
	require.NoError(t, err)
	require.Len(t, files, 1)
}

func TestDigestKeyThatCannotBeReadIsAnError(t *testing.T) {
	w := newWorld(t, true)
	require.NoError(t, os.MkdirAll(w.path("leases"), 0o700))
	require.NoError(t, unix.Mkfifo(w.path("leases", keyName), 0o600)) // pread fails
	_, err := w.leases("a").Digest("sh")
	require.ErrorIs(t, err, unix.ESPIPE)
	require.ErrorContains(t, err, "cannot read "+w.path("leases", keyName))
}

// What a task's own process runs is in the record from the exec on, and sessions do not
// change it.
func TestLeaseKeepsTheProgramOfTheTask(t *testing.T) {
	w := newWorld(t, true)
	l := w.leases("a")
	c := w.call("c1", w.spawn(""))
	_, err := l.Take(c, Want{Count: 1})
	require.NoError(t, err)
	w.up(c)
	program := func() string {
		states, _, err := l.Read()
		require.NoError(t, err)
		return states[0].Program
	}
	require.Empty(t, program())
	for i, text := range []string{"4f1c", "", "77aa", ""} {
		exec := c
		exec.PID, exec.Program = w.spawn("c1"), text
		require.NoError(t, l.Enter(exec, []int{0}), strconv.Itoa(i))
		require.Equal(t, []string{"4f1c", "4f1c", "77aa", "77aa"}[i], program())
	}
}
