// Package units formats numbers, sizes and ages for people. It parses nothing and needs only
// the standard library, because the wrapper uses it.
package units

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Decimal units, as disks and memory are sold.
const GB = 1_000_000_000 // bytes

// Bytes formats a size with one binary unit: 12 KiB, 1.5 GiB.
func Bytes(n float64) string {
	for _, unit := range []string{"B", "KiB", "MiB"} {
		if n < 1024 {
			return fmt.Sprintf("%.0f %s", n, unit)
		}
		n /= 1024
	}
	return fmt.Sprintf("%.1f GiB", n)
}

// FormatGiB formats a size in GiB: 0.3 GiB.
func FormatGiB(bytes float64) string { return fmt.Sprintf("%.1f GiB", bytes/(1<<30)) }

// FormatGB formats a size in decimal gigabytes: 9.5 GB.
func FormatGB(bytes uint64) string { return fmt.Sprintf("%.1f GB", float64(bytes)/GB) }

// Duration formats a duration: below a minute with tenths of a second, otherwise in whole
// seconds.
func Duration(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%.1fs", max(0, d.Seconds()))
	}
	return d.Truncate(time.Second).String()
}

// Age formats a duration with one unit: 40s, 12m, 26h, 3d.
func Age(d time.Duration) string {
	switch d = max(0, d); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}

// Ago formats the age of an event: now, 12m ago.
func Ago(d time.Duration) string {
	if d < time.Minute {
		return "now"
	}
	return Age(d) + " ago"
}

// Count formats a number of things: 1 GPU, 2 GPUs, 3 processes.
func Count(n int, thing string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(thing, "s"):
		thing += "es"
	default:
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// JoulesPerKWh converts kilowatt-hours into joules.
const JoulesPerKWh = 3.6e6

// ParseBytes reads a size of memory: bytes, or a number with KiB, MiB, GiB or TiB. K, KB and
// so on mean the same, because memory has no decimal sizes.
func ParseBytes(text string) (uint64, error) {
	digits := strings.TrimRight(text, "KMGTiBkmgtb ")
	unit := strings.ToUpper(strings.TrimSpace(text[len(digits):]))
	unit = strings.TrimSuffix(strings.TrimSuffix(unit, "B"), "I")
	shift, known := map[string]int{"": 0, "K": 10, "M": 20, "G": 30, "T": 40}[unit]
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil || !known || !(n > 0 && n < 1<<20) && unit != "" || !(n > 0 && n < 1<<60) {
		return 0, fmt.Errorf("%q is not a size such as 40GiB", text)
	}
	return uint64(n * float64(uint64(1)<<shift)), nil
}
