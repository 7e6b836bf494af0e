package host

import "time"

// Clock provides the time and waits. Hooks use no other clock.
type Clock interface {
	Now() time.Time
	Sleep(d time.Duration)
}

// WallClock is the machine's own clock.
type WallClock struct{}

// Now returns the current time.
func (WallClock) Now() time.Time { return time.Now() }

// Sleep waits.
func (WallClock) Sleep(d time.Duration) { time.Sleep(d) }

// Host is a machine with its files, commands and clock.
type Host struct {
	Root
	Runner
	Clock
}

// New returns the running machine, with its files below root ("" or "/" for the machine's
// own).
func New(root string) Host { return Host{Root: Root(root), Runner: Exec{}, Clock: WallClock{}} }
