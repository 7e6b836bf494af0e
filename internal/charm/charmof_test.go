package charm

import (
	"io"
	"testing"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/juju"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/jujutest"
)

// charmOf is one run of the charm in this process.
func charmOf(t *testing.T, r host.Root, m *jujutest.Model, ctx *jujutest.Context, next host.Runner) *Charm {
	t.Helper()
	run := ctx.Runner(next)
	return &Charm{Host: host.Host{Root: r, Runner: run, Clock: hosttest.Clock{T: hosttest.Now}}, Tools: juju.New(run), Event: ctx.Event,
		CharmDir: m.CharmDir, NewID: func() string { return "0badcafe" }, Stderr: io.Discard}
}
