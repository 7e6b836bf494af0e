package top

import (
	"context"
	"io"
	"os"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
)

// Live shows the GPUs on a terminal. Its previous content returns at the end.
type Live struct {
	Screen *os.File
	Format term.Format
	Every  time.Duration // between two requests
}

// Fetch requests a report from the exporter. It has a deadline.
type Fetch func(context.Context) (api.Report, error)

const (
	alternate, normal = "\x1b[?1049h", "\x1b[?1049l"
	home, erase       = "\x1b[H", "\x1b[K"
	eraseBelow        = "\x1b[J"
)

// Run shows first, and then the exporter's further answers, until ctx is done.
func (l Live) Run(ctx context.Context, first api.Report, fetch Fetch) (err error) {
	if _, err := l.Screen.WriteString(alternate); err != nil {
		return err
	}
	defer func() {
		if _, e := l.Screen.WriteString(normal); err == nil {
			err = e
		}
	}()
	var v View
	f, at := Frame{Report: first}, time.Now()
	for tick := time.Tick(l.Every); ; {
		if err := l.draw(&v, f); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick:
		}
		switch r, err := fetch(ctx); {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			f.Late, f.Age = err.Error(), time.Since(at)
		default:
			f, at = Frame{Report: r}, time.Now()
		}
	}
}

// draw replaces the content of the screen. A line is erased before it is written: after a
// full line the cursor is on its last character, which would be erased. The last row stays
// empty for the cursor.
func (l Live) draw(v *View, f Frame) error {
	columns, rows := term.Size(l.Screen)
	if columns == 0 || rows == 0 {
		columns, rows = 80, 24
	}
	f.Width, f.Height = columns, max(rows-1, 1)
	text := home + erase + strings.Join(v.Lines(l.Format, f), "\n"+erase) + "\n" + eraseBelow
	_, err := io.WriteString(l.Screen, text)
	return err
}
