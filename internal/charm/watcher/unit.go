// Package watcher is a unit's GPUs as its tasks have them: who leases which, which are
// withheld and why, and what became of the tasks. It is the hands of package quarantine,
// which decides: Look runs each few seconds without Juju, and people withhold, return,
// prove and release by the same record.
package watcher

import (
	"golang.org/x/sys/unix"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/pool/lease"
)

// Unit is the machine whose GPUs are watched.
type Unit struct {
	Host        host.Host
	ExporterURL string // where the exporter lists its GPUs; "" for port 9401, of the machine's own root only
	WorkerURL   string // where the worker tells of its containers; "" for its port, of the machine's own root only
	// Start starts this program with arguments and waits for nothing; nil where it can't.
	Start func(args ...string) error
	// Signal ends processes that tasks left behind; nil: the kernel's, of the machine's own root only
	Signal func(lease.Process, unix.Signal) error
}
