// Package hosttest gives tests a separate machine: a copy of a fixture tree as host.Root, a
// strict scripted Runner, and a stopped clock. It never runs commands on the machine,
// except with Real.
package hosttest

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
)

// Now is the time of Clock.
var Now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// Clock always shows T. Sleep takes no time and calls Slept, if set.
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

// Root returns a new directory with copies of the given trees, later ones over earlier
// ones.
func Root(t testing.TB, trees ...string) host.Root {
	t.Helper()
	dir := t.TempDir()
	for _, tree := range trees {
		require.NoError(t, os.CopyFS(dir, os.DirFS(tree)))
	}
	return host.Root(dir)
}

// Put writes a file below the root, with its directories.
func Put(t testing.TB, r host.Root, path, content string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(r.Path(path)), 0o755))
	require.NoError(t, os.WriteFile(r.Path(path), []byte(content), 0o644))
}

// Runner answers commands with handlers and fails the test on any other command. It records
// commands, and read-only commands separately.
type Runner struct {
	T        testing.TB
	mu       sync.Mutex
	handlers map[string]Handler
	Ran      []string // commands that change something, in order
	Asked    []string // read-only commands, in order
}

// Handler answers one program. It gets the whole command.
type Handler func(c host.Command) (string, error)

// NewRunner returns a Runner without handlers.
func NewRunner(t testing.TB) *Runner { return &Runner{T: t, handlers: map[string]Handler{}} }

// On handles every command that starts with the given words. The longest match applies.
func (r *Runner) On(prefix string, h Handler) *Runner {
	r.handlers[prefix] = h
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
	for p := range r.handlers {
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
	out, err := r.handlers[best](c)
	return []byte(out), err
}

// Real returns a throwaway root on which real commands run.
func Real(t testing.TB) host.Host { return RealAt(Root(t)) }

// RealAt works like Real for an existing root.
func RealAt(r host.Root) host.Host {
	return host.Host{Root: r, Runner: host.Exec{}, Clock: Clock{T: Now}}
}

// Buffer wraps a bytes.Buffer for several goroutines.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

var update = flag.Bool("update", false, "rewrite golden files")

// Golden compares got with the file; make update rewrites the file.
func Golden(t testing.TB, file, got string) {
	t.Helper()
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
		return
	}
	caller, _, _, _ := runtime.Caller(1)
	name := strings.TrimPrefix(runtime.FuncForPC(caller).Name(), "github.com/fourdollars/concourse-ci-machine/")
	folder := path.Dir(name)
	pkg, _, _ := strings.Cut(path.Base(name), ".")
	remedy := fmt.Sprintf("if %s should change, run make update PKG=./%s", filepath.Base(file),
		path.Join(folder, strings.TrimSuffix(pkg, "_test")))
	want, err := os.ReadFile(file)
	require.NoError(t, err, remedy)
	require.Equal(t, string(want), got, remedy)
}

// NewServer returns the URL of a server that gives the same answer to each request.
func NewServer(t *testing.T, code int, body string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// Useradd answers useradd(8) for a Runner. It adds the last argument as a user to the
// root's /etc/passwd, with the id 999.
func Useradd(r host.Root) Handler {
	return func(c host.Command) (string, error) {
		file := r.Path("/etc/passwd")
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return "", err
		}
		f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return "", err
		}
		_, err = fmt.Fprintf(f, "%s:!:999:999::/nonexistent:/bin/false\n", c.Argv[len(c.Argv)-1])
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		return "", err
	}
}
