package exporter

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// LeaseReport is who leases this unit's GPUs, as a process that may see it wrote
// it down: leases and the processes that hold them are root's to look at.
type LeaseReport struct {
	At       time.Time     `json:"at"`
	GPUs     []LeasedGPU   `json:"gpus"`
	Waiting  []LeaseWaiter `json:"waiting"` // first come, first served
	Counters LeaseCounters `json:"since_boot"`
}

// LeasedGPU is one GPU's lease.
type LeasedGPU struct {
	Name      string     `json:"name"`            // see LeaseName
	Index     *int       `json:"index,omitempty"` // the number that gpu-device-ids takes; nil for a GPU that is gone
	PCI       string     `json:"pci,omitempty"`
	Held      bool       `json:"held"`
	Container string     `json:"container,omitempty"` // that holds it
	Since     *time.Time `json:"since,omitempty"`
	PID       int        `json:"pid,omitempty"`   // of the container's init
	Doubt     string     `json:"doubt,omitempty"` // why it counts as held though that can't be seen
}

// LeaseWaiter is a task's start that waits for GPUs.
type LeaseWaiter struct {
	Container string    `json:"container"`
	Count     int       `json:"count"`
	Of        []string  `json:"of,omitempty"` // the GPUs it would take; none: any
	Since     time.Time `json:"since"`
	Deadline  time.Time `json:"deadline"`
}

// LeaseCounters count since the boot.
type LeaseCounters struct {
	Granted       uint64  `json:"granted"`
	Waited        uint64  `json:"waited"` // of these
	Busy          uint64  `json:"refused_busy"`
	Timeout       uint64  `json:"refused_timeout"`
	Impossible    uint64  `json:"refused_impossible"`
	WaitedSeconds float64 `json:"waited_seconds"`
	HeldSeconds   float64 `json:"held_seconds"`
}

// LeaseName is the name that a GPU's lease has: the one of its CDI device.
func LeaseName(uniqueID string, index int) string {
	if uniqueID != "" {
		return "GPU-" + uniqueID
	}
	return strconv.Itoa(index)
}

// maxReport is more than a report of 512 GPUs has.
const maxReport = 1 << 20

// readLeases reads a report; nil is that there is none yet.
func readLeases(path string) (*LeaseReport, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxReport+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxReport {
		return nil, fmt.Errorf("cannot read %s: it has more than %d bytes", path, maxReport)
	}
	var r LeaseReport
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", path, err)
	}
	return &r, nil
}
