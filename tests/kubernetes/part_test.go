//go:build kubernetes

package kubernetes

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A part is a program of the node. It writes into a log, with an end that is shown if the
// test fails.
type part struct {
	name string
	argv []string
	c    *exec.Cmd
}

// parts are the node's, by their names.
var parts = map[string]*part{}

// shown is how much of a log, in bytes.
const shown = 12000

func newPart(t *testing.T, name string, argv ...string) *part {
	t.Helper()
	p := &part{name: name, argv: argv}
	parts[name] = p
	t.Cleanup(func() {
		p.stop(t, syscall.SIGTERM)
		if t.Failed() {
			log, _ := os.ReadFile(p.log())
			t.Logf("== %s\n%s", name, log[max(0, len(log)-shown):])
		}
	})
	p.start(t)
	return p
}

func (p *part) log() string { return filepath.Join(dir, p.name+".log") }

func (p *part) start(t *testing.T) {
	t.Helper()
	log, err := os.OpenFile(p.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	require.NoError(t, err)
	defer log.Close()
	p.c = exec.Command(p.argv[0], p.argv[1:]...)
	p.c.Stdout, p.c.Stderr, p.c.Dir = log, log, dir
	require.NoError(t, p.c.Start())
}

// stop ends it and waits for that; with a signal other than SIGKILL it may take its time.
func (p *part) stop(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if p.c == nil {
		return
	}
	if err := p.c.Process.Signal(signal); err != nil {
		t.Logf("%s has ended by itself", p.name)
	}
	kill := time.AfterFunc(20*time.Second, func() { _ = p.c.Process.Kill() }) // it may be missing already
	defer kill.Stop()
	_ = p.c.Wait() // how it ends is not a part of the test
	p.c = nil
}

// patience is longer than the minute for which a GPU stays leased after its pod ended
// before the plugin had read its name.
const patience = 2 * time.Minute

// eventually waits for what a part does, and reports what there was last.
func eventually(t *testing.T, what string, is func() (string, bool)) {
	t.Helper()
	last := ""
	for end := time.Now().Add(patience); time.Now().Before(end); <-time.After(100 * time.Millisecond) {
		ok := false
		if last, ok = is(); ok {
			return
		}
	}
	require.FailNow(t, "in vain: "+what, last)
}
