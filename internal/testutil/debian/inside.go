package debian

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
)

// inside unpacks a system into memory, binds FROM:TO of the arguments after the script, and
// runs the script there.
const inside = `mount -t tmpfs -o mode=755 tmpfs "$1" && root=$1 &&
tar --numeric-owner --xattrs --xattrs-include='*' -C "$root" -xpf "$2" && script=$3 && shift 3 &&
mount --rbind /dev "$root/dev" && rm -f "$root/etc/resolv.conf" && cp /etc/resolv.conf "$root/etc/" &&
for bind; do mkdir -p "$root${bind#*:}" && mount --bind "${bind%%:*}" "$root${bind#*:}" || exit; done &&
exec unshare --mount --pid --fork --kill-child --mount-proc="$root/proc" chroot "$root" sh -ec "$script"`

// Inside runs a script in a system of a tar, with this machine's network and the folders
// that are bound as "from:to". Changes of the system are lost.
func Inside(ctx context.Context, tar, script string, env []string, binds ...string) error {
	mirror, _, err := Mirror()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "debian-")
	if err != nil {
		return err
	}
	defer os.Remove(dir)
	argv := append([]string{"unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private",
		"--mount-proc", "sh", "-c", inside, "sh", dir, tar, script}, binds...)
	return run(ctx, nil, append([]string{"MIRROR=" + mirror}, env...), argv...)
}

// Pack writes a tar of the named parts of dir.
func Pack(ctx context.Context, out *os.File, dir string, names ...string) error {
	argv := append([]string{"tar", "--numeric-owner", "--xattrs", "--xattrs-include=*", "-C", dir, "-cf", "-"},
		names...)
	if err := run(ctx, out, nil, argv...); err != nil {
		return fmt.Errorf("cannot pack %s: %w", dir, err)
	}
	return nil
}

// Unpack makes dir and unpacks a tar into it.
func Unpack(ctx context.Context, file, dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if err := run(ctx, nil, nil, "tar", "--numeric-owner", "--xattrs", "--xattrs-include=*", "-C", dir, "-xpf",
		file); err != nil {
		return fmt.Errorf("cannot unpack %s: %w", file, err)
	}
	return nil
}

// reportKey is the context's key of WithReport.
type reportKey struct{}

// WithReport returns a context with which the package reports each line of the programs
// that it runs.
func WithReport(ctx context.Context, report func(line string)) context.Context {
	return context.WithValue(ctx, reportKey{}, report)
}

// Run runs a program as the package runs its own: it ends with the context or with this
// program, and a terminal's Ctrl-C does not reach it.
func Run(ctx context.Context, argv ...string) error { return run(ctx, nil, nil, argv...) }

// run runs a program with further variables. Standard output goes to out, if it is set.
func run(ctx context.Context, out *os.File, env []string, argv ...string) error {
	runtime.LockOSThread() // Pdeathsig depends on the thread
	defer runtime.UnlockOSThread()
	var wrote bytes.Buffer
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) } // with its children
	c.Env, c.Stderr = append(os.Environ(), env...), &wrote
	if out != nil { // a nil *os.File is not a nil io.Writer
		c.Stdout = out
	}
	if report, ok := ctx.Value(reportKey{}).(func(string)); ok {
		r, w := io.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			for s := bufio.NewScanner(r); s.Scan(); {
				report(strings.TrimSpace(s.Text()))
			}
			io.Copy(io.Discard, r) // after a line that is too long
		}()
		c.Stderr = io.MultiWriter(&wrote, w)
		defer func() {
			w.Close()
			<-done
		}()
	}
	if err := c.Run(); err != nil {
		return fmt.Errorf("%w: %s", err, wrote.Bytes())
	}
	return nil
}
