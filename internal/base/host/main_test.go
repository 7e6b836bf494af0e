package host_test

import (
	"io"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
)

// TestMain is also the other process of some tests:
//
//	test lock <root>     takes the lock, reports it, and waits for its stdin to end
//	test write <root>    writes half of secretPath, reports it, and waits for its stdin to end
//	test regroup <pipe>  leaves its process group, writes its id and hangs
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) == 3 && os.Args[1] == "lock":
		if _, err := host.Root(os.Args[2]).Lock(lockPath); err != nil {
			os.Exit(1)
		}
		os.Stdout.WriteString("locked\n")
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	case len(os.Args) == 3 && os.Args[1] == "write":
		w, err := host.Root(os.Args[2]).Create(secretPath, 0o600)
		if err == nil {
			_, err = w.WriteString("PASSWORD=old")
		}
		if err != nil {
			os.Exit(1)
		}
		os.Stdout.WriteString("written")
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	case len(os.Args) == 3 && os.Args[1] == "regroup":
		group, err := syscall.Getpgid(os.Getppid())
		if err == nil {
			err = syscall.Setpgid(0, group)
		}
		if err == nil {
			err = os.WriteFile(os.Args[2], []byte(strconv.Itoa(os.Getpid())), 0o600)
		}
		if err != nil {
			os.Exit(1)
		}
		time.Sleep(time.Hour)
	}
	os.Exit(m.Run())
}
