// Package resourcetest searches lists of resources for tests. It contains no test.
package resourcetest

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
)

// File returns the content of a desired file. ok is false if it is not desired.
func File(all []plan.Resource, path string) (data string, ok bool) {
	for _, r := range all {
		if f, is := r.(resource.File); is && f.Path == path {
			return string(f.Data), true
		}
	}
	return "", false
}

// Mode returns the mode of a desired file.
func Mode(all []plan.Resource, path string) os.FileMode {
	for _, r := range all {
		if f, is := r.(resource.File); is && f.Path == path {
			return f.Mode
		}
	}
	return 0
}

// Absent reports whether a path must be removed.
func Absent(all []plan.Resource, path string) bool {
	for _, r := range all {
		if a, is := r.(resource.Absent); is && a.Path == path {
			return true
		}
	}
	return false
}

// Trigger returns the trigger with a name.
func Trigger(t testing.TB, all []plan.Resource, name string) resource.Trigger {
	t.Helper()
	for _, r := range all {
		if tr, is := r.(resource.Trigger); is && tr.Name == name {
			return tr
		}
	}
	require.Fail(t, "no trigger "+name)
	return resource.Trigger{}
}

// Service returns the desired state of a systemd unit.
func Service(t testing.TB, all []plan.Resource, unit string) resource.Service {
	t.Helper()
	for _, r := range all {
		if s, is := r.(resource.Service); is && s.Unit == unit {
			return s
		}
	}
	require.Fail(t, "no service "+unit)
	return resource.Service{}
}

// Apply applies the resources and returns the error of the plan.
func Apply(t testing.TB, h host.Host, want ...plan.Resource) error {
	t.Helper()
	p, err := plan.Diff(context.Background(), h, want...)
	require.NoError(t, err)
	_, err = p.Apply(context.Background(), nil)
	return err
}

// Ops returns the names of the steps from the machine to the desired state.
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
