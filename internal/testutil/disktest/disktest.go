// Package disktest plays a full disk in tests. It never fills a real one.
package disktest

import (
	"os"
	"os/exec"
	"os/signal"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const separate = "TEST_IN_ITS_PROCESS"

// Separate runs the calling test in another process, and reports whether this is the other
// one. The limit of Full holds for a whole process, and the log of "go test" is in a file, too.
func Separate(t *testing.T) bool {
	t.Helper()
	if os.Getenv(separate) == t.Name() {
		return true
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), separate+"="+t.Name())
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: "+t.Name())
	return false
}

// Full lets writes beyond a size of a file fail while do runs. As on a full disk, the part
// below the size is written.
func Full(t *testing.T, size int64, do func()) {
	t.Helper()
	var before unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &before))
	signal.Ignore(unix.SIGXFSZ)
	defer signal.Reset(unix.SIGXFSZ)
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: uint64(size), Max: before.Max}))
	defer func() { require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &before)) }()
	do()
}
