// Package relation is what the charm and the applications that it is related to
// write for each other: the databags of prometheus_scrape and cos_agent, as the
// libraries of Canonical's observability stack read them (prometheus_scrape v0,
// cos_agent v0 and cosl), and of concourse-ci_tsa, postgresql_client
// (data_interfaces v0), vault-kv, tls-certificates (v1 to v4), ldap (library v0), tracing
// (library v0), haproxy-route (library v2) and certificate_transfer (v0 and v1).
// What others wrote is checked here before anybody uses it; what is wrong is a problem that
// names the key, and never a secret. Everything here is a pure function of its
// arguments: it calls no hook tool, reads no file and decides neither when nor
// where data is published.
package relation

import "concourse-ci-machine/internal/base/wellknown"

// Job is something that listens for Prometheus at /metrics.
type Job struct {
	// Name is the job's name. Both sides put something before or after it; the
	// alert on an exporter that is down looks for it in the label job.
	Name string
	Port int
	Host string // of one unit; "" is every unit that gave its address
}

// ExporterJob is that of rocm-exporter.
func ExporterJob() Job { return Job{Name: "rocm-exporter", Port: wellknown.GPUsPort} }

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
