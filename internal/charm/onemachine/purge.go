package onemachine

import (
	"context"
	"path"

	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
)

const purged = wellknown.Purged

// Purge removes everything that Up made, with all data. Files, packages and databases of
// others stay.
func (m *Machine) Purge(ctx context.Context) error {
	return m.locked("purge this machine", func() error {
		last := []plan.Resource{resource.Absent{Path: OptionsFile, Why: purged}, noEmptyFolder{path.Dir(OptionsFile)},
			// the state has the record
			resource.Absent{Path: stateFile.Path, Why: purged}, noEmptyFolder{wellknown.StateDir}}
		if err := m.CheckSetUp(); err != nil {
			return err
		}
		if !m.Model.Installed() {
			return m.Model.apply(ctx, last...)
		}
		m.Model.state.Down = true // a purge that is killed is no machine to repair
		if err := m.Model.Save(); err != nil {
			return err
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
		rest := []plan.Resource{noHome{}}
		if m.Model.state.OwnUser {
			rest = append(rest, noUser{})
		}
		rest = append(rest, m.Model.noFolders()...)
		return m.Model.apply(ctx, append(rest, last...)...)
	})
}
