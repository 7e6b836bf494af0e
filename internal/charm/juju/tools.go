// Package juju is the charm's side of Juju: the event it was started for, and
// the hook tools with which it reads and changes its unit's part of the model.
// Every tool is a command run through host.Runner, asked for JSON where it can
// give it. It keeps nothing between calls, decides nothing, and never puts
// relation or secret content on a command line.
//
// What the tools print and refuse is that of Juju 3.6.
package juju

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"concourse-ci-machine/internal/base/host"
)

const (
	toolDeadline     = time.Minute
	resourceDeadline = 5 * time.Minute // resource-get downloads from the controller
)

// Tools calls hook tools. It works in a hook or action only.
type Tools struct{ run host.Runner }

// New returns the hook tools that r finds on its PATH.
func New(r host.Runner) *Tools { return &Tools{run: r} }

// ToolError is a hook tool that failed.
type ToolError struct {
	Tool string
	Code int    // 1: refused, 2: called wrongly, -1: did not run
	Text string // the tool's own words without "ERROR"
	Err  error  // from the Runner
}

func (e *ToolError) Error() string { return fmt.Sprintf("cannot run %s: %s", e.Tool, e.Text) }

func (e *ToolError) Unwrap() error { return e.Err }

// ErrNotFound is what a tool's refusal is when the thing it was asked for, a
// secret, state key or relation, does not exist.
var ErrNotFound = errors.New("not found")

// Is makes errors.Is(err, ErrNotFound) work: Juju has only words for it.
func (e *ToolError) Is(target error) bool {
	return target == ErrNotFound && e.Code == 1 && strings.HasSuffix(e.Text, " not found")
}

// call is one invocation. The zero value runs the tool as a reading one.
type call struct {
	stdin    []byte
	deadline time.Duration
	changes  bool
}

func (t *Tools) exec(ctx context.Context, c call, argv ...string) ([]byte, error) {
	if c.deadline == 0 {
		c.deadline = toolDeadline
	}
	for i := range argv {
		argv[i] = strings.ReplaceAll(argv[i], "\x00", "") // execve ends an argument there
	}
	out, err := t.run.Run(ctx, host.Command{Argv: argv, Stdin: c.stdin, Deadline: c.deadline, ReadOnly: !c.changes})
	if err == nil {
		return out, nil
	}
	e := &ToolError{Tool: argv[0], Code: -1, Err: err, Text: err.Error()}
	var failed *host.CommandError
	if errors.As(err, &failed) {
		e.Code = failed.Code
		if text := strings.TrimSpace(strings.TrimPrefix(failed.Stderr, "ERROR")); text != "" && failed.Code > 0 {
			e.Text = text
		}
	}
	return nil, e
}

// read runs a tool and decodes the JSON that it prints. Numbers of unknown
// type arrive as json.Number.
func (t *Tools) read(ctx context.Context, into any, argv ...string) error {
	out, err := t.exec(ctx, call{}, argv...)
	if err != nil {
		return err
	}
	return decode(argv[0], out, into)
}

func decode(tool string, out []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(out))
	d.UseNumber()
	if err := d.Decode(into); err != nil {
		// The output may be a secret: it is not quoted.
		return fmt.Errorf("cannot read the output of %s: %w", tool, err)
	}
	return nil
}

// change runs a tool that changes something and prints nothing of interest.
func (t *Tools) change(ctx context.Context, argv ...string) error {
	_, err := t.exec(ctx, call{changes: true}, argv...)
	return err
}
