package monitor

import (
	"context"
	"log"
	"os"
)

// Reload makes the next snapshot look for GPUs, open all their files anew, and look
// for those that were absent. What was counted stays. It waits for nothing, also
// where a GPU hangs.
func (m *Monitor) Reload() {
	m.again.Store(true)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.readers {
		r.Reopen()
	}
}

// Reloads does so at each signal.
func (m *Monitor) Reloads(stop context.Context, again <-chan os.Signal, logs *log.Logger) {
	for {
		select {
		case <-stop.Done():
			return
		case <-again:
			m.Reload()
			logs.Print("the next scrape opens everything anew")
		}
	}
}
