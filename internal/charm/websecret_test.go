package charm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
)

// If a value is temporarily unreadable, for example during a restart of the controller, the
// unit does not change. A refusal is a permanent answer.
func TestWebKeepsRunningWithAnUnreadableDatabaseSecret(t *testing.T) {
	for answer, runs := range map[string]bool{
		"connection is shut down":                        true,
		"permission denied":                              false,
		`secret "secret:d2user0000000000000g" not found`: false,
	} {
		t.Run(answer, func(t *testing.T) {
			w := newScaleWeb(t, "web")
			before, err := w.root.ReadFile("/var/lib/concourse/config.env")
			require.NoError(t, err)
			require.True(t, w.up[concourse.WebUnit])
			w.refuse, w.refusal = "d2user", answer
			got := w.try(update)
			require.Equal(t, runs, w.up[concourse.WebUnit])
			if !runs {
				require.NoError(t, got.err)
				require.Contains(t, w.model.Status().Message, "Waiting for PostgreSQL database...")
				return
			}
			require.ErrorContains(t, got.err, answer, "Juju runs the hook again")
			require.Empty(t, got.commands)
			after, err := w.root.ReadFile("/var/lib/concourse/config.env")
			require.NoError(t, err)
			require.Equal(t, string(before), string(after))
			w.refuse = ""
			require.NoError(t, w.try(update).err)
			require.True(t, w.up[concourse.WebUnit])
		})
	}
}
