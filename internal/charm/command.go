package charm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
)

// command is a link to this unit's dispatch. It is on root's PATH, also with sudo.
const command = "/usr/local/bin/dispatch"

// commandLink creates the link. A program or a link of other packages stays. The link is
// only for people: the charm does not use it.
type commandLink struct{ charmDir string }

func (c commandLink) target() string { return filepath.Join(c.charmDir, "dispatch") }

// Diff implements plan.Resource.
func (c commandLink) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	why := "missing"
	switch to, err := h.Readlink(command); {
	case errors.Is(err, fs.ErrNotExist):
	case err == nil && otherUnitsLink(h, to):
		why = "it points to a removed unit"
	default:
		return nil, nil
	}
	return plan.Plan{{Op: "link " + command, Why: why, Tolerate: true, Do: func(context.Context) error {
		if err := h.MkdirAll(path.Dir(command), 0o755); err != nil {
			return err
		}
		if why != "missing" {
			if err := h.Remove(command); err != nil {
				return err
			}
		}
		return os.Symlink(c.target(), h.Path(command)) // fails if the file exists
	}}}, nil
}

// otherUnitsLink reports whether the link leads to a unit of this charm that left the
// machine without its hook remove.
func otherUnitsLink(h host.Host, to string) bool {
	return strings.HasPrefix(to, "/var/lib/juju/agents/unit-") && path.Base(to) == "dispatch" && !h.Exists(to)
}

// noCommandLink removes the link if it leads to this unit's charm.
type noCommandLink struct{ charmDir, why string }

// Diff implements plan.Resource.
func (c noCommandLink) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	to, err := h.Readlink(command)
	if err != nil || to != (commandLink{c.charmDir}).target() {
		return nil, nil
	}
	return plan.Plan{{Op: "remove " + command, Why: c.why, Do: func(context.Context) error {
		if err := h.Remove(command); err != nil {
			return fmt.Errorf("cannot remove %s: %w", command, err)
		}
		return nil
	}}}, nil
}
