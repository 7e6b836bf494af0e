package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/juju"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/sandbox"
)

// sample is one hook.
type sample struct {
	calls     map[string]int // hook tools by name
	systemctl map[string]int // by verb, those that change something
	wall      time.Duration
	cpu       time.Duration // user and system, with all commands that it ran
	own       time.Duration // dispatch's own share
	written   int64         // bytes of the unit's files that it replaced
}

// intercept answers when this program was started as one of the unit's
// commands, and notes the time that the answer took.
func intercept() (code int, done bool) {
	code, done = sandbox.Intercept()
	if !done {
		return code, done
	}
	var u syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	var f *os.File
	if err == nil {
		f, err = os.OpenFile(costs(os.Getenv("CHARM_ROOT")), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	}
	if err == nil {
		_, err = fmt.Fprintln(f, time.Duration(u.Utime.Nano()+u.Stime.Nano()).Nanoseconds())
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot note what a command cost:", err)
		return 1, true
	}
	return code, true
}

// costs is the file of what the commands of a unit took, beside its root.
func costs(root string) string { return filepath.Join(filepath.Dir(root), "costs") }

// hook runs dispatch and measures it.
func (b *bench) hook(e juju.Event) (s sample, err error) {
	before, err := b.files()
	if err != nil {
		return s, err
	}
	if err := os.WriteFile(costs(string(b.world.Root)), nil, 0o644); err != nil {
		return s, err
	}
	b.world.Machine.Recorded()
	ctx := b.world.Model.Begin(e)
	b.current = ctx
	c := b.world.Command(ctx)
	c.Env = append(c.Env, "JUJU_AGENT_SOCKET_ADDRESS="+filepath.Join(b.dir, "juju.sock"))
	start := time.Now()
	out, err := c.CombinedOutput()
	s.wall = time.Since(start)
	b.current = nil
	if err == nil {
		err = ctx.Commit()
	}
	if err != nil {
		return s, fmt.Errorf("%s: %w: %s", e.Name, err, out)
	}
	s.cpu = c.ProcessState.UserTime() + c.ProcessState.SystemTime()
	tools, err := b.toolTime()
	if err != nil {
		return s, err
	}
	s.own = s.cpu - tools
	s.calls, s.systemctl = map[string]int{}, map[string]int{}
	for _, argv := range ctx.Calls {
		s.calls[argv[0]]++
	}
	for _, line := range b.world.Machine.Recorded() {
		if words := strings.Fields(line); words[0] == "systemctl" {
			s.systemctl[words[1]]++
		}
	}
	after, err := b.files()
	for path, now := range after {
		if was, there := before[path]; !there || !os.SameFile(was, now) || was.ModTime() != now.ModTime() {
			s.written += now.Size()
		}
	}
	return s, err
}

func (b *bench) toolTime() (sum time.Duration, err error) {
	text, err := os.ReadFile(costs(string(b.world.Root)))
	for line := range strings.Lines(string(text)) {
		var n int64
		if _, err := fmt.Sscan(line, &n); err != nil {
			return 0, fmt.Errorf("cannot read what a command cost: %q", line)
		}
		sum += time.Duration(n)
	}
	return sum, err
}

// files are the unit's regular files.
func (b *bench) files() (map[string]fs.FileInfo, error) {
	all := map[string]fs.FileInfo{}
	err := filepath.WalkDir(string(b.world.Root), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		all[path], err = d.Info()
		return err
	})
	return all, err
}
