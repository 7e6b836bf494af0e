package onemachine

import (
	"context"
	"errors"
	"os"
	"path"
	"syscall"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/concourse/release"
)

// Purge removes everything that Up installed, with all data.
func (m *Machine) Purge(ctx context.Context) error {
	return m.locked("purge this machine", func() error {
		if !m.Model.Installed() && !m.Model.Host.Exists(OptionsFile) {
			return errNotUp
		}
		if m.Model.Installed() {
			m.Model.state.Down = true // a purge that is killed is no machine to repair
			if err := m.Model.Save(); err != nil {
				return err
			}
		}
		if err := m.stop(ctx); err != nil {
			return err
		}
		if err := m.Model.RemoveDatabase(ctx); err != nil {
			return err
		}
		if err := m.Model.apply(ctx, noFly{purged}); err != nil {
			return err
		}
		if err := m.hook(ctx, "remove"); err != nil {
			return err
		}
		rest := []plan.Resource{noTree{release.HomeDir}}
		if m.Model.state.OwnUser {
			rest = append(rest, noUser{})
		}
		for _, dir := range m.Model.state.Folders {
			rest = append(rest, noEmptyFolder{dir})
		}
		return m.Model.apply(ctx, append(rest, resource.Absent{Path: path.Dir(OptionsFile), Why: purged, Tree: true},
			resource.Absent{Path: stateDir, Why: purged, Tree: true})...)
	})
}

// sharedFolders are folders of other programs that Up may create. Inner ones come first.
var sharedFolders = []string{"/etc/cdi", path.Dir(noMainCluster), path.Dir(path.Dir(noMainCluster)), clustersDir}

// noEmptyFolder removes a folder that has no content.
type noEmptyFolder struct{ path string }

// Diff implements plan.Resource.
func (n noEmptyFolder) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	if !h.Exists(n.path) {
		return nil, nil
	}
	return plan.Plan{{Op: "remove " + n.path + " if it is empty", Why: purged, Do: func(context.Context) error {
		if left, err := h.ReadDir(n.path); err != nil || len(left) > 0 {
			return err // another program uses it
		}
		return h.Remove(n.path)
	}}}, nil
}

// noTree removes a folder with its content. A folder that is a mount point stays, empty.
type noTree struct{ path string }

// Diff implements plan.Resource.
func (n noTree) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	if !h.Exists(n.path) {
		return nil, nil
	}
	return plan.Plan{{Op: "remove " + n.path, Why: purged, Do: func(context.Context) error {
		err := os.RemoveAll(h.Path(n.path))
		if errors.Is(err, syscall.EBUSY) {
			if left, readErr := h.ReadDir(n.path); readErr == nil && len(left) == 0 {
				return nil
			}
		}
		return err
	}}}, nil
}

// noUser removes the user of the web.
type noUser struct{}

// Diff implements plan.Resource.
func (noUser) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	if exists, err := resource.UserExists(h.Root, concourse.WebUser); err != nil || !exists {
		return nil, err
	}
	return plan.Plan{{Op: "remove user " + concourse.WebUser, Why: purged, Do: func(ctx context.Context) error {
		_, err := h.Run(ctx, host.Command{Argv: []string{"userdel", concourse.WebUser}, Deadline: sqlTime})
		return err
	}}}, nil
}
