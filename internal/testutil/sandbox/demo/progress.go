package demo

import (
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/fourdollars/concourse-ci-machine/internal/base/commandline"
)

// clearLine returns to the begin of a terminal's line and clears it.
const clearLine = "\r\x1b[K"

// work runs do and shows that it runs: what, the step that do reports, and the seconds. On a
// terminal one line changes each second. Otherwise a line marks the begin and one the end.
func (s *screen) work(what string, do func(report func(step string)) error) error {
	begin := time.Now()
	if !s.terminal {
		s.item("now", "%s", what)
		err := do(func(string) {})
		if err == nil {
			s.mark(passed, "%s", seconds(begin))
		}
		return err
	}
	var mu sync.Mutex
	step := ""
	show := func() {
		mu.Lock()
		defer mu.Unlock()
		s.live(what, step, seconds(begin))
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for t := time.NewTicker(time.Second); ; {
			select {
			case <-stop:
				t.Stop()
				return
			case <-t.C:
				show()
			}
		}
	}()
	show()
	err := do(func(text string) {
		mu.Lock()
		defer mu.Unlock()
		step = text
	})
	close(stop)
	<-stopped
	s.raw(clearLine)
	if err == nil {
		s.mark(passed, "%s (%s)", what, seconds(begin))
	}
	return err
}

// live replaces the last line. A long step is cut, so that the seconds are always visible.
func (s *screen) live(what, step, took string) {
	text := what
	if step != "" {
		text += ": " + strings.Join(strings.Fields(step), " ")
	}
	room := s.width - leftWidth - len("... ()") - len(took) - 1
	if utf8.RuneCountInString(text) > room {
		text = string([]rune(text)[:room]) + "..."
	}
	s.raw(fmt.Sprintf("%s  %-*s%s (%s)", clearLine, leftWidth-2, "now", text, took))
}

// raw writes text without a newline.
func (s *screen) raw(text string) {
	if s.err != nil {
		return
	}
	if _, s.err = fmt.Fprint(s.out, text); s.err != nil {
		s.broken(s.err)
	}
}

// seconds returns the time since begin for people.
func seconds(begin time.Time) string { return fmt.Sprintf("%.0f s", time.Since(begin).Seconds()) }

// outputMargin is the margin of a command's output. It leaves room for lines of 76 characters.
const outputMargin = 4

// output prints the output of a command. Lines that fit keep their columns.
func (s *screen) output(text string) {
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \n")
		indent := strings.Repeat(" ", outputMargin+len(line)-len(strings.TrimLeft(line, " ")))
		if utf8.RuneCountInString(line) <= s.width-outputMargin {
			s.line(strings.TrimRight(strings.Repeat(" ", outputMargin)+line, " "))
			continue
		}
		for _, part := range commandline.Wrap(line, s.width-len(indent)) {
			s.line(indent + part)
		}
	}
}
