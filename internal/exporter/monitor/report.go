package monitor

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/amdgpu"
	"github.com/fourdollars/concourse-ci-machine/internal/base/statefile"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/nvidia/nvidiagpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/sysfile"
	"github.com/fourdollars/concourse-ci-machine/internal/pool"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// maxReport exceeds the size of a report of 512 GPUs with 64 containers each.
const maxReport = 16 << 20

// damaged is the error name of a report that cannot be decoded.
const damaged = "damaged"

// readReport reads a file that a process of root wrote. It returns nil if the file is
// missing or unreadable. An unreadable file is counted under name, as with any other file.
func (m *Monitor) readReport(name, path string) []byte {
	// O_NONBLOCK: a FIFO at this path must not block a scrape.
	f, err := os.OpenFile(m.root.Path(path), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var data []byte
	if err == nil {
		defer f.Close()
		data, err = io.ReadAll(io.LimitReader(f, maxReport+1))
	}
	switch {
	case err != nil:
		m.count("", amdgpu.Failure{File: name, Errno: sysfile.ErrnoName(err)})
		return nil
	case len(data) > maxReport:
		m.count("", amdgpu.Failure{File: name, Errno: damaged})
		return nil
	}
	return data
}

// decodeReport decodes a report. It returns nil without data or if they are damaged.
func decodeReport[T any](m *Monitor, name string, f statefile.File[T], data []byte) *T {
	if data == nil {
		return nil
	}
	r, err := f.Decode(data)
	if err != nil {
		m.count("", amdgpu.Failure{File: name, Errno: damaged})
		return nil
	}
	return &r
}

// cachedReport decodes a report once, as long as its file stays the same.
type cachedReport[T any] struct {
	mu      sync.Mutex
	data    []byte
	decoded *T
}

func (k *cachedReport[T]) read(m *Monitor, name string, f statefile.File[T]) *T {
	data := m.readReport(name, f.Path)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.decoded == nil || !bytes.Equal(data, k.data) {
		k.data, k.decoded = data, decodeReport(m, name, f, data)
	}
	return k.decoded
}

// nvidiaReport returns the last report of nvidia-smi.
func (m *Monitor) nvidiaReport() *nvidiagpu.Report {
	if m.options.NVIDIA == "" {
		return nil
	}
	return m.nvidia.read(m, "nvidia", nvidiagpu.ReportFile(m.options.NVIDIA))
}

// readLeases reads the report of the leases for a snapshot.
func (m *Monitor) readLeases() *pool.Report {
	if m.options.Leases == "" {
		return nil
	}
	return decodeReport(m, "leases", pool.LeaseFile, m.readReport("leases", m.options.Leases))
}

// readService reads the record of quarantined GPUs for a snapshot. The record is valid at
// any age, because the wrapper of runc uses the same one.
func (m *Monitor) readService() *quarantine.Record {
	if m.options.Service == "" {
		return nil
	}
	return decodeReport(m, "service", quarantine.RecordFile, m.readReport("service", m.options.Service))
}

// Tasks returns the verdicts on the tasks of this unit, nil without a report.
func (m *Monitor) Tasks() *verdict.Report {
	if m.options.Tasks == "" {
		return nil
	}
	return m.tasks.read(m, "tasks", verdict.ReportFile(m.options.Tasks))
}
