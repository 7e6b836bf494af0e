package charm

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestCommandLinkDoesNotRemoveOtherFiles(t *testing.T) {
	const ours, theirs, left = "/charm/dispatch", "/opt/mail/dispatch", "/var/lib/juju/agents/unit-gone-0/charm/dispatch"
	link := func(to string) func(t *testing.T, r host.Root) {
		return func(t *testing.T, r host.Root) {
			require.NoError(t, r.MkdirAll("/usr/local/bin", 0o755))
			require.NoError(t, os.Symlink(to, r.Path(command)))
		}
	}
	for name, c := range map[string]struct {
		before   func(t *testing.T, r host.Root)
		step     string // of a hook
		to       string // after it; "" for no link
		goes     string // the step of remove
		anything bool   // is there after remove
	}{
		"free":                    {func(*testing.T, host.Root) {}, "link " + command, ours, "remove " + command, false},
		"made before":             {link(ours), "", ours, "remove " + command, false},
		"another's link":          {link(theirs), "", theirs, "", true},
		"another's program":       {func(t *testing.T, r host.Root) { hosttest.Put(t, r, command, "#!/bin/sh\n") }, "", "", "", true},
		"of a unit that has left": {link(left), "link " + command, ours, "remove " + command, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := host.Host{Root: hosttest.Root(t)}
			c.before(t, h.Root)
			p, err := commandLink{"/charm"}.Diff(t.Context(), h)
			require.NoError(t, err)
			if c.step == "" {
				require.Empty(t, p)
			} else {
				require.Len(t, p, 1)
				require.Equal(t, c.step, p[0].Op)
				require.NoError(t, p[0].Do(t.Context()))
				p, err = commandLink{"/charm"}.Diff(t.Context(), h)
				require.NoError(t, err)
				require.Empty(t, p, "the second run")
			}
			to, _ := h.Readlink(command)
			require.Equal(t, c.to, to)

			p, err = noCommandLink{"/charm", "why"}.Diff(t.Context(), h)
			require.NoError(t, err)
			if c.goes == "" {
				require.Empty(t, p)
			} else {
				require.Equal(t, c.goes, p[0].Op)
				require.NoError(t, p[0].Do(t.Context()))
			}
			_, err = h.Lstat(command)
			require.Equal(t, c.anything, err == nil)
		})
	}
}

// Another program may create the file while a plan is applied.
func TestCommandLinkReplacesNothing(t *testing.T) {
	h := host.Host{Root: hosttest.Root(t)}
	p, err := commandLink{"/charm"}.Diff(t.Context(), h)
	require.NoError(t, err)
	hosttest.Put(t, h.Root, command, "theirs")
	require.Error(t, p[0].Do(t.Context()))
	require.True(t, p[0].Tolerate)
	text, err := h.ReadText(command)
	require.NoError(t, err)
	require.Equal(t, "theirs", text)
}
