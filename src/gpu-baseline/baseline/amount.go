package baseline

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Amount is seconds or MB, in millionths. Whole numbers make differences exact: as
// floating point, 1.1 is more than 10 % above 1.0.
type Amount int64

// perUnit is how many of an Amount make a second or a MB.
const perUnit = 1_000_000

// maxAmount is the largest number that is believed: a billion seconds are 31
// years, a billion MB a petabyte.
const maxAmount = 1e9

// parseAmount reads a decimal number from 0 to a billion and rounds it to
// millionths. The error goes on after the name of what was read.
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

// String is the shortest decimal number.
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

// Percent is a change, rounded to four decimals. What is printed is what is
// compared with a limit.
type Percent float64

// percent is how much delta is of base; nil where base is zero, of which nothing
// is a percentage.
func percent(delta, base Amount) *Percent {
	if base == 0 {
		return nil
	}
	p := Percent(math.Round(float64(delta)/float64(base)*1e6) / 1e4)
	if p == 0 {
		p = 0 // and not -0
	}
	return &p
}

// parsePercent reads a limit.
func parsePercent(s string) (Percent, error) {
	a, err := parseAmount(s)
	return Percent(float64(a) / perUnit), err
}

func (p Percent) String() string { return strconv.FormatFloat(float64(p), 'f', -1, 64) }

// MarshalJSON writes a number.
func (p Percent) MarshalJSON() ([]byte, error) { return []byte(p.String()), nil }

// signed puts a plus before what grew.
func signed(s string) string {
	if s == "0" || strings.HasPrefix(s, "-") {
		return s
	}
	return "+" + s
}
