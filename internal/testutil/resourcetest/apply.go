package resourcetest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/plan"
)

// Apply makes the machine what is wanted and returns what kept it from that.
func Apply(t testing.TB, h host.Host, want ...plan.Resource) error {
	t.Helper()
	p, err := plan.Diff(context.Background(), h, want...)
	require.NoError(t, err)
	_, err = p.Apply(context.Background(), nil)
	return err
}

// Ops are the steps, by their names, from the machine to what is wanted.
func Ops(t testing.TB, h host.Host, want ...plan.Resource) []string {
	t.Helper()
	p, err := plan.Diff(context.Background(), h, want...)
	require.NoError(t, err)
	got := []string{}
	for _, s := range p {
		got = append(got, s.Op)
	}
	return got
}
