//go:build e2e

package journeys

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"concourse-ci-machine/internal/testutil/guest"
	"concourse-ci-machine/tests/suite"
)

// walk holds the state of a person on the way through the pages.
type walk struct {
	*machine
	release bool   // a real Concourse is there
	folder  string // in which the next command runs
	journey
	skipped map[string]int // commands by reason
	ran     int
}

// TestPagesAreWalked runs the commands of the route's pages, each on the machine that the
// page before left.
func TestPagesAreWalked(t *testing.T) {
	suite.Need(t, missing())
	w := &walk{machine: newMachine(t), release: os.Getenv(suite.ReleaseEnv) != "", folder: "/home/me",
		skipped: map[string]int{}}
	for _, j := range route {
		t.Run(j.page, func(t *testing.T) { w.page(t, j) })
	}
	t.Logf("%d commands run", w.ran)
	for reason, n := range w.skipped {
		t.Logf("%4d not run: %s", n, reason)
	}
}

// page runs the commands of a page in their order.
func (w *walk) page(t *testing.T, j journey) {
	p := readPage(t, j.page)
	begin, ran, last, printed := time.Now(), w.ran, "", false
	w.journey = j
	w.prepare("")
	section := ""
	for _, b := range p.blocks {
		if b.section != section {
			section, printed = b.section, false // an output belongs to commands of its section
			w.prepare(section)
		}
		switch {
		case b.savedAs != "":
			w.must(fmt.Sprintf("install -D -m %s /dev/stdin %s <<'EOF'\n%sEOF", mode(b.text), b.savedAs, b.text))
		case b.kind == output && b.notCompared == "" && printed && (w.release || len(j.tasks) == 0):
			if d := difference(b.text, last); d != "" {
				assert.Fail(t, "the page shows what no command printed", "%s:%d: %s\nthe output:\n%s", p.name, b.line, d, last)
			}
		case b.kind == shell:
			before := w.ran
			last = w.block(t, p, b)
			printed = w.ran > before
		}
	}
	t.Logf("%s: %d commands run, %.0f s", p.name, w.ran-ran, time.Since(begin).Seconds())
}

// prepare runs the script for a section or a command, if there is one.
func (w *walk) prepare(of string) {
	if script := w.journey.prepare[of]; script != "" {
		w.must("set -e\n" + strings.ReplaceAll(script, "BUILT", built))
	}
}

// mode returns the mode of a file.
func mode(text string) string {
	if strings.HasPrefix(text, "#!") {
		return "755"
	}
	return "644"
}

// block runs the commands of a block, and returns their output.
func (w *walk) block(t *testing.T, p page, b block) string {
	all := ""
	for _, command := range b.commands() {
		reason := p.exception(b, command)
		if reason == "" && !w.release && w.needsRelease(command) {
			reason = suite.NoRelease
		}
		if reason != "" {
			w.skipped[reason]++
			continue
		}
		w.prepare(command)
		out, err := w.person(command)
		t.Logf("$ %s\n%s", command, out)
		assert.NoError(t, err, "%s:%d: %s\n%s", p.name, b.line, command, out)
		all += out
		w.ran++
	}
	return all
}

// needsRelease reports whether a command needs fly or a task, which a real release alone has.
func (w *walk) needsRelease(command string) bool {
	return strings.Contains(command, "fly ") ||
		slices.ContainsFunc(w.tasks, func(beginning string) bool { return strings.HasPrefix(command, beginning) })
}

// person runs a command of a page as the user me.
func (w *walk) person(command string) (string, error) {
	for example, value := range w.values {
		command = strings.ReplaceAll(command, example, value)
	}
	if strings.Contains(command, " login --concourse-url ") {
		return w.logIn(command)
	}
	out, err := w.as(command + "\nstatus=$?; pwd >/tmp/folder; exit $status")
	w.folder = w.must("cat /tmp/folder")
	return out, err
}

// as runs a script of bash as the user me.
func (w *walk) as(script string) (string, error) {
	argv := w.Enter([]string{"PATH=" + guest.Path}, "runuser", "-l", "me", "-c", "cd "+w.folder+"\n"+script)
	c := exec.Command(argv[0], argv[1:]...)
	c.Stdin = consent{}
	out, err := c.CombinedOutput()
	return strings.ReplaceAll(string(out), "\r", ""), err
}

// consent answers each question with y.
type consent struct{}

func (consent) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = "y\n"[i%2]
	}
	return len(p) &^ 1, nil
}
