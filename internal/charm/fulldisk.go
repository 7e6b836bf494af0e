package charm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/charm/juju"
	"concourse-ci-machine/internal/charm/model"
	"concourse-ci-machine/internal/charm/status"
)

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
		return fmt.Sprintf("a disk is full (%s); free space there: juju ssh %s df -h", lastLine(err), unit)
	}
	dir := path.Dir(r.Rel(file))
	return fmt.Sprintf("disk full: no space for %s on %s; free space there: juju ssh %s df -h", dir, cmp.Or(resource.DiskOf(r, dir), "its disk"), unit)
}

// syscallText returns the text of e as the C library writes it, with a capital.
func syscallText(e syscall.Errno) string {
	text := e.Error()
	return strings.ToUpper(text[:1]) + text[1:]
}

// showFull sets the status for a disk that was full before the first step. A hook that
// reads everything again ends well, so that the status is seen. Juju runs the others
// again: what they report is in no later hook.
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
