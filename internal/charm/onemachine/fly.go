package onemachine

import (
	"context"
	"os"
	"path/filepath"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
)

// fly installs Concourse's command line tool from the release, unless the machine has one.
type fly struct{}

// The tool of the release, and its link on PATH.
var (
	flyBin  = role.BinDir + "/fly"
	flyLink = "/usr/local/bin/fly"
)

// Diff implements plan.Resource.
func (fly) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	_, id, ok := release.Installed(h.Root)
	if !ok {
		return nil, nil
	}
	mark := flyBin + ".release"
	have, err := role.ReadOptional(h.Root, mark)
	if err != nil {
		return nil, err
	}
	var p plan.Plan
	if have != id || !h.Exists(flyBin) {
		p = append(p, plan.Step{Op: "install fly " + flyBin, Why: "it is not of the installed release", Tolerate: true,
			Do: func(context.Context) error {
				if err := release.UnpackFly(h, id, flyBin); err != nil {
					return err
				}
				return h.WriteFile(mark, []byte(id), 0o644)
			}})
	}
	if _, err := h.Lstat(flyLink); err != nil {
		p = append(p, plan.Step{Op: "link " + flyLink, Why: "missing", Tolerate: true, Do: func(context.Context) error {
			if err := h.MkdirAll(filepath.Dir(flyLink), 0o755); err != nil {
				return err
			}
			return os.Symlink(flyBin, h.Path(flyLink))
		}})
	}
	return p, nil
}

// noFly removes the link to fly, if it is the machine's.
type noFly struct{ why string }

// Diff implements plan.Resource.
func (n noFly) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	if to, err := h.Readlink(flyLink); err != nil || to != flyBin {
		return nil, nil
	}
	remove := func(context.Context) error { return h.Remove(flyLink) }
	return plan.Plan{{Op: "remove " + flyLink, Why: n.why, Do: remove}}, nil
}
