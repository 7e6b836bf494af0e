package gpu_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func discover(t testing.TB, r host.Root) gpu.Inventory {
	t.Helper()
	inv, err := gpu.Discover(r)
	require.NoError(t, err)
	return inv
}

// TestInventoryOfEachHost has the whole inventory of every fixture host in
// testdata/<host>.golden.
func TestInventoryOfEachHost(t *testing.T) {
	for _, name := range hosttest.HostNames() {
		t.Run(name, func(t *testing.T) {
			inv := discover(t, hosttest.Host(t, name))
			hosttest.Golden(t, filepath.Join("testdata", name+".golden"), inv.String())
		})
	}
}
