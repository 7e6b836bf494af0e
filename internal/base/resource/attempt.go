package resource

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/statefile"
)

// Attempt records a failed installation attempt, as stored in a file.
type Attempt struct {
	Time    time.Time `json:"time"`
	Attempt int       `json:"attempt"` // counted from 1, and again from 1 when the inputs change
	Error   string    `json:"error"`   // one line
	Inputs  string    `json:"inputs"`
	Busy    bool      `json:"busy,omitempty"` // another apt was running; another try is cheap
	// Unreachable means that the repository or its proxy did not answer.
	Unreachable bool `json:"unreachable,omitempty"`

	What string `json:"-"` // the missing thing, for texts: "<package> not installed"
}

const (
	// retryAfter prevents hooks, which run every few minutes, from waiting each time for an
	// unreachable repository.
	retryAfter = 30 * time.Minute
	errorLimit = 200 // bytes of a text for a status
)

// Text returns the failure for a status.
func (a *Attempt) Text() string {
	return fmt.Sprintf("%s: %s (attempt %d)", a.What, a.Error, a.Attempt)
}

// Pausing reports whether it is too early for the next attempt. A time in the future comes
// from a clock that was set back, and is ignored.
func (a *Attempt) Pausing(now time.Time) bool {
	since := now.Sub(a.Time)
	return !a.Busy && since >= 0 && since < retryAfter
}

// ReadAttempt returns the failed attempt stored in file, or nil after a success. An
// unreadable file does not prevent a new try.
func ReadAttempt(r host.Root, file, what string) *Attempt {
	a, err := attemptFile(file).Read(r)
	if err != nil || a.Attempt < 1 || a.Error == "" {
		return nil
	}
	a.What, a.Error = what, oneLine(a.Error)
	return &a
}

func attemptFile(path string) statefile.File[Attempt] {
	return statefile.File[Attempt]{Path: path, Mode: 0o600, Disposable: true}
}

func (a Attempt) write(r host.Root, file string) error {
	if err := attemptFile(file).Write(r, a); err != nil {
		return fmt.Errorf("cannot record the failed attempt: %w", err)
	}
	return nil
}

// attemptCause returns the reason of a failure for a status. vendor is the owner of the
// repository's signing key.
func attemptCause(err error, repository, vendor string) string {
	var (
		network *url.Error
		refused *httpError
		key     *keyError
		command *host.CommandError
	)
	switch away := unreached(err, repository); {
	case aptBusy(err):
		return "another apt or dpkg is at work"
	case errors.As(err, &refused):
		return fmt.Sprintf("%s answered %d for %s", repository, refused.Code, refused.URL)
	case errors.As(err, &key):
		return oneLine("the signing key of " + repository + " is not " + vendor + "'s: " + key.Reason)
	case away != "":
		return "cannot reach " + away
	case errors.As(err, &network): // such as an untrusted certificate
		return oneLine("cannot use " + repository + ": " + network.Err.Error())
	case errors.As(err, &command):
		return oneLine(aptCause(command))
	}
	return oneLine(err.Error())
}

// unreached returns the part that did not answer: the repository or its proxy. It returns
// "" for other failures.
func unreached(err error, repository string) string {
	var (
		network *url.Error
		op      *net.OpError
		command *host.CommandError
	)
	switch {
	case errors.As(err, &op) && op.Op == "proxyconnect":
		return "the proxy for " + repository
	case errors.As(err, &op), errors.As(err, &network) && network.Timeout(),
		errors.As(err, &command) && command.Timeout == 0 && aptReachedNot(command.Stderr, repository):
		return repository
	}
	return ""
}

func aptReachedNot(stderr, repository string) bool {
	for line := range strings.Lines(stderr) {
		for _, sign := range []string{"Could not resolve", "Could not connect", "Unable to connect",
			"Cannot initiate the connection",
			"Connection timed out", "Connection failed", "Temporary failure resolving", "Network is unreachable"} {
			if strings.Contains(line, sign) && strings.Contains(line, repository) {
				return true
			}
		}
	}
	return false
}

// aptCause returns the meaningful line of apt's output. Its last line often reports only
// that an error occurred.
func aptCause(e *host.CommandError) string {
	if e.Timeout > 0 {
		return fmt.Sprintf("%s gave up after %s", e.Argv[0], e.Timeout)
	}
	if text := dpkgCause(e.Stderr); text != "" {
		return text
	}
	for line := range strings.Lines(e.Stderr) {
		text, ok := strings.CutPrefix(line, "E: ")
		switch {
		case strings.HasPrefix(text, "Held packages were changed"):
			name, _, _ := strings.Cut(e.Argv[len(e.Argv)-1], "=")
			return "it is on hold; on the unit run: sudo apt-mark unhold " + name
		case ok:
			return text
		}
	}
	if last := e.LastLine(); last != "" {
		return last
	}
	return e.Error()
}

// dpkgCause returns dpkg's error for the first package that failed. apt itself reports only
// that dpkg failed.
func dpkgCause(stderr string) string {
	_, rest, found := strings.Cut(stderr, "dpkg: error processing ")
	_, rest, more := strings.Cut(rest, "\n")
	if !found || !more {
		return ""
	}
	text, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(text)
}

// oneLine cuts a text to the length for a status.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > errorLimit {
		s = strings.ToValidUTF8(s[:errorLimit], "") + "..."
	}
	return s
}

// ErrSkipped is the error of a step that did not run, because a required step failed and
// was tolerated. It needs no separate warning.
var ErrSkipped = errors.New("not tried")

// RecordedError marks a failure with its own file, which has more details than a warning.
type RecordedError struct{ Err error }

func (e *RecordedError) Error() string { return e.Err.Error() }

// Unwrap implements the interface of errors.Is and errors.As.
func (e *RecordedError) Unwrap() error { return e.Err }

// Chain runs a list of resources that each need the ones before: a key, a source, a package.
// A failure is recorded with its number for the next hook, and the remaining resources are
// skipped.
type Chain struct {
	Links    []plan.Resource
	Tolerate bool
	File     string // record of a failed attempt
	Done     string // reason to remove the record: "<package> is installed"
	Host     string // of the repository, for texts
	Vendor   string // owner of the repository's signing key, for texts
	Next     Attempt
	// Soon reports failures that the next hook may try again, in addition to a busy apt.
	// nil reports none.
	Soon func(error) bool
}

// Diff implements plan.Resource.
func (c Chain) Diff(ctx context.Context, h host.Host) (plan.Plan, error) {
	p, err := plan.Diff(ctx, h, c.Links...)
	if err != nil {
		return nil, err
	}
	if len(p) == 0 {
		if !h.Exists(c.File) {
			return nil, nil
		}
		return plan.Plan{{Op: "remove " + c.File, Why: c.Done,
			Do: func(context.Context) error { return h.Remove(c.File) }}}, nil
	}
	var failed error
	for i := range p {
		do, last := p[i].Do, i == len(p)-1
		p[i].Tolerate = c.Tolerate
		p[i].Do = func(ctx context.Context) error {
			if failed != nil {
				return fmt.Errorf("%w: %w", ErrSkipped, failed)
			}
			err := do(ctx)
			switch {
			case err != nil && ctx.Err() == nil:
				failed = err
				a := c.Next
				a.Time, a.Error = h.Now().UTC(), attemptCause(err, c.Host, c.Vendor)
				a.Busy = aptBusy(err) || c.Soon != nil && c.Soon(err)
				a.Unreachable = !a.Busy && unreached(err, c.Host) != ""
				if recorded := a.write(h.Root, c.File); recorded != nil {
					return errors.Join(err, recorded)
				}
				return &RecordedError{err}
			case err == nil && last:
				return h.Remove(c.File)
			}
			failed = err
			return err
		}
	}
	return p, nil
}
