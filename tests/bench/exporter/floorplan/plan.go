// Package floorplan describes what the benchmark has its floor serve. It has no part in the
// charm.
package floorplan

// Plan is one scrape.
type Plan struct {
	Files []string // each is read once in a scrape
	Parts []Part   // in the order in which they are written
}

// Part is a text, and after it a number if Value is set.
type Part struct {
	Text         string
	Value        bool
	File         int // place in Files
	Offset, Size int // of a little-endian number; Size 0: the file is a decimal number
	Times, Per   float64
}
