// Package baseline compares profiles of the same examples and reports whether slower or
// bigger examples stay within limits. It compares two profiles (compare), finds the commit
// in a history (bisect), and measures two commits in turns (ab). It is the program
// gpu-baseline, and `dispatch gpu-baseline`. It needs only Go's standard library and the
// package that runs commands, so that tasks can download a small program. It never measures
// anything itself and never changes a profile.
package baseline

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Status names the result of an example.
type Status string

const (
	StatusOK      Status = "ok"
	StatusFailed  Status = "failed"
	StatusSkipped Status = "skipped"
)

// words are the statuses in profiles, whatever their case. Unknown words are refused: as a
// failure in both profiles, such a word would prevent an example from ever being compared.
var words = map[string]Status{
	"ok": StatusOK, "pass": StatusOK, "passed": StatusOK, "success": StatusOK, "succeeded": StatusOK,
	"fail": StatusFailed, "failed": StatusFailed, "failure": StatusFailed, "error": StatusFailed,
	"timeout": StatusFailed, "crashed": StatusFailed, "oom": StatusFailed,
	"skip": StatusSkipped, "skipped": StatusSkipped,
}

// Measured has the values of one example in a profile. A nil number was not measured.
type Measured struct {
	Status   Status  `json:"status"`
	Duration *Amount `json:"duration_s"`     // seconds
	Memory   *Amount `json:"peak_memory_mb"` // MB of 1,000,000 bytes, never converted
	Energy   *Amount `json:"energy_j,omitempty"`
	Error    string  `json:"error,omitempty"` // why the example failed, as its profiler wrote it
}

// Example describes one example of a profile.
type Example struct {
	Name string
	Measured
}

// Profile has the examples of one file, in its order. Each name occurs once.
type Profile struct {
	File     string // as the caller named it
	Examples []Example
	Doubt    string // why the unit marked the measurement as invalid, or ""
}

// find returns the example with a name.
func (p Profile) find(name string) (Example, bool) {
	for _, e := range p.Examples {
		if e.Name == name {
			return e, true
		}
	}
	return Example{}, false
}

// Amount counts seconds, MB or joules, in millionths. Whole numbers make differences exact:
// as floating point, 1.1 is more than 10 % above 1.0.
type Amount int64

// perUnit is the Amount of one second, MB or joule.
const perUnit = 1_000_000

// maxAmount is the largest accepted number. A billion seconds are 31 years, and a billion
// MB are a petabyte.
const maxAmount = 1e9

// parseAmount parses a decimal number from 0 to a billion and rounds it to millionths. The
// error continues a text with the name of the number.
func parseAmount(s string) (Amount, error) {
	f, err := strconv.ParseFloat(s, 64)
	switch {
	case math.IsNaN(f), err != nil && !math.IsInf(f, 0):
		return 0, fmt.Errorf("is %s; want a number", short(s))
	case f < 0:
		return 0, fmt.Errorf("is %s; want 0 or more", short(s))
	case f > maxAmount:
		return 0, fmt.Errorf("is %s; want %d or less", short(s), int64(maxAmount))
	}
	return Amount(math.Round(f * perUnit)), nil
}

// String returns the shortest decimal number.
func (a Amount) String() string {
	sign, n := "", uint64(a)
	if a < 0 {
		sign, n = "-", -n
	}
	s := fmt.Sprintf("%s%d.%06d", sign, n/perUnit, n%perUnit)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// MarshalJSON writes a number.
func (a Amount) MarshalJSON() ([]byte, error) { return []byte(a.String()), nil }

// Percent expresses a change, rounded to four decimals. Limits are compared with the rounded
// value, so that the output explains the result.
type Percent float64

// percent returns delta as a percentage of base, or nil if base is zero.
func percent(delta, base Amount) *Percent {
	if base == 0 {
		return nil
	}
	p := Percent(math.Round(float64(delta)/float64(base)*1e6) / 1e4)
	if p == 0 {
		p = 0 // not -0
	}
	return &p
}

// parsePercent parses a limit.
func parsePercent(s string) (Percent, error) {
	a, err := parseAmount(s)
	return Percent(float64(a) / perUnit), err
}

func (p Percent) String() string { return strconv.FormatFloat(float64(p), 'f', -1, 64) }

// MarshalJSON writes a number.
func (p Percent) MarshalJSON() ([]byte, error) { return []byte(p.String()), nil }

// signed adds a plus to a positive number.
func signed(s string) string {
	if s == "0" || strings.HasPrefix(s, "-") {
		return s
	}
	return "+" + s
}
