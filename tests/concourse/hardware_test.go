//go:build e2e

package concourse

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/guest"
)

// standIns gives a fixture's AMD GPUs numbers of this kernel's devices, and no errors.
func standIns(t *testing.T, root host.Root) {
	t.Helper()
	require.NoError(t, guest.StandIns(root))
	if len(guest.Nodes(root)) > 0 {
		require.NoError(t, root.WriteFile(errorsFile, []byte("ue: 0\nce: 0\n"), 0o644))
	}
}

// numberOf is a node's device number as `ls -l` writes it.
func numberOf(t *testing.T, root host.Root, node string) string {
	t.Helper()
	n, err := root.Node(node)
	require.NoError(t, err)
	return fmt.Sprintf("%d, %3d", n.Major, n.Minor)
}
