package preflight

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
)

func TestEachVendorHasPreflightChecks(t *testing.T) {
	for _, v := range gpu.Vendors() {
		require.Contains(t, vendors, v)
	}
}
