package onemachine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/juju"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
)

// Change sets options and applies them. An option in reset gets its default. Nothing changes
// if an option is invalid or the options choose another release, which is not available.
func (m *Machine) Change(ctx context.Context, set map[string]string, reset []string) error {
	return m.locked("change the options", func() error {
		if !m.Model.Installed() {
			return errNotUp
		}
		text, options, err := m.Model.changed(set, reset)
		if err != nil {
			return err
		}
		old, err := m.decision(ctx)
		if err != nil {
			return err
		}
		m.Model.options = options
		if err := m.checkRelease(ctx, old.Want.Release); err != nil {
			return fmt.Errorf("cannot change the options, so nothing was changed: %w", err)
		}
		if err := m.Model.writeOptions(text); err != nil {
			return err
		}
		if m.Model.state.Down {
			fmt.Fprintln(m.Stdout, "changed; the CI is stopped, and uses it from the next up")
			return nil
		}
		if err := m.runAll(ctx); err != nil {
			return err
		}
		if _, named := set["version"]; named || slices.Contains(reset, "version") {
			return m.checkUpgrade(ctx)
		}
		return nil
	})
}

// changed returns the text of OptionsFile with options set, and without those in reset. It
// also returns all options of the text, which were checked.
func (m *Model) changed(set map[string]string, reset []string) (text string, options map[string]any, err error) {
	data, err := m.Host.ReadFile(OptionsFile)
	if err != nil {
		return "", nil, fmt.Errorf("cannot change %s: %w; run: sudo concourse-ci-machine up", OptionsFile, err)
	}
	text = string(data)
	known := optionNames()
	var unknown []string
	for _, name := range reset {
		before := text
		if text, err = replaceOption(text, name, ""); err != nil {
			return "", nil, err
		}
		if !known[name] && text == before { // otherwise it is an option of another version
			unknown = append(unknown, unknownOption(name, known))
		}
	}
	if len(unknown) > 0 {
		return "", nil, &OptionsError{unknown}
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if text, err = setOption(text, name, config.FromText(name, set[name])); err != nil {
			return "", nil, err
		}
	}
	if options, err = parseOptions([]byte(text)); err != nil {
		return "", nil, err
	}
	return text, options, m.checkOptions(options)
}

// writeOptions writes OptionsFile, unless it has this text and only its owner reads it.
func (m *Model) writeOptions(text string) error {
	if st, err := m.Host.Stat(OptionsFile); err == nil && st.Mode()&0o077 == 0 {
		if old, err := m.Host.ReadFile(OptionsFile); err == nil && string(old) == text {
			return nil
		}
	}
	if err := m.Host.WriteFile(OptionsFile, []byte(text), 0o600); err != nil {
		return fmt.Errorf("cannot change %s: %w", OptionsFile, err)
	}
	return nil
}

// checkRelease returns an error if the options are invalid, or if they choose another
// release than old, which cannot be installed. A missing one is downloaded.
func (m *Machine) checkRelease(ctx context.Context, old release.Release) error {
	d, err := m.decision(ctx)
	if err != nil {
		return err
	}
	if len(d.Problems) > 0 {
		return errors.New(d.Problems[0].String())
	}
	now := d.Want.Release
	if now.Version == old.Version && now.Resource == old.Resource && now.SHA256 == old.SHA256 &&
		now.Mirror == old.Mirror {
		return nil
	}
	err = release.Install{Release: now}.Prepare(ctx, m.Model.Host, m.Model.Progress.Step)
	if r, ok := errors.AsType[role.Remediable](err); ok {
		return errors.New(r.Remedy(m.Charm.Commands()).String())
	}
	return err
}

// checkUpgrade returns an error if the release of the options ended when it was started, so
// that the previous one runs.
func (m *Machine) checkUpgrade(ctx context.Context) error {
	d, err := m.decision(ctx)
	if err != nil {
		return err
	}
	if _, failed := d.Want.Release.Avoided(m.Model.Host.Root); failed {
		return m.notReady(ctx, d)
	}
	return nil
}

// runAll runs the pipeline, and returns an error if a step failed or an operator is needed.
func (m *Machine) runAll(ctx context.Context) error {
	if err := m.run(ctx, "config-changed"); err != nil {
		return err
	}
	if m.Model.state.Status != juju.Blocked && !m.Charm.StepFailed() {
		return nil
	}
	d, err := m.decision(ctx)
	if err != nil {
		return err
	}
	return m.notReady(ctx, d)
}
