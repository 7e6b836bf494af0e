package top

import (
	"context"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
)

// Live shows the GPUs until the person quits.
type Live struct {
	Screen *Screen
	Format term.Format
	Every  time.Duration // between two requests
}

// Fetch requests a report from the exporter.
type Fetch func(context.Context) (api.Report, error)

// answer holds the result of a request.
type answer struct {
	report api.Report
	err    error
}

// Run shows first, and then the exporter's further answers, until ctx is done, a key quits
// or the terminal is closed. A request that does not end never delays a key: the age of the
// shown values is displayed instead.
func (l Live) Run(ctx context.Context, first api.Report, fetch Fetch) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, unix.SIGWINCH, unix.SIGCONT)
	defer signal.Stop(signals)
	if err := l.Screen.enter(); err != nil {
		return err
	}
	defer func() {
		if e := l.Screen.restore(); err == nil {
			err = e
		}
	}()
	var keys chan key // nil without keys
	if l.Screen.in != nil {
		keys = make(chan key)
		go l.Screen.readKeys(keys)
	}
	tick := time.Tick(l.Every)
	answers, pending := make(chan answer, 1), false
	v := View{}
	last := answer{report: first}
	shown := shownReport{first, time.Now()}
	newest := shown
	for {
		if !v.frozen {
			shown = newest
		}
		if err := l.draw(&v, shown, last.err); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case s := <-signals:
			if s == unix.SIGCONT { // the shell may have changed the terminal
				if err := l.Screen.enter(); err != nil {
					return err
				}
			}
		case k, open := <-keys:
			if !open || v.Press(k) {
				return nil
			}
			if k == keySuspend {
				if err := l.Screen.suspend(); err != nil {
					return err
				}
			}
		case last = <-answers:
			if pending = false; last.err == nil {
				newest = shownReport{last.report, time.Now()}
			}
		case <-tick:
			if !pending {
				pending = true
				go func() {
					r, err := fetch(ctx)
					answers <- answer{r, err}
				}()
			}
		}
	}
}

// shownReport holds a report and the time of its arrival.
type shownReport struct {
	report api.Report
	at     time.Time
}

func (l Live) draw(v *View, r shownReport, failed error) error {
	f := Frame{Report: r.report, Age: time.Since(r.at), NoKeys: l.Screen.in == nil}
	f.Width, f.Height = l.Screen.size()
	switch {
	case v.frozen:
	case failed != nil:
		f.Late = failed.Error()
	case f.Age > lateAfter*l.Every:
		f.Late = "the exporter has not answered yet"
	}
	lines := v.Lines(l.Format, f)
	return l.Screen.draw(lines[:min(len(lines), f.Height)])
}

// lateAfter counts the intervals after which values are no longer live.
const lateAfter = 2
