package monitor

import "concourse-ci-machine/internal/pool/quarantine"

// readService reads once a snapshot which GPUs are withheld. However old that is, it is
// what counts: the wrapper goes by it.
func (m *Monitor) readService() *quarantine.Record {
	if m.options.Service == "" {
		return nil
	}
	return decodeReport[quarantine.Record](m, "service", m.readReport("service", m.options.Service))
}
