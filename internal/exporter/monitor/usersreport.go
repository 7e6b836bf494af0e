package monitor

import (
	"context"
	"encoding/json"
	"time"
)

// ReportUsers looks at who uses the GPUs and writes it down until stop is done,
// for an exporter that may not look: that one serves the network and has no
// rights, this one has them and serves nobody. alive is called before each look.
func (m *Monitor) ReportUsers(stop context.Context, path string, alive func() error) error {
	tick := time.NewTicker(m.options.UsageInterval)
	defer tick.Stop()
	for {
		err := alive()
		if err == nil {
			err = m.reportLook(stop, path)
		}
		if err != nil {
			return err
		}
		select {
		case <-stop.Done():
			return nil
		case <-tick.C:
		}
	}
}

// reportLook looks once. Without a GPU it writes nothing: what was written before
// is soon too old to be shown.
func (m *Monitor) reportLook(ctx context.Context, path string) error {
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
