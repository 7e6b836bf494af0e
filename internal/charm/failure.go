package charm

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path"
	"reflect"
	"strings"
	"syscall"

	jujuerrors "github.com/juju/errors"
	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/statefile"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/juju"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
)

// LastRunFile has the results of the last run that no other run can observe. It is missing
// if there are none.
const LastRunFile = wellknown.StateDir + "/attempts.json"

// maxAttempts is the number of network failures after which the status asks the operator
// for help. Every hook still tries the step again.
const maxAttempts = 5

// runRecord holds the content of LastRunFile.
type runRecord struct {
	Op     string         `json:"op,omitempty"`    // the failed step
	Count  int            `json:"count,omitempty"` // its failures in a row
	Causes []status.Cause `json:"causes,omitempty"`
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
	show := func(cause status.Cause) error {
		return c.show(ctx, nil, append([]status.Cause{cause}, want.Causes...))
	}
	keep := func(cause status.Cause, count int) error {
		if err := c.record(runRecord{step.Op, count, []status.Cause{cause}}); err != nil {
			return err
		}
		return show(cause)
	}
	var w interface{ Waiting() string }
	if errors.As(err, &w) {
		return keep(status.Wait("%s", w.Waiting()), 0)
	}
	if r, ok := errors.AsType[role.Remediable](err); ok {
		return keep(r.Remedy(c.Commands()), 0)
	}
	// After remove no hook follows, so its hook must run again.
	if full := fullDisk(c.Host.Root, c.Commands(), step.Err); full != nil && !want.Remove {
		return show(*full) // no space for a record
	}
	if !transient(step.Err) {
		return jujuerrors.Annotatef(step.Err, "cannot %s", step.Op)
	}
	last, err := recordState.Read(c.Host.Root)
	if err != nil {
		return jujuerrors.Annotate(err, "cannot read the failed attempts")
	}
	n := 1
	if last.Op == step.Op {
		n += last.Count
	}
	why, whole := reason(step.Err), lastLine(step.Err)
	cause := status.Wait("cannot %s (attempt %d): %s", step.Op, n, why)
	if whole != why {
		cause = cause.Explain("%s", whole)
	}
	if _, ok := errors.AsType[*release.NetworkError](step.Err); ok {
		cause = cause.Fix("without internet set release-mirror, or run: " + c.Commands().GiveRelease())
	}
	if n >= maxAttempts {
		cause.Kind = status.Blocked
	}
	return keep(cause, n)
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

// reason returns the cause of err alone, because a status with the name of the failed step has
// space for little more.
func reason(err error) string {
	var lookup *net.DNSError
	var op *net.OpError
	var errno syscall.Errno
	switch download, ok := errors.AsType[*release.NetworkError](err); {
	case errors.As(err, &lookup):
		return "lookup " + lookup.Name + ": " + lookup.Err
	case errors.As(err, &op) && errors.As(err, &errno) && op.Addr != nil:
		return op.Addr.String() + ": " + errno.Error()
	case ok:
		return lastLine(download.Err)
	}
	return lastLine(err)
}

// lastLine returns the last line of err.
func lastLine(err error) string {
	if cmd, ok := errors.AsType[*host.CommandError](err); ok && cmd.LastLine() != "" {
		return cmd.LastLine()
	}
	text := strings.TrimSpace(err.Error())
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// recordState is disposable: the count starts again, and causes are missing until the next
// run.
var recordState = statefile.File[runRecord]{Path: LastRunFile, Mode: 0o600, Disposable: true}

// StepFailed reports whether a step of the last run failed, so that the next run repeats it.
func (c *Charm) StepFailed() bool {
	last, _ := recordState.Read(c.Host.Root) // an unreadable file is no failure
	return last.Op != ""
}

// record writes LastRunFile if its content changes, and removes it if r is empty.
func (c *Charm) record(r runRecord) (err error) {
	last, _ := recordState.Read(c.Host.Root) // an unreadable file is replaced
	switch {
	case r.Op == "" && len(r.Causes) == 0:
		err = recordState.Remove(c.Host.Root)
	case !reflect.DeepEqual(r, last):
		err = recordState.Write(c.Host.Root, r)
	}
	return jujuerrors.Annotate(err, "cannot record the results of this run")
}

// fullDisk returns the cause for an error of a full disk, with the disk and the folder if
// they are known. It returns nil for all other errors.
func fullDisk(r host.Root, c wellknown.Commands, err error) *status.Cause {
	var cmd *host.CommandError
	reported := errors.As(err, &cmd) && strings.Contains(cmd.Stderr, syscallText(syscall.ENOSPC))
	if !reported && !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		return nil
	}
	file := ""
	var one *fs.PathError
	var two *os.LinkError
	if errors.As(err, &one) {
		file = one.Path
	} else if errors.As(err, &two) {
		file = two.New
	}
	cause := status.Block("a disk is full (%s)", lastLine(err))
	if file != "" {
		cause = noSpace(r, path.Dir(r.Rel(file)))
	}
	cause = cause.Fix("free space there: " + c.OnUnit("df -h"))
	return &cause
}

func noSpace(r host.Root, dir string) status.Cause {
	return status.Block("disk full: no space for %s on %s", dir, cmp.Or(resource.DiskOf(r, dir), "its disk"))
}

// FullVolumes returns the cause if the disk of the worker's volumes is full. Then Concourse
// cannot make volumes, and the wrapper lets steps wait.
func (c *Charm) FullVolumes(folder string) *status.Cause {
	var st unix.Statfs_t
	if unix.Statfs(c.Host.Path(folder), &st) != nil || !wellknown.SpaceOf(st).Full() {
		return nil
	}
	cause := noSpace(c.Host.Root, folder).
		Explain("new steps wait 45 s; Concourse then runs them again").
		Fix("free space there: " + c.Commands().OnUnit("df -h"))
	return &cause
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
	cause := fullDisk(c.Host.Root, c.Commands(), err)
	if cause == nil {
		return err
	}
	if failed := c.show(ctx, nil, []status.Cause{*cause}); failed != nil {
		return errors.Join(err, failed)
	}
	repeats := model.Resyncs(c.Event.Name) && c.Event.Name != "upgrade-charm" || c.Event.Name == "update-status"
	if !repeats {
		return err
	}
	return c.Tools.Log(ctx, juju.Error, lastLine(err))
}
