package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/jujutest"
)

// Program runs dispatch as a function, by cli.Run. It returns the exit status.
type Program func(h host.Host, exe string, args []string, env func(string) string, stdout, stderr io.Writer) int

// Killed is the status of a run that Kill ended, and of a process that a signal ended.
const Killed = -1

// inProcess runs the commands of Program: hook tools in the model, systemd and similar
// programs in the Machine, and others on this machine. The first two start no process.
type inProcess struct {
	world *World
	hook  *jujutest.Context // nil for a person
	clean []string          // the environment of programs

	mu   sync.Mutex
	died chan struct{}
	dead bool
}

// Run implements host.Runner.
func (m *inProcess) Run(ctx context.Context, c host.Command) ([]byte, error) {
	m.live(c.Argv, false)
	out, err := m.answer(ctx, c)
	m.live(c.Argv, true)
	return out, err
}

// live returns if the run continues. For a killed run it never returns, so that deferred
// functions do not run, as in a killed process.
func (m *inProcess) live(argv []string, after bool) {
	m.mu.Lock()
	if !m.dead && m.world.Kill != nil && m.world.Kill(argv, after) {
		m.dead = true
		close(m.died)
	}
	dead := m.dead
	m.mu.Unlock()
	if dead {
		select {}
	}
}

func (m *inProcess) answer(ctx context.Context, c host.Command) ([]byte, error) {
	if m.hook != nil && jujutest.IsTool(c.Argv[0]) {
		return m.hook.Runner(nil).Run(ctx, c)
	}
	if slices.Contains(machinePrograms, c.Argv[0]) {
		r := m.world.Machine.run(c.Argv)
		if r.Code != 0 {
			return []byte(r.Stdout), &host.CommandError{Argv: c.Argv, Code: r.Code,
				Stderr: strings.TrimSpace(r.Stderr), Err: fmt.Errorf("exit status %d", r.Code)}
		}
		return []byte(r.Stdout), nil
	}
	c.Env = slices.Concat(m.clean, c.Env)
	return host.Exec{}.Run(ctx, c)
}

// runHere runs Program in this process with the environment of a dispatch process. The exit
// status is Killed if Kill ended it.
func (w *World) runHere(ctx *jujutest.Context, args []string, stdout, stderr io.Writer) int {
	cmd := w.Command(ctx, args...)
	vars := map[string]string{}
	for _, v := range cmd.Env {
		name, value, _ := strings.Cut(v, "=")
		vars[name] = value
	}
	clean := []string{"PATH=" + vars["PATH"], "CHARM_ROOT=" + vars["CHARM_ROOT"]}
	m := &inProcess{world: w, hook: ctx, clean: clean, died: make(chan struct{})}
	done := make(chan int, 1)
	// Later output of a killed run goes to a buffer without a reader.
	var out, errs bytes.Buffer
	env := func(name string) string { return vars[name] }
	go func() {
		h := host.New(vars["CHARM_ROOT"])
		h.Runner = m
		done <- w.main(h, cmd.Path, cmd.Args, env, &out, &errs)
	}()
	select {
	case code := <-done:
		stdout.Write(out.Bytes())
		stderr.Write(errs.Bytes())
		return code
	case <-m.died:
		if err := unlock(w.Dir); err != nil {
			panic(err) // only if /proc can't be read
		}
		return Killed
	}
}

// unlock releases this process's locks on files below a folder, as the kernel does when a
// process ends.
func unlock(below string) error {
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range fds {
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			return err
		}
		// Other runs open and close files at the same time. A closed file has no lock.
		if to, err := os.Readlink(filepath.Join("/proc/self/fd", e.Name())); err != nil ||
			!strings.HasPrefix(to, below+"/") {
			continue
		}
		unix.Flock(fd, unix.LOCK_UN)
		unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_UNLCK})
	}
	return nil
}
