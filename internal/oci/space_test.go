package oci

import (
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestStepWaitsForAFullDisk(t *testing.T) {
	b := newTestbed(t)
	b.configure(t, func(c *Config) { c.Volumes = "/var/lib/concourse/worker" })
	free, waited := uint64(0), time.Duration(0)
	b.statfs = func(path string, st *unix.Statfs_t) error {
		require.Equal(t, "/var/lib/concourse/worker", path)
		*st = unix.Statfs_t{Bsize: 4096, Blocks: 1 << 20, Bavail: free, Files: 100, Ffree: 100}
		return nil
	}
	b.sleep = func(d time.Duration) { waited += d }
	b.bundle(t, "task")
	err := b.create()
	require.EqualError(t, err, "cannot run the step: the disk of /var/lib/concourse/worker is full (0 B of 4.0 GiB free); as on "+
		"this worker free space has disappeared, Concourse runs the step again: on another worker, or here "+
		"when space is free [container c1]")
	require.Regexp(t, regexp.MustCompile("worker .+ disappeared"), err.Error()) // Concourse, atc/exec/retry_error_step.go
	require.Equal(t, quarantineTime, waited)
	require.Nil(t, b.argv)

	b.bundle(t, "check")
	require.NoError(t, b.create(), "Concourse does not run a check again")

	b.sleep = func(time.Duration) { free = 1 << 19 }
	b.bundle(t, "task")
	require.NoError(t, b.create(), "space is free in time")
}
