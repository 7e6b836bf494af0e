package juju

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
)

// Status names a workload status that Juju accepts from a charm.
type Status string

const (
	Maintenance Status = "maintenance"
	Blocked     Status = "blocked"
	Waiting     Status = "waiting"
	Active      Status = "active"
)

// Level names a log level of Juju.
type Level string

const (
	Debug   Level = "DEBUG"
	Info    Level = "INFO"
	Warning Level = "WARNING"
	Error   Level = "ERROR"
)

// maxArg bounds the length of one argument. Linux allows 128 KiB (MAX_ARG_STRLEN,
// execve(2)), and people read Juju's log.
const maxArg = 32 << 10

// StatusSet shows a status at once, also if the hook fails later. A long message, such as a
// step, is cut.
func (t *Tools) StatusSet(ctx context.Context, s Status, message string) error {
	return t.change(ctx, "status-set", "--", string(s), status.Cut(message, status.Limit))
}

// ApplicationVersionSet shows the workload's version in `juju status`, at once. It must be
// one line.
func (t *Tools) ApplicationVersionSet(ctx context.Context, version string) error {
	return t.change(ctx, "application-version-set", "--", version)
}

// Log writes to Juju's log. A long message is split, at line ends if possible, and never
// inside a character.
func (t *Tools) Log(ctx context.Context, level Level, message string) error {
	for rest := strings.TrimRight(message, "\n"); rest != ""; {
		var head string
		head, rest = cut(rest, maxArg)
		if rest != "" {
			if i := strings.LastIndexByte(head, '\n'); i > 0 {
				head, rest = head[:i], head[i+1:]+rest
			}
		}
		if err := t.change(ctx, "juju-log", "--log-level", string(level), "--", head); err != nil {
			return err
		}
	}
	return nil
}

// cut splits s after at most n bytes, at the border of a character.
func cut(s string, n int) (head, rest string) {
	if len(s) <= n {
		return s, ""
	}
	for n > 1 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n], s[n:]
}
