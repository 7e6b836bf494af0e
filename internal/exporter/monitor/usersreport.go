package monitor

import (
	"context"
	"encoding/json"
	"time"
)

// ReportUsers looks once at who uses the GPUs and writes it down, for an exporter that may
// not look: that one serves the network and has no rights, this one has them and serves
// nobody. Without a GPU it writes nothing: what was written before is soon too old to be
// shown.
func (m *Monitor) ReportUsers(ctx context.Context, path string) error {
	before := m.users.scanner.Last()
	m.search(time.After(Deadline))
	m.readUsers(ctx)
	r := m.users.scanner.Last()
	if r == before {
		return nil
	}
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return m.root.WriteFile(path, append(data, '\n'), 0o644)
}
