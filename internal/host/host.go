package host

import "time"

// Clock tells the time. Nothing below the main packages asks the machine.
type Clock interface{ Now() time.Time }

// WallClock is the machine's own clock.
type WallClock struct{}

// Now returns the current time.
func (WallClock) Now() time.Time { return time.Now() }

// Host is a machine: its files, its commands and its clock.
type Host struct {
	Root
	Runner
	Clock
}

// New returns the running machine, with its files below root ("" or "/" for
// the machine's own).
func New(root string) Host { return Host{Root: Root(root), Runner: Exec{}, Clock: WallClock{}} }
