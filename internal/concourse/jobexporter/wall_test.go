package jobexporter

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/atctest"
)

// board plays Concourse's wall: GET for all, PUT and DELETE for an administrator.
type board struct {
	mu      sync.Mutex
	text    string
	expires time.Time // zero: never
	now     func() time.Time
	wrote   int
	when    string // "before" or "after" a change
	do      func()
}

// at runs a function around changes.
func (b *board) at(when string, do func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.when, b.do = when, do
}

func (b *board) reached(when string) {
	b.mu.Lock()
	do := b.do
	here := b.when == when
	b.mu.Unlock()
	if here && do != nil {
		do()
	}
}

func (b *board) set(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text, b.expires = text, time.Time{}
}

func (b *board) shows() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.expires.IsZero() && !b.now().Before(b.expires) {
		b.text, b.expires = "", time.Time{}
	}
	return b.text
}

func (b *board) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text := b.shows()
	if r.Method == http.MethodGet {
		answer := wall{Message: text}
		b.mu.Lock()
		if !b.expires.IsZero() {
			answer.TTL = b.expires.Sub(b.now())
		}
		b.mu.Unlock()
		json.NewEncoder(w).Encode(answer)
		return
	}
	if !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ") {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	var put wall
	if r.Method == http.MethodPut {
		if json.NewDecoder(r.Body).Decode(&put) != nil || put.Message == "" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
	}
	b.reached("before")
	b.mu.Lock()
	b.wrote++
	b.text, b.expires = put.Message, time.Time{}
	if put.TTL > 0 {
		b.expires = b.now().Add(put.TTL)
	}
	b.mu.Unlock()
	b.reached("after")
}

// walled is a bed with a wall.
type walled struct {
	*bed
	board *board
	want  string
	known bool
}

func newWalled(t *testing.T) *walled {
	t.Helper()
	w := &walled{bed: newBed(t), known: true}
	w.board = &board{now: func() time.Time { return w.now }}
	w.web.Set(func(s *atctest.Server) { s.Handle[wallPath] = w.board.ServeHTTP })
	w.o.StateFolder, w.o.WallLife = t.TempDir(), 10*time.Minute
	w.o.Wall = func() (string, bool) { return w.want, w.known }
	return w
}

// restart forgets everything except the files.
func (w *walled) restart() { w.Poller = NewPoller(w.o) }

// state polls and returns the code and text of /-/wall.
func (w *walled) state(t *testing.T) (int, string) {
	t.Helper()
	require.NoError(t, w.poll(t), "the wall must not affect the metrics")
	r := httptest.NewRecorder()
	Handler(w.Poller, false).ServeHTTP(r, httptest.NewRequest("GET", "/-/wall", nil))
	return r.Code, r.Body.String()
}

func TestWallShowsTheTextUntilItIsOver(t *testing.T) {
	w := newWalled(t)
	w.state(t)
	asked, _ := w.web.Seen()
	require.NotContains(t, strings.Join(asked, "\n"), wallPath, "without a text there is nothing to ask")

	w.want = "1 of 4 GPUs quarantined"
	code, text := w.state(t)
	require.Equal(t, 200, code)
	require.Equal(t, "Concourse's wall has: 1 of 4 GPUs quarantined.\n", text)
	require.Equal(t, w.want, w.board.shows())
	w.state(t)
	require.Equal(t, 1, w.board.wrote, "an unchanged text is not written again")
	info, err := os.Stat(filepath.Join(w.o.StateFolder, "wall.json"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())

	w.now = w.now.Add(6 * time.Minute)
	w.restart()
	w.state(t)
	require.Equal(t, 2, w.board.wrote, "a text is renewed before it expires")
	w.want = "2 of 4 GPUs quarantined"
	w.state(t)
	require.Equal(t, w.want, w.board.shows())
	w.want, w.known = "", false
	w.state(t)
	require.NotEmpty(t, w.board.shows(), "unknown GPUs change nothing")
	w.known = true
	code, text = w.state(t)
	require.Empty(t, w.board.shows())
	require.Equal(t, []any{200, "Concourse's wall has no text about GPUs.\n"}, []any{code, text})

	w.want = "3 of 4 GPUs quarantined"
	w.state(t)
	w.now = w.now.Add(w.o.WallLife)
	require.Empty(t, w.board.shows(), "the text of a program that has ended expires")
}

func TestTextOfAnotherAuthorStaysOnTheWall(t *testing.T) {
	const other = "Maintenance\ton Friday"
	stays := func(t *testing.T, w *walled) {
		t.Helper()
		code, text := w.state(t)
		require.Equal(t, 503, code)
		require.Equal(t, "another text is on Concourse's wall and stays: Maintenance?on Friday; remove it: fly clear-wall.\n", text)
		require.Equal(t, other, w.board.shows())
	}
	t.Run("was first", func(t *testing.T) {
		w := newWalled(t)
		w.board.set(other)
		w.want = "1 GPU"
		stays(t, w)
		w.state(t)
		require.Equal(t, 1, strings.Count(w.logs.String(), "Maintenance"), "one line in the log")
		w.want = ""
		w.state(t)
		require.Equal(t, other, w.board.shows())
		w.want = "2 GPUs"
		w.board.set("")
		w.state(t)
		require.Equal(t, "2 GPUs", w.board.shows(), "the wall is free again")
	})
	t.Run("replaced ours", func(t *testing.T) {
		w := newWalled(t)
		w.want = "1 GPU"
		w.state(t)
		w.board.set(other)
		stays(t, w)
		w.restart()
		stays(t, w)
		w.want = ""
		code, _ := w.state(t)
		require.Equal(t, 200, code)
		require.Equal(t, other, w.board.shows())
	})
	t.Run("the record is damaged", func(t *testing.T) {
		w := newWalled(t)
		w.want = "1 GPU"
		w.state(t)
		require.NoError(t, os.WriteFile(filepath.Join(w.o.StateFolder, "wall.json"), []byte("{"), 0o600))
		w.want = "2 GPUs"
		code, _ := w.state(t)
		require.Equal(t, 503, code)
		require.Equal(t, "1 GPU", w.board.shows())
		w.now = w.now.Add(w.o.WallLife)
		w.state(t)
		require.Equal(t, "2 GPUs", w.board.shows())
	})
	t.Run("another web of this Concourse has the same text", func(t *testing.T) {
		w := newWalled(t)
		w.want = "1 GPU"
		w.board.set("1 GPU")
		code, _ := w.state(t)
		require.Equal(t, 200, code)
		w.want = ""
		w.state(t)
		require.Equal(t, "1 GPU", w.board.shows())
	})
}

func TestWallNamesWhyTheTextIsMissing(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*walled)
		want   string
	}{
		"not an administrator": {func(w *walled) {
			w.web.Set(func(s *atctest.Server) {
				s.Handle[wallPath] = func(out http.ResponseWriter, r *http.Request) {
					if r.Method != "GET" {
						out.WriteHeader(http.StatusForbidden)
						return
					}
					io.WriteString(out, "{}")
				}
			})
		}, "cannot change Concourse's wall: Concourse refuses the request; see the exporter's log.\n"},
		"no JSON": {func(w *walled) {
			w.web.Set(func(s *atctest.Server) {
				s.Handle[wallPath] = func(out http.ResponseWriter, _ *http.Request) { io.WriteString(out, "<html>") }
			})
		}, "cannot change Concourse's wall: Concourse's answer cannot be read; see the exporter's log.\n"},
		"no folder": {func(w *walled) { w.o.StateFolder = "" }, "cannot write on Concourse's wall: --state.folder is missing.\n"},
		"a record of a later version": {func(w *walled) {
			os.WriteFile(filepath.Join(w.o.StateFolder, "wall.json"), []byte(`{"format_version":9}`), 0o600)
		}, ""},
		"a folder that cannot be written": {func(w *walled) { w.o.StateFolder = "/proc/self/none" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWalled(t)
			w.want = "1 GPU"
			tc.change(w)
			w.restart()
			code, text := w.state(t)
			require.Equal(t, 503, code)
			if tc.want != "" {
				require.Equal(t, tc.want, text)
			}
			require.Empty(t, w.board.shows())
		})
	}
}

// A connection that ends before or after a change is a program that was killed there.
func TestKilledProgramFindsItsOwnText(t *testing.T) {
	kill := func() { panic(http.ErrAbortHandler) }
	for _, at := range []string{"before", "after"} {
		for _, wants := range [][]string{{"", "1 GPU"}, {"1 GPU", "2 GPUs"}, {"1 GPU", ""}} {
			t.Run(fmt.Sprintf("%s %q", at, wants), func(t *testing.T) {
				w := newWalled(t)
				w.want = wants[0]
				w.state(t)
				w.want = wants[1]
				w.board.at(at, kill)
				code, _ := w.state(t)
				require.Equal(t, 503, code)
				w.board.at("", nil)
				for _, next := range []string{"3 GPUs", ""} {
					w.want = next
					w.restart()
					code, _ = w.state(t)
					require.Equal(t, 200, code)
					require.Equal(t, next, w.board.shows())
				}
			})
		}
	}
}

// The real program with a worker that has a quarantined GPU, ended by SIGKILL while its
// request is at the wall.
func TestBinaryKilledAtTheWallReplacesAndRemovesItsText(t *testing.T) {
	bin := buildProgram(t)
	b, folder := newBed(t), t.TempDir()
	wall := &board{now: time.Now}
	b.web.Set(func(s *atctest.Server) { s.Site(); s.Handle[wallPath] = wall.ServeHTTP })
	worker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"gpus":[{"index":0,"pci_bus_id":"0000:03:00.0","health":{"state":"critical","reason":"hangs"},
			"service":{"state":"quarantined","since":"2026-01-01T00:00:00Z","why":"hangs or is in reset (kernel_log)","by":"health"}}]}`)
	}))
	t.Cleanup(worker.Close)
	list := filepath.Join(t.TempDir(), "fleet.json")
	write := func(on bool) {
		put(t, list, fmt.Appendf(nil, `{"workers":[{"unit":"gpu/0","url":%q,"count":1}],"page":"http://10.0.0.10:9358/","wall":%t}`, worker.URL, on))
	}
	begin := func() process {
		return start(t, bin, b.file, nil, "--fleet.file="+list, "--state.folder="+folder, "--poll.interval=5s", "--poll.timeout=5s")
	}
	until := func(done func() bool) { t.Helper(); require.Eventually(t, done, stuck, 50*time.Millisecond) }
	for _, at := range []string{"before", "after"} {
		write(true)
		began := make(chan process)
		wall.at(at, sync.OnceFunc(func() { p := <-began; p.cmd.Process.Kill(); panic(http.ErrAbortHandler) }))
		p := begin()
		began <- p
		p.cmd.Wait()
		wall.at("", nil)

		p = begin()
		until(func() bool {
			return wall.shows() == "1 of 1 GPU quarantined: hangs or is in reset; see http://10.0.0.10:9358/"
		})
		require.NoError(t, p.cmd.Process.Kill())
		p.cmd.Wait()
		write(false)
		p = begin()
		until(func() bool { return wall.shows() == "" })
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
		require.NoError(t, p.cmd.Wait())
	}
}
