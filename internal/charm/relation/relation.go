// Package relation reads and writes the databags of the charm's relations. Outside
// interfaces and the libraries that define them:
//
//   - prometheus_scrape (v0) and cos_agent (v0, with cosl)
//   - postgresql_client (data_interfaces v0)
//   - vault-kv, tls-certificates (v1 to v4), certificate_transfer (v0 and v1)
//   - ldap (v0), tracing (v0), haproxy-route (v2)
//
// concourse-ci_tsa is the charm's own interface. Values from other charms are checked here
// before use. A problem names the key and never quotes a secret. All functions are pure: the
// package calls no hook tool, reads no file, and never decides when or to whom a databag is
// published.
package relation

import "github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"

// Job describes a Prometheus target that serves /metrics.
type Job struct {
	// Name is the job's name. Both sides add a prefix or suffix. The alert for an exporter
	// that is down searches for it in the label job.
	Name string
	Port int
	Host string // of one unit; "" means every unit that published its address
}

// ExporterJob returns the job of rocm-exporter.
func ExporterJob() Job { return Job{Name: "rocm-exporter", Port: wellknown.GPUsPort} }

// Topology identifies the source of metrics.
type Topology struct {
	Model     string
	ModelUUID string
	App       string
	Unit      string // "app/0"
	Charm     string // the charm's name, which the application need not have
	FleetPage string // URL for the annotation fleet_url of alerts, "" if it is unknown
}

// identifier returns a name of the application that is unique across models, as cosl does.
func (t Topology) identifier() string {
	return t.Model + "_" + t.ModelUUID[:min(8, len(t.ModelUUID))] + "_" + t.App
}

// Changes returns the keys to set so that databag own becomes want. A key with an empty
// value is removed, as relation-set does. Only the given keys are compared: the others
// belong to another interface.
func Changes(own, want map[string]string, keys []string) map[string]string {
	out := map[string]string{}
	for _, key := range keys {
		if own[key] != want[key] {
			out[key] = want[key]
		}
	}
	return out
}

// CatalogueEntry returns the application's databag of catalogue (library catalogue_k8s
// catalogue v1, consumer): the page of all workers at url. Without a url each key has an
// empty value, which removes it.
func CatalogueEntry(app, url string) map[string]string {
	bag := map[string]string{"name": "", "url": "", "icon": "", "description": ""}
	if url == "" {
		return bag
	}
	bag["name"], bag["url"], bag["icon"] = "GPUs of "+app, url, "expansion-card" // an icon of Material Design
	bag["description"] = "Workers and GPUs of Concourse: who uses them, what waits, and which GPUs are quarantined"
	return bag
}
