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

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/guest"
	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

// walk holds the state of a person on the way through the pages.
type walk struct {
	*machine
	release bool   // a real Concourse is there
	folder  string // in which the next command runs
	journey
	done, all counts // of the page, and of all pages
}

// TestPagesAreWalked runs the commands of the route's pages, each on the machine that the
// page before left.
func TestPagesAreWalked(t *testing.T) {
	suite.Need(t, missing())
	w := &walk{machine: newMachine(t), release: os.Getenv(suite.ReleaseEnv) != "", folder: "/home/me", all: newCounts()}
	for _, j := range route {
		t.Run(strings.TrimSpace(j.page+" "+j.from), func(t *testing.T) { w.page(t, j) })
	}
	t.Log(w.all.line("all pages"))
	for reason, n := range w.all.reasons {
		t.Logf("%4d not run: %s", n, reason)
	}
}

// page runs the commands of a page in their order.
func (w *walk) page(t *testing.T, j journey) {
	p := j.part(readPage(t, j.page))
	begin, last, printed := time.Now(), "", false
	w.done = newCounts()
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
			before := w.done.run
			last = w.block(t, p, b)
			printed = w.done.run > before
		}
	}
	t.Logf("%s, %.0f s", w.done.line(p.name), time.Since(begin).Seconds())
	w.all.add(w.done)
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
			w.done.reasons[reason]++
			continue
		}
		w.prepare(command)
		out, err := w.person(command)
		t.Logf("$ %s\n%s", command, out)
		assert.NoError(t, err, "%s:%d: %s\n%s", p.name, b.line, command, out)
		all += out
		w.done.run++
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
	if strings.Contains(command, "fly --target ci set-pipeline ") {
		return w.as(fmt.Sprintf(answer, command))
	}
	for beginning, check := range w.serves {
		if strings.HasPrefix(command, beginning) {
			return w.as(fmt.Sprintf(serve, command, check))
		}
	}
	out, err := w.as(command + "\nstatus=$?; pwd >/tmp/folder; exit $status")
	w.folder = w.must("cat /tmp/folder")
	return out, err
}

// serve runs a command until a client's check of what it serves succeeds.
const serve = `%s &
server=$!
trap 'kill $server' EXIT
for try in {1..600}; do
	kill -0 $server || exit 1
	if %s; then exit 0; fi
	sleep 0.2
done
exit 1`

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
