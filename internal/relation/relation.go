// Package relation makes what the charm publishes for monitoring: the databags
// of the interfaces prometheus_scrape and cos_agent, as the charm libraries of
// Canonical's observability stack read them (prometheus_scrape v0, cos_agent v0
// and cosl). Everything here is a pure function of its arguments: it calls no
// hook tool, reads no file and decides neither when nor where data is published.
package relation

// ExporterPort is where rocm-exporter serves /metrics.
const ExporterPort = 9401

// exporterJob is the job's name. Both sides put something before or after it;
// the alert on an exporter that is down looks for it in the label job.
const exporterJob = "rocm-exporter"

// Topology says whose metrics these are.
type Topology struct {
	Model     string
	ModelUUID string
	App       string
	Unit      string // "app/0"
	Charm     string // the charm's name, which the application need not have
}

// identifier names an application across models, as cosl does it.
func (t Topology) identifier() string {
	return t.Model + "_" + t.ModelUUID[:min(8, len(t.ModelUUID))] + "_" + t.App
}

// Changes are the keys to set so that a bag that is own becomes want; a key to
// remove has an empty value, as relation-set has it. Keys that are not of want's
// interface are left alone: those are the ones in of.
func Changes(own, want map[string]string, of []string) map[string]string {
	out := map[string]string{}
	for _, key := range of {
		if own[key] != want[key] {
			out[key] = want[key]
		}
	}
	return out
}
