// Package exporter serves the state of AMD GPUs to Prometheus, from sysfs, and
// who uses them, from /proc: no ROCm, no vendor library, no agent, and no privilege
// but to see other users' processes. It is the workload behind port 9401.
//
// It is made to be a good neighbour to the machine. It writes nothing but the
// report on users that it is asked for (--usage.write), never
// wakes a GPU that runtime power management has suspended, never reads
// xgmi_error (reading clears it), reads pcie_bw only when asked to and apart
// from any scrape (each read sleeps for a second in the kernel), and never lets
// one GPU whose driver hangs hold up the others. Processes are looked at beside
// the scrapes, within limits, and not in their memory or environment. A value
// that the hardware does not have is left out: it is never 0 and never a
// firmware's 65535.
package exporter

// Device is one GPU, or one partition of it, to report on.
type Device struct {
	Index     int    // the label gpu: place in the stable order, from 0
	PCI       string // "0000:03:00.0"; partitions have their parent's address
	Partition int    // 0 for a whole GPU or the first partition
	UniqueID  string // 16 hex digits, "" where the hardware has none
	Name      string
	GFX       string // "gfx1100", "" where it is not known
	Dir       string // machine path of the PCI device's directory in sysfs
	Own       string // the same, or that of the partition's own device; "" where it has none
}

// Source lists the GPUs to report on, by Index. It is asked when the lists of
// DRM devices and nodes have changed, and once a minute.
type Source func() ([]Device, error)
