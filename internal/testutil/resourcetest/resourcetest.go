// Package resourcetest finds in what is desired what a test asks for. It contains no
// test.
package resourcetest

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/base/resource"
)

// File is a desired file's content; ok is false where it is not wanted.
func File(all []plan.Resource, path string) (data string, ok bool) {
	for _, r := range all {
		if f, is := r.(resource.File); is && f.Path == path {
			return string(f.Data), true
		}
	}
	return "", false
}

// Mode is a desired file's mode.
func Mode(all []plan.Resource, path string) os.FileMode {
	for _, r := range all {
		if f, is := r.(resource.File); is && f.Path == path {
			return f.Mode
		}
	}
	return 0
}

// Absent reports whether a path is to be taken away.
func Absent(all []plan.Resource, path string) bool {
	for _, r := range all {
		if a, is := r.(resource.Absent); is && a.Path == path {
			return true
		}
	}
	return false
}

// Trigger is the trigger of a name.
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

// Service is what is desired of a unit of systemd.
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
