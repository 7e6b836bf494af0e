package monitor

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"concourse-ci-machine/internal/gpu/amd/amdgpu"
	"concourse-ci-machine/internal/gpu/nvidia/nvidiagpu"
	"concourse-ci-machine/internal/gpu/sysfile"
)

// maxReport is more than a report of 512 GPUs with 64 containers each has.
const maxReport = 16 << 20

// damaged is the name of what is wrong with a report that was read.
const damaged = "damaged"

// readReport reads what a process of root tells in a file below the root; nil is
// that there is none, or none that can be read. That is counted, as with any
// other file, under name.
func (m *Monitor) readReport(name, path string) []byte {
	// O_NONBLOCK: a FIFO in its place must not hold up a scrape.
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

// decodeReport is what a report says; nil where there is none or it can't be read.
func decodeReport[T any](m *Monitor, name string, data []byte) *T {
	if data == nil {
		return nil
	}
	r := new(T)
	if json.Unmarshal(data, r) != nil {
		m.count("", amdgpu.Failure{File: name, Errno: damaged})
		return nil
	}
	return r
}

// kept is a report that is decoded once, as long as its file stays the same.
type kept[T any] struct {
	mu   sync.Mutex
	data []byte
	said *T
}

func (k *kept[T]) read(m *Monitor, name, path string) *T {
	data := m.readReport(name, path)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.said == nil || !bytes.Equal(data, k.data) {
		k.data, k.said = data, decodeReport[T](m, name, data)
	}
	return k.said
}

// nvidiaReport is what nvidia-smi told last.
func (m *Monitor) nvidiaReport() *nvidiagpu.Report {
	if m.options.NVIDIA == "" {
		return nil
	}
	return m.nvidia.read(m, "nvidia", m.options.NVIDIA)
}
