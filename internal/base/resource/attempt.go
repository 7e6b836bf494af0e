package resource

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"concourse-ci-machine/internal/base/host"
)

// Attempt is a try to install something that failed, as a file keeps it.
type Attempt struct {
	Time    time.Time `json:"time"`
	Attempt int       `json:"attempt"` // counted from 1, anew when the inputs change
	Error   string    `json:"error"`   // one line
	Inputs  string    `json:"inputs"`
	Busy    bool      `json:"busy,omitempty"` // another try costs little: another apt was at work, which passes soon
	// The repository, or the proxy to it, was not reached.
	Unreachable bool `json:"unreachable,omitempty"`

	What string `json:"-"` // what there is not for it, for texts: "<package> not installed"
}

const (
	attemptLimit = 16 << 10 // bytes
	// retryAfter keeps hooks, which come every few minutes, from waiting for
	// an unreachable repository each time.
	retryAfter = 30 * time.Minute
	errorLimit = 200 // bytes of a text for a status
)

// Text is the failure as a status has it.
func (a *Attempt) Text() string {
	return fmt.Sprintf("%s: %s (attempt %d)", a.What, a.Error, a.Attempt)
}

// Pausing reports whether it is too early for the next attempt. A time in the
// future comes from a clock that was set back, and stops nothing.
func (a *Attempt) Pausing(now time.Time) bool {
	since := now.Sub(a.Time)
	return !a.Busy && since >= 0 && since < retryAfter
}

// ReadAttempt returns the last attempt, which file keeps; nil
// where none failed since the last success. What can't be read is no reason not
// to try again.
func ReadAttempt(r host.Root, file, what string) *Attempt {
	f, err := os.Open(r.Path(file))
	if err != nil {
		return nil
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, attemptLimit))
	if err != nil {
		return nil
	}
	a := &Attempt{What: what}
	if json.Unmarshal(data, a) != nil || a.Attempt < 1 || a.Error == "" {
		return nil
	}
	a.Error = oneLine(a.Error)
	return a
}

func (a Attempt) write(r host.Root, file string) error {
	data, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		return err
	}
	if err := r.WriteFile(file, append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("cannot note the failed attempt: %w", err)
	}
	return nil
}

// attemptCause is the reason of a failure in the words of a status; vendor is
// whose key signs the repository.
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
	case errors.As(err, &network): // such as a certificate that is not trusted
		return oneLine("cannot use " + repository + ": " + network.Err.Error())
	case errors.As(err, &command):
		return oneLine(aptCause(command))
	}
	return oneLine(err.Error())
}

// unreached is what of the way to a repository did not answer: itself, the proxy for
// it, or "" where the failure is another one.
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
		for _, sign := range []string{"Could not resolve", "Could not connect", "Unable to connect", "Cannot initiate the connection",
			"Connection timed out", "Connection failed", "Temporary failure resolving", "Network is unreachable"} {
			if strings.Contains(line, sign) && strings.Contains(line, repository) {
				return true
			}
		}
	}
	return false
}

// aptCause finds the line that tells in what apt wrote. Its last one often
// only says that there was an error.
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

// dpkgCause is what dpkg says of the first package that it could not do: apt
// itself only says that dpkg failed.
func dpkgCause(stderr string) string {
	_, rest, found := strings.Cut(stderr, "dpkg: error processing ")
	_, rest, more := strings.Cut(rest, "\n")
	if !found || !more {
		return ""
	}
	text, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(text)
}

// oneLine cuts a text to what a status has room for.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > errorLimit {
		s = strings.ToValidUTF8(s[:errorLimit], "") + "..."
	}
	return s
}
