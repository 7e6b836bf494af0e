package engines

import (
	"context"
	"slices"
	"strings"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/plan"
)

// Unit is a unit of the charm whose operator names the engines that have the runtime. It
// is known as the charm's by its wrapper, so what a person configured with another one
// stays where the operator names no engine. An engine's broken file stops no hook.
type Unit struct {
	Engines []string
	Wrapper string
}

// Diff implements plan.Resource.
func (u Unit) Diff(ctx context.Context, h host.Host) (p plan.Plan, err error) {
	for _, e := range all() {
		r := Request{Engine: e.name, Wrapper: u.Wrapper, File: e.file, Remove: !slices.Contains(u.Engines, e.name)}
		if r.Remove && !u.has(h.Root, e) {
			continue
		}
		var steps plan.Plan
		of, err := e.resource(ctx, h, r)
		if err == nil {
			steps, err = of.Diff(ctx, h)
		}
		if err != nil {
			steps = plan.Plan{{Op: "configure " + e.name, Why: "container-engines", Tolerate: true, Do: func(context.Context) error { return err }}}
		}
		p = append(p, steps...)
	}
	return p, nil
}

// has tells whether an engine has this unit's wrapper.
func (u Unit) has(r host.Root, e engine) bool {
	for _, file := range []string{e.file, ownImport(e.file)} {
		if text, err := readOwn(r, file); err == nil && strings.Contains(text, u.Wrapper) {
			return true
		}
	}
	rec, err := readRecord(r, e.name)
	return err == nil && slices.ContainsFunc(rec.had(), func(p part) bool { return strings.Contains(p.Text, u.Wrapper) })
}
