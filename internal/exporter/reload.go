package exporter

import (
	"context"
	"log"
	"os"
)

// Reload makes the next scrape look for GPUs, open all their files anew, and look
// for those that were absent. What was counted stays. It waits for nothing, also
// where a GPU hangs.
func (c *Collector) Reload() {
	c.again.Store(true)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, card := range c.cards {
		card.again.Store(true)
	}
}

// reloads does so at each signal.
func (c *Collector) reloads(stop context.Context, again <-chan os.Signal, logs *log.Logger) {
	for {
		select {
		case <-stop.Done():
			return
		case <-again:
			c.Reload()
			logs.Print("the next scrape opens everything anew")
		}
	}
}
