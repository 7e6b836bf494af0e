package charm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path"
	"strings"
	"syscall"

	jujuerrors "github.com/juju/errors"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/base/statefile"
	"concourse-ci-machine/internal/base/wellknown"
	"concourse-ci-machine/internal/charm/juju"
	"concourse-ci-machine/internal/charm/model"
	"concourse-ci-machine/internal/charm/role"
	"concourse-ci-machine/internal/charm/status"
)

// AttemptsFile counts how many times in a row the same step failed.
const AttemptsFile = model.StateDir + "/attempts.json"

// maxAttempts is the number of network failures after which the status asks the operator
// for help. Every hook still tries the step again.
const maxAttempts = 5

type attempts struct {
	Op    string `json:"op"`
	Count int    `json:"count"`
}

// temporary marks errors of this project that another try may fix.
type temporary interface{ Temporary() bool }

// failed classifies the error of a run. No other function does:
//
//   - errors for the operator and a full disk give a blocked status
//   - errors of the network and of apt give a waiting status with the number of attempts,
//     and after maxAttempts a blocked one
//   - all other errors end the hook, so that Juju runs it again
func (c *Charm) failed(ctx context.Context, want Desired, err error) error {
	var step *plan.StepError
	if !errors.As(err, &step) {
		return jujuerrors.Trace(err)
	}
	show := func(kind status.Kind, text string) error {
		return c.setStatus(ctx, status.Of("", append([]status.Cause{{Kind: kind, Text: text}}, want.Causes...)))
	}
	var w interface{ Waiting() string }
	if errors.As(err, &w) {
		return show(status.Waiting, w.Waiting())
	}
	var r role.Remediable
	if errors.As(err, &r) {
		return show(status.Blocked, r.Remedy())
	}
	// After remove no hook follows, so its hook must run again.
	if full := fullDisk(c.Host.Root, c.Event.Unit, step.Err); full != "" && !want.Remove {
		return show(status.Blocked, full)
	}
	if !transient(step.Err) {
		return jujuerrors.Annotatef(step.Err, "cannot %s", step.Op)
	}
	n, err := c.countFailure(step.Op)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("cannot %s (attempt %d): %s", step.Op, n, lastLine(step.Err))
	if n >= maxAttempts {
		return show(status.Blocked, text)
	}
	return show(status.Waiting, text+"; trying again")
}

// transient reports whether the network or the package manager is at fault.
func transient(err error) bool {
	var t temporary
	if errors.As(err, &t) && t.Temporary() {
		return true
	}
	// net.Error does not fit: all errors of system calls implement it, also a full disk.
	var op *net.OpError
	var at *url.Error
	if errors.As(err, &op) || errors.As(err, &at) {
		return true
	}
	var cmd *host.CommandError
	return errors.As(err, &cmd) && strings.HasPrefix(cmd.Argv[0], "apt-")
}

// lastLine returns the last line of err, cut to the length of a status.
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
	err = attemptsState.Write(c.Host.Root, a)
	return a.Count, jujuerrors.Annotate(err, "cannot note the failed attempt")
}

// attemptsState is disposable: the count starts again.
var attemptsState = statefile.File[attempts]{Path: AttemptsFile, Mode: 0o600, DirMode: 0o700, Disposable: true}

func (c *Charm) readAttempts() (attempts, error) {
	a, err := attemptsState.Read(c.Host.Root)
	return a, jujuerrors.Annotate(err, "cannot read the failed attempts")
}

func (c *Charm) forgetFailures() error {
	return jujuerrors.Annotate(attemptsState.Remove(c.Host.Root), "cannot forget the failed attempts")
}

// fullDisk returns the status for an error that a full disk caused, with the disk and the
// folder if they are known; "" for all other errors.
func fullDisk(r host.Root, unit string, err error) string {
	var cmd *host.CommandError
	reported := errors.As(err, &cmd) && strings.Contains(cmd.Stderr, syscallText(syscall.ENOSPC))
	if !reported && !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		return ""
	}
	file := ""
	var one *fs.PathError
	var two *os.LinkError
	if errors.As(err, &one) {
		file = one.Path
	} else if errors.As(err, &two) {
		file = two.New
	}
	if file == "" {
		return fmt.Sprintf("a disk is full (%s); free space there: %s", lastLine(err), wellknown.OnUnit(unit, "df -h"))
	}
	dir := path.Dir(r.Rel(file))
	return fmt.Sprintf("disk full: no space for %s on %s; free space there: %s", dir,
		cmp.Or(resource.DiskOf(r, dir), "its disk"), wellknown.OnUnit(unit, "df -h"))
}

// syscallText returns the text of e as the C library writes it, with a capital.
func syscallText(e syscall.Errno) string {
	text := e.Error()
	return strings.ToUpper(text[:1]) + text[1:]
}

// showFull sets the status for a disk that was full before the first step. It ends a hook
// without an error if a later hook reads the same data: then the status stays visible. Juju
// repeats all other hooks, because their data is in no later hook.
func (c *Charm) showFull(ctx context.Context, err error) error {
	text := fullDisk(c.Host.Root, c.Event.Unit, err)
	if text == "" {
		return err
	}
	if failed := c.setStatus(ctx, status.Of("", []status.Cause{{Kind: status.Blocked, Text: text}})); failed != nil {
		return errors.Join(err, failed)
	}
	repeats := model.Resyncs(c.Event.Name) && c.Event.Name != "upgrade-charm" || c.Event.Name == "update-status"
	if !repeats {
		return err
	}
	return c.Tools.Log(ctx, juju.Error, lastLine(err))
}
