package exporter

import (
	"context"
	"encoding/json"
	"time"
)

// reportUsers looks at who uses the GPUs and writes it down until stop is done,
// for an exporter that may not look: that one serves the network and has no
// rights, this one has them and serves nobody. alive is called before each look.
func (c *Collector) reportUsers(stop context.Context, path string, alive func() error) error {
	tick := time.NewTicker(c.options.UsageInterval)
	defer tick.Stop()
	for {
		err := alive()
		if err == nil {
			err = c.reportLook(stop, path)
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
func (c *Collector) reportLook(ctx context.Context, path string) error {
	before := c.users.scanner.Last()
	c.search(time.After(Deadline))
	c.readUsers(ctx)
	r := c.users.scanner.Last()
	if r == before {
		return nil
	}
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return c.root.WriteFile(path, append(data, '\n'), 0o644)
}
