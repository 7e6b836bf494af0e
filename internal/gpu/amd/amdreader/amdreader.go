// Package amdreader reads AMD GPUs as package amdgpu does, and adds the hangs of each. It
// reads no file itself.
package amdreader

import (
	"time"

	"github.com/fourdollars/concourse-ci-machine/amdgpu"
	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/reading"
)

// Reader reads one device repeatedly, see amdgpu.Reader. Missed may be called during a
// reading.
type Reader struct {
	*amdgpu.Reader
	device gpu.Slot
	now    func() time.Time
	hangs  reading.HangLog
}

// New returns a reader of the device below root, with descriptors within the limit.
func New(root host.Root, d gpu.Slot, limit *amdgpu.Limit, now func() time.Time) *Reader {
	with := amdgpu.Options{Root: string(root), Limit: limit, Now: now}
	return &Reader{Reader: amdgpu.NewReader(reading.AMD(d), with), device: d, now: now}
}

// Device returns the device that is read.
func (r *Reader) Device() gpu.Slot { return r.device }

// Read reads the device. seen holds the signs of faults from other sources.
func (r *Reader) Read(seen reading.Seen) reading.State {
	s := r.Reader.Read()
	now := r.now()
	r.hangs.End(now, &s, seen)
	return reading.State{State: s, Hangs: r.hangs.Now(now)}
}

// ReadPartition reads only the identity and the partition's own values.
func (r *Reader) ReadPartition() reading.State { return reading.State{State: r.Reader.ReadPartition()} }

// Missed records that a reading did not return in time, and returns the GPU's hangs.
func (r *Reader) Missed(now time.Time) reading.Hangs {
	r.hangs.Missed(now)
	return r.hangs.Now(now)
}
