package amdgpu

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/exportertest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

const dev = exportertest.Dir

// readerOf reads the GPU at dev, with a clock that the test sets.
func readerOf(t testing.TB, r host.Root) (*Reader, *time.Time) {
	now := hosttest.Now
	reader := NewReader(Device{PCI: exportertest.PCI, Dir: dev, Own: dev}, Options{Root: string(r), Now: func() time.Time { return now }})
	t.Cleanup(reader.Close)
	return reader, &now
}

// first is a first reading of the GPU at dev.
func first(t testing.TB, files map[string]string) State {
	t.Helper()
	r, _ := readerOf(t, exportertest.Put(t, files))
	return r.Read()
}

// sensorsOf are the temperatures by sensor.
func sensorsOf(s State) map[string]float64 {
	out := map[string]float64{}
	for _, t := range s.Temperatures {
		if t.Now.Known {
			out[t.Sensor] = t.Now.Value
		}
	}
	return out
}

// activeOf are the limits that the driver reports, by reason.
func activeOf(s State) map[string]bool {
	out := map[string]bool{}
	for _, a := range s.Throttling.Active {
		out[a.Reason] = a.Active
	}
	return out
}

// trap makes directories of the given names: to read one fails with EISDIR,
// which a reading would show.
func trap(t testing.TB, r host.Root, names ...string) {
	for _, name := range names {
		require.NoError(t, os.MkdirAll(r.Path(dev+"/"+name), 0o755))
	}
}
