package charm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"strings"

	jujuerrors "github.com/juju/errors"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/charm/model"
	"concourse-ci-machine/internal/charm/role"
	"concourse-ci-machine/internal/charm/status"
)

// AttemptsFile counts how often in a row the same step failed.
const AttemptsFile = model.StateDir + "/attempts.json"

// maxAttempts is how often the network is given another chance before the
// operator is asked. The step is tried again at every hook all the same.
const maxAttempts = 5

type attempts struct {
	Op    string `json:"op"`
	Count int    `json:"count"`
}

// temporary is what errors of this project implement that another try may mend.
type temporary interface{ Temporary() bool }

// failed sorts the error that ended a run, once, here: the operator's errors
// and a full disk are a blocked status, those of network and apt a waiting one with the number
// of the attempt and in the end a blocked one, all others end the hook so that
// Juju runs it again.
func (c *Charm) failed(ctx context.Context, want Desired, err error) error {
	var step *plan.StepError
	if !errors.As(err, &step) {
		return jujuerrors.Trace(err)
	}
	var w interface{ Waiting() string }
	if errors.As(err, &w) {
		return c.setStatus(ctx, status.Of("", append([]status.Cause{{Kind: status.Waiting, Text: w.Waiting()}}, want.Causes...)))
	}
	var r role.Remediable
	if errors.As(err, &r) {
		return c.setStatus(ctx, status.Of("", append([]status.Cause{{Kind: status.Blocked, Text: r.Remedy()}}, want.Causes...)))
	}
	// What remove leaves behind stays, so that hook is run again.
	if full := fullDisk(c.Host.Root, c.Event.Unit, step.Err); full != "" && !want.Remove {
		return c.setStatus(ctx, status.Of("", append([]status.Cause{{Kind: status.Blocked, Text: full}}, want.Causes...)))
	}
	if !transient(step.Err) {
		return jujuerrors.Annotatef(step.Err, "cannot %s", step.Op)
	}
	n, aerr := c.countFailure(step.Op)
	if aerr != nil {
		return aerr
	}
	cause := status.Cause{Kind: status.Waiting, Text: fmt.Sprintf("cannot %s (attempt %d): %s; trying again", step.Op, n, lastLine(step.Err))}
	if n >= maxAttempts {
		cause = status.Cause{Kind: status.Blocked, Text: fmt.Sprintf("cannot %s (attempt %d): %s", step.Op, n, lastLine(step.Err))}
	}
	return c.setStatus(ctx, status.Of("", append([]status.Cause{cause}, want.Causes...)))
}

// transient reports whether the network or the package manager is at fault.
func transient(err error) bool {
	var t temporary
	if errors.As(err, &t) && t.Temporary() {
		return true
	}
	// Not net.Error: every error of a system call has its methods, a full disk too.
	var op *net.OpError
	var at *url.Error
	if errors.As(err, &op) || errors.As(err, &at) {
		return true
	}
	var cmd *host.CommandError
	return errors.As(err, &cmd) && strings.HasPrefix(cmd.Argv[0], "apt-")
}

// lastLine is what a status has room for.
func lastLine(err error) string {
	var cmd *host.CommandError
	if errors.As(err, &cmd) && cmd.LastLine() != "" {
		return cmd.LastLine()
	}
	text := strings.TrimSpace(err.Error())
	return text[strings.LastIndexByte(text, '\n')+1:]
}

func (c *Charm) countFailure(op string) (int, error) {
	a, err := c.readAttempts()
	if err != nil {
		return 0, err
	}
	if a.Op != op {
		a = attempts{Op: op}
	}
	a.Count++
	data, err := json.Marshal(a)
	if err == nil {
		err = model.MakeStateDir(c.Host.Root)
	}
	if err == nil {
		err = c.Host.WriteFile(AttemptsFile, append(data, '\n'), 0o600)
	}
	return a.Count, jujuerrors.Annotate(err, "cannot note the failed attempt")
}

func (c *Charm) readAttempts() (a attempts, err error) {
	data, err := c.Host.ReadFile(AttemptsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return a, nil
	}
	if err != nil {
		return a, jujuerrors.Annotate(err, "cannot read the failed attempts")
	}
	if json.Unmarshal(data, &a) != nil {
		return attempts{}, nil // a count is no reason to fail: it starts again
	}
	return a, nil
}

func (c *Charm) forgetFailures() error {
	return jujuerrors.Annotate(c.Host.Remove(AttemptsFile), "cannot forget the failed attempts")
}
