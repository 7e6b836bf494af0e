package worker

import (
	"slices"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/relation"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
)

// A web that starts takes up the running builds again. A build errors if the worker of its
// running task has other tags by then. So a worker that gets other tags keeps everything of
// its tasks until they have ended, at most for worker-drain-timeout.

// heldFile has the time until which the worker keeps its tags.
const heldFile = wellknown.StateDir + "/tags-held"

// tagsKey is the variable with the worker's tags.
const tagsKey = "CONCOURSE_TAG"

// observeHeldTags reads the input of holdTags.
func (o *Observed) observeHeldTags(r host.Root) (err error) {
	if o.RunningTasks, err = concourse.RunningTasks(r); err != nil {
		return err
	}
	if o.WebKey, err = role.ReadOptional(r, concourse.TSAHostKey); err != nil {
		return err
	}
	_, o.InstalledID, _ = release.Installed(r)
	o.Exports = r.Exists(role.ExporterLayer)
	text, err := role.ReadOptional(r, heldFile)
	if text != "" {
		o.HeldUntil, _ = time.Parse(time.RFC3339, strings.TrimSpace(text)) // an unreadable time is over
	}
	return err
}

// heldTags holds the decision of holdTags.
type heldTags struct {
	part
	holds bool
}

// holdTags decides whether the worker keeps its tags for now. It does not wait if its last GPU
// was quarantined, or if its web or release changes.
func holdTags(o Observed, g GPUs) (h heldTags) {
	before := concourse.EnvValues(o.WorkerEnv)
	until, limit := o.HeldUntil, o.Now.Add(o.Config.Worker.DrainTimeout).UTC().Truncate(time.Second)
	if until.IsZero() || until.After(limit) { // the option became shorter, or the clock was set back
		until = limit
	}
	h.holds = o.RunningTasks > 0 && o.Units[concourse.Unit].Running() && registers(o) && !o.Landed && !o.TakesOver &&
		before[tagsKey] != strings.Join(workerTags(o, g), ",") && !(g.Requested && len(g.Tagged) == 0) &&
		hasAll(o.TSA.Hosts, before["CONCOURSE_TSA_HOST"], ",") &&
		hasAll(o.TSA.HostKeys, strings.TrimSpace(o.WebKey), "\n") &&
		o.InstalledID == o.ReleaseID && until.After(o.Now)
	if !h.holds {
		h.add(resource.Absent{Path: heldFile, Why: "no tag waits for tasks"})
		return h
	}
	h.add(resource.File{Path: heldFile, Data: []byte(until.Format(time.RFC3339) + "\n"), Mode: 0o600})
	h.cause(rankWorker, status.Warn("new tags wait for running tasks: %d", o.RunningTasks).
		Explain("%s; the worker and its GPUs stay as they are until %s at the latest (worker-drain-timeout)",
			strings.Join(changedTags(before[tagsKey], workerTags(o, g)), " "), until.Format("15:04 UTC")))
	return h
}

// keepGPUs keeps the published and recorded GPUs and their services, because the tasks still
// use them.
func (w *Worker) keepGPUs(o Observed) {
	web := o.Facts.Flights
	if o.Facts.LeaderIsWeb() && o.Facts.Peer != nil {
		web = []model.Relation{*o.Facts.Peer}
	}
	w.GPUs = relation.WorkerGPUs{}
	for _, r := range web { // at most one, because a worker of more holds no tags
		w.GPUs, _ = relation.ParseWorkerGPUs(r.Own)
	}
	w.Known, w.Exporter, w.Watches = o.Known, o.Exports, o.Exports && w.GPUs.Count > 0
	if !o.Units[w.Kubernetes].Running() {
		w.Kubernetes = ""
	}
}

// hasAll reports whether all parts of a text are in the list. A web that is added can wait.
func hasAll(list []string, text, separator string) bool {
	for part := range strings.SplitSeq(text, separator) {
		if !slices.Contains(list, part) {
			return false
		}
	}
	return true
}

// changedTags returns the new tags with + and the old ones with -.
func changedTags(before string, now []string) (all []string) {
	old := strings.Split(before, ",")
	for _, t := range now {
		if !slices.Contains(old, t) {
			all = append(all, "+"+t)
		}
	}
	for _, t := range old {
		if t != "" && !slices.Contains(now, t) {
			all = append(all, "-"+t)
		}
	}
	return all
}
