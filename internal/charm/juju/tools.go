// Package juju is the interface to Juju: it parses the event that started the charm, and
// runs hook tools. Every tool is a command that runs through host.Runner, with JSON output
// if the tool supports it. The package has no state, decides nothing, and never puts
// content of relations or secrets on a command line.
//
// Output and errors of the tools are as in Juju 3.6.
package juju

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
)

const (
	toolDeadline     = time.Minute
	resourceDeadline = 5 * time.Minute // resource-get downloads from the controller
)

// Tools runs hook tools. It works only in a hook or an action.
type Tools struct{ run host.Runner }

// New returns the hook tools on the PATH of r.
func New(r host.Runner) *Tools { return &Tools{run: r} }

// ToolError reports a hook tool that failed.
type ToolError struct {
	Tool string
	Code int    // 1: refused, 2: invalid arguments, -1: did not run
	Text string // message of the tool without "ERROR"
	Err  error  // from the Runner
}

func (e *ToolError) Error() string { return fmt.Sprintf("cannot run %s: %s", e.Tool, e.Text) }

func (e *ToolError) Unwrap() error { return e.Err }

// ErrNotFound reports that a secret, a state key or a relation does not exist.
var ErrNotFound = errors.New("not found")

// ErrPermission reports that Juju refuses access. Every databag of a relation that was removed
// with --force is refused.
var ErrPermission = errors.New("permission denied")

// Is supports errors.Is with ErrNotFound and ErrPermission. Juju reports both only as text.
func (e *ToolError) Is(target error) bool {
	switch target {
	case ErrNotFound:
		return e.Code == 1 && strings.HasSuffix(e.Text, " not found")
	case ErrPermission:
		return e.Code == 1 && e.Text == ErrPermission.Error()
	}
	return false
}

// call has the parameters of one run. The zero value is for a tool that only reads.
type call struct {
	stdin    []byte
	deadline time.Duration
	changes  bool
}

func (t *Tools) exec(ctx context.Context, c call, argv ...string) ([]byte, error) {
	c.deadline = cmp.Or(c.deadline, toolDeadline)
	for i := range argv {
		argv[i] = strings.ReplaceAll(argv[i], "\x00", "") // execve ends an argument at a NUL
	}
	out, err := t.run.Run(ctx, host.Command{Argv: argv, Stdin: c.stdin, Deadline: c.deadline, ReadOnly: !c.changes})
	if err == nil {
		return out, nil
	}
	e := &ToolError{Tool: argv[0], Code: -1, Err: err, Text: err.Error()}
	if failed, ok := errors.AsType[*host.CommandError](err); ok {
		e.Code = failed.Code
		if text := strings.TrimSpace(strings.TrimPrefix(failed.Stderr, "ERROR")); text != "" && failed.Code > 0 {
			e.Text = text
		}
	}
	return nil, e
}

// read runs a tool and decodes its JSON output. Numbers of unknown type become json.Number.
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
		// The output is not quoted, because it may contain a secret.
		return fmt.Errorf("cannot read the output of %s: %w", tool, err)
	}
	return nil
}

// change runs a tool that changes something. Its output is ignored.
func (t *Tools) change(ctx context.Context, argv ...string) error {
	_, err := t.exec(ctx, call{changes: true}, argv...)
	return err
}

// Model is the unit's view of its model. Tools reads it from a Juju controller. A machine
// without Juju reads it from its own files.
type Model interface {
	Config(ctx context.Context) (map[string]any, error)
	IsLeader(ctx context.Context) (bool, error)
	ResourceGet(ctx context.Context, name string) (path string, err error)
	NetworkGet(ctx context.Context, binding string) (Network, error)

	RelationIDs(ctx context.Context, endpoint string) ([]string, error)
	RelationUnits(ctx context.Context, id string) ([]string, error)
	RelationRemoteApp(ctx context.Context, id string) (string, error)
	RelationGet(ctx context.Context, id, unit string) (map[string]string, error)
	RelationGetApp(ctx context.Context, id, app string) (map[string]string, error)
	RelationSet(ctx context.Context, id string, kv map[string]string) error
	RelationSetApp(ctx context.Context, id string, kv map[string]string) error

	SecretGet(ctx context.Context, id string) (map[string]string, error)
	SecretRefresh(ctx context.Context, id string) (map[string]string, error)
	SecretPeek(ctx context.Context, id string) (map[string]string, error)
	SecretAdd(ctx context.Context, s Secret) (id string, err error)
	SecretSet(ctx context.Context, id string, s Secret) error

	OpenPort(ctx context.Context, p Port) error
	ClosePort(ctx context.Context, p Port) error
	OpenedPorts(ctx context.Context) ([]Port, error)

	StatusSet(ctx context.Context, s Status, message string) error
	ApplicationVersionSet(ctx context.Context, version string) error
	Log(ctx context.Context, level Level, message string) error
	Reboot(ctx context.Context) error

	ActionGet(ctx context.Context) (map[string]any, error)
	ActionSet(ctx context.Context, results map[string]any) error
	ActionFail(ctx context.Context, message string) error
	ActionLog(ctx context.Context, message string) error
}

var _ Model = (*Tools)(nil)
