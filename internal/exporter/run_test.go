package exporter

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestHelperRunsUntilItIsStoppedOrFails(t *testing.T) {
	stop, cancel := context.WithCancel(t.Context())
	looks := 0
	fine := func() error { return nil }
	look := func() error {
		if looks++; looks == 3 {
			cancel()
		}
		return nil
	}
	require.NoError(t, repeat(stop, time.Nanosecond, fine, look))
	require.GreaterOrEqual(t, looks, 3)

	fails := func() error { return errors.New("it fails") }
	require.EqualError(t, repeat(t.Context(), time.Hour, fine, fails), "it fails")
	looks = 0
	require.EqualError(t, repeat(t.Context(), time.Hour, fails, look), "it fails")
	require.Zero(t, looks, "without a sign of life nothing is looked at")
}
