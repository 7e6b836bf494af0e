// Package hosttest gives tests a machine of their own: a copy of a fixture
// tree as host.Root, a strict scripted Runner, and a clock that stands still.
package hosttest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/base/host"
)

// Now is the time that Clock tells.
var Now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// Clock stands still at T. Sleeping takes no time, and Slept, if not nil, hears of it.
type Clock struct {
	T     time.Time
	Slept func(time.Duration)
}

// Now returns T.
func (c Clock) Now() time.Time { return c.T }

// Sleep returns at once.
func (c Clock) Sleep(d time.Duration) {
	if c.Slept != nil {
		c.Slept(d)
	}
}

// Root returns a fresh directory that holds copies of the given trees, later
// ones over earlier ones.
func Root(t testing.TB, trees ...string) host.Root {
	t.Helper()
	dir := t.TempDir()
	for _, tree := range trees {
		require.NoError(t, os.CopyFS(dir, os.DirFS(tree)))
	}
	return host.Root(dir)
}

// Put writes a file below the root, making its directories.
func Put(t testing.TB, r host.Root, path, content string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(r.Path(path)), 0o755))
	require.NoError(t, os.WriteFile(r.Path(path), []byte(content), 0o644))
}

// Runner answers commands from handlers and fails the test on any command
// that has none. It records what ran, read-only commands apart.
type Runner struct {
	T     testing.TB
	mu    sync.Mutex
	on    map[string]Handler
	Ran   []string // commands that change something, in order
	Asked []string // read-only commands, in order
}

// Handler answers one program; it gets the whole command.
type Handler func(c host.Command) (string, error)

// NewRunner returns a Runner that knows no command yet.
func NewRunner(t testing.TB) *Runner { return &Runner{T: t, on: map[string]Handler{}} }

// On answers every command that starts with the given words; the longest match wins.
func (r *Runner) On(prefix string, h Handler) *Runner {
	r.on[prefix] = h
	return r
}

// Answer makes commands that start with prefix print out and succeed.
func (r *Runner) Answer(prefix, out string) *Runner {
	return r.On(prefix, func(host.Command) (string, error) { return out, nil })
}

// Fail makes commands that start with prefix fail.
func (r *Runner) Fail(prefix string, code int, stderr string) *Runner {
	return r.On(prefix, func(c host.Command) (string, error) {
		return "", &host.CommandError{Argv: c.Argv, Code: code, Stderr: stderr, Err: fmt.Errorf("exit status %d", code)}
	})
}

// Run implements host.Runner.
func (r *Runner) Run(_ context.Context, c host.Command) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	line, best := c.String(), ""
	for p := range r.on {
		if (line == p || strings.HasPrefix(line, p+" ")) && len(p) >= len(best) {
			best = p
		}
	}
	if c.ReadOnly {
		r.Asked = append(r.Asked, line)
	} else {
		r.Ran = append(r.Ran, line)
	}
	if best == "" {
		r.T.Errorf("unexpected command: %s", line)
		return nil, &host.CommandError{Argv: c.Argv, Code: 127, Err: fmt.Errorf("unexpected command")}
	}
	out, err := r.on[best](c)
	return []byte(out), err
}

// Real is a throwaway root on which commands run for real.
func Real(t testing.TB) host.Host { return RealAt(Root(t)) }

// RealAt is that for a root that is there.
func RealAt(r host.Root) host.Host {
	return host.Host{Root: r, Runner: host.Exec{}, Clock: Clock{T: Now}}
}
