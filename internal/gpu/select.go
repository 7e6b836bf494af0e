package gpu

import (
	"fmt"
	"github.com/fourdollars/concourse-ci-machine/internal/base/pci"
	"slices"
	"strconv"
	"strings"
)

// Select returns the GPUs that an operator selected with the option gpu-device-ids. Its
// value is "all" (or empty) for the GPUs of ForTasks, or a list of entries with commas, in any case:
//
//   - indexes ("0") and ranges ("2-3")
//   - PCI addresses ("0000:03:00.0", "03:00.0"), which select all partitions of a GPU
//   - unique ids ("GPU-" and 16 hex digits)
//
// gpus is one vendor's list, in which the indexes are positions. The result has its order.
// Every problem is reported as a whole status text, and any problem makes the result empty.
// The work grows with the text and the GPUs, never with the size of a number.
func Select(gpus []GPU, spec string) (chosen []GPU, problems []string) {
	spec = strings.TrimSpace(spec)
	if spec == "" || strings.EqualFold(spec, "all") {
		return ForTasks(gpus), nil
	}
	s := selection{gpus: gpus, chosenBy: make([]string, len(gpus))}
	for part := range strings.SplitSeq(spec, ",") {
		s.add(strings.TrimSpace(part))
	}
	if len(s.problems) > 0 {
		return nil, s.problems
	}
	for i, by := range s.chosenBy {
		if by != "" {
			chosen = append(chosen, gpus[i])
		}
	}
	return chosen, nil
}

// ForTasks returns the GPUs for those who name none: all but integrated ones beside a card.
func ForTasks(gpus []GPU) []GPU {
	return slices.DeleteFunc(slices.Clone(gpus), func(g GPU) bool { return g.BesideCard })
}

type selection struct {
	gpus     []GPU
	chosenBy []string // the part of the text that selected each GPU
	problems []string
}

// problem reports a problem of a part of the text, which is shortened in case a file was
// pasted.
func (s *selection) problem(part, format string, args ...any) {
	if len(part) > 60 {
		part = strings.ToValidUTF8(part[:60], "") + "..."
	}
	s.problems = append(s.problems, fmt.Sprintf("gpu-device-ids: %q %s", part, fmt.Sprintf(format, args...)))
}

func (s *selection) add(part string) {
	lower := strings.ToLower(part)
	switch {
	case part == "":
		s.problems = append(s.problems,
			"gpu-device-ids: there is an empty entry; write indexes with one comma between them")
	case lower == "all":
		s.problem(part, "cannot be combined with other entries")
	case strings.HasPrefix(lower, "gpu-"):
		s.matchID(part, lower[len("gpu-"):])
	case strings.Contains(part, ":"):
		want, ok := pci.Parse(part)
		if !ok {
			s.problem(part, "is not a PCI address such as 0000:03:00.0")
			return
		}
		s.match(part, func(g GPU) bool {
			a, isAddr := pci.Parse(g.PCI)
			return isAddr && a == want
		})
	case part[0] == '-' && isDigits(part[1:]):
		s.problem(part, "is negative; %s", s.available())
	case isDigits(part):
		s.span(part, part, part)
	default:
		from, to, found := strings.Cut(part, "-")
		from, to = strings.TrimSpace(from), strings.TrimSpace(to)
		if !found || !isDigits(from) || !isDigits(to) {
			s.problem(part, "is not all, an index, a range such as 0-1, a PCI address or GPU-<unique id>")
			return
		}
		s.span(part, from, to)
	}
}

// matchID selects by unique id. Older kernels give all partitions of a GPU one id, which
// only the first partition keeps. It then selects all of them, as the address does.
func (s *selection) matchID(part, id string) {
	owner := slices.IndexFunc(s.gpus, func(g GPU) bool { return g.UniqueID != "" && g.UniqueID == id })
	s.match(part, func(g GPU) bool {
		return owner >= 0 && (g.UniqueID == id || g.UniqueID == "" && g.PCI == s.gpus[owner].PCI)
	})
}

// match selects the GPUs that fit; an address fits all partitions.
func (s *selection) match(part string, fits func(GPU) bool) {
	none := true
	for i, g := range s.gpus {
		if fits(g) {
			none = false
			if !s.choose(i, part) {
				return
			}
		}
	}
	if none {
		s.problem(part, "is not a GPU of this machine; %s", s.available())
	}
}

// span selects the indexes from..to, which are equal for a single index.
func (s *selection) span(part, from, to string) {
	a, b := index(from), index(to)
	switch {
	case greater(from, to):
		s.problem(part, "runs backwards")
	case b >= len(s.gpus):
		what := "is not a GPU of this machine"
		if a < len(s.gpus) {
			what = "reaches beyond the GPUs of this machine"
		}
		s.problem(part, "%s; %s", what, s.available())
	default:
		for i := a; i <= b; i++ {
			if !s.choose(i, part) {
				return
			}
		}
	}
}

// choose reports a GPU that was already selected, once for a part of the text.
func (s *selection) choose(i int, part string) bool {
	if s.chosenBy[i] != "" {
		s.problem(part, "names GPU %d, which %q named before", i, s.chosenBy[i])
		return false
	}
	s.chosenBy[i] = part
	return true
}

// available lists the indexes of the unit: "it has 0, 1".
func (s *selection) available() string {
	switch n := len(s.gpus); {
	case n == 0:
		return "it has none"
	case n > 8:
		return fmt.Sprintf("it has 0-%d", n-1)
	default:
		list := make([]string, n)
		for i := range list {
			list[i] = strconv.Itoa(i)
		}
		return "it has " + strings.Join(list, ", ")
	}
}

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// index converts digits to a number. Numbers of more than nine digits become an index
// beyond every list.
func index(digits string) int {
	if len(digits) > 9 {
		return 1 << 30
	}
	n, _ := strconv.Atoi(digits)
	return n
}

// greater reports whether the number a is greater than b, at any length.
func greater(a, b string) bool {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	return len(a) > len(b) || len(a) == len(b) && a > b
}
