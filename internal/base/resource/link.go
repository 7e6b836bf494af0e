package resource

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/plan"
)

// Link is a symbolic link. A link to another target is replaced. Another kind of file is
// not replaced, because its owner is unknown.
type Link struct {
	Path string
	To   string // literal text of the link
}

// Diff implements plan.Resource.
func (l Link) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	why := "missing"
	switch to, err := h.Readlink(l.Path); {
	case err == nil && to == l.To:
		return nil, nil
	case err == nil:
		why = "it leads to " + to
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("cannot use %s as a link: %w; move it away", l.Path, err)
	}
	return plan.Plan{{Op: "link " + l.Path + " to " + l.To, Why: why, Do: func(context.Context) error {
		if why != "missing" {
			if err := h.Remove(l.Path); err != nil {
				return err
			}
		}
		return os.Symlink(l.To, h.Path(l.Path))
	}}}, nil
}
