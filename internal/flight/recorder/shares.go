package recorder

import (
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	gpuusage "github.com/fourdollars/concourse-ci-machine/internal/gpu/usage"
)

const (
	scanEvery = 5 * time.Second // to look for a new scan
	// oldScan is the age of a scan that is no longer of a task's present work.
	oldScan = time.Minute
)

// newShares reads the last scan of the GPUs' users, which another process makes each 15 s.
// It returns nil, unless the scan is newer than the previous one. The function sets a
// container's part of the work of a GPU's card, in millionths, and who worked. All tasks have
// equal parts if the work is unknown.
func (r *Recorder) newShares(now time.Time, used bool) func(c *container, g taskrecord.GPU, s taskrecord.Sample) {
	if r.Usage == "" || !used || now.Sub(r.gpus.looked).Abs() < scanEvery {
		return nil
	}
	r.gpus.looked = now
	scan, err := gpuusage.File(r.Usage).Read(r.Root)
	if err != nil || scan.At.Equal(r.gpus.scanned) || now.Sub(scan.At).Abs() > oldScan {
		return nil
	}
	r.gpus.scanned = scan.At
	shares := map[string]map[string]float64{}
	workers := map[string]map[string]bool{} // nil if it is not known who works
	return func(c *container, g taskrecord.GPU, s taskrecord.Sample) {
		of, known := shares[g.Card()]
		if !known {
			workers[g.Card()] = scan.Workers(g.Dies()...)
			of = scan.Shares(g.Dies()...)
			shares[g.Card()] = of
		}
		s.Values[taskrecord.Users] = users(workers[g.Card()], c.scanned())
		s.Values[taskrecord.Share] = int64(of[c.scanned()]*1e6 + .5)
		if of == nil {
			s.Values[taskrecord.Share] = 1_000_000 / max(1, s.Value(taskrecord.Tasks))
		}
	}
}

// users returns who worked on a card, for a task.
func users(workers map[string]bool, handle string) int64 {
	works, open := workers[handle]
	switch {
	case workers == nil:
		return taskrecord.Missing
	case works:
		return taskrecord.TaskWorks
	}
	for _, other := range workers {
		if other {
			return taskrecord.OthersWork
		}
	}
	if open {
		return taskrecord.TaskWaits
	}
	return taskrecord.NoUser
}
