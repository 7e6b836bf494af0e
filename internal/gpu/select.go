package gpu

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Select picks GPUs by what an operator wrote into the option gpu-device-ids:
// "all" (also for an empty text), or a list of indexes ("0"), ranges ("2-3"),
// PCI addresses ("0000:03:00.0", "03:00.0"; all partitions of that GPU) and
// unique ids ("GPU-" and 16 hex digits), with commas between, in any case.
// gpus is one vendor's list, whose places are the indexes; the chosen come in
// its order.
//
// Every problem is reported, each as a whole status text; with any problem
// nothing is chosen. The work grows with the text and the GPUs, never with
// the size of a number.
func Select(gpus []GPU, spec string) (chosen []GPU, problems []string) {
	spec = strings.TrimSpace(spec)
	if spec == "" || strings.EqualFold(spec, "all") {
		return slices.Clone(gpus), nil
	}
	s := selection{gpus: gpus, by: make([]string, len(gpus))}
	for part := range strings.SplitSeq(spec, ",") {
		s.add(strings.TrimSpace(part))
	}
	if len(s.problems) > 0 {
		return nil, s.problems
	}
	for i, by := range s.by {
		if by != "" {
			chosen = append(chosen, gpus[i])
		}
	}
	return chosen, nil
}

type selection struct {
	gpus     []GPU
	by       []string // by which part of the text a GPU was chosen
	problems []string
}

// problem reports what is wrong with a part of the text, which is shortened
// where somebody pasted a file.
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
		s.problem(part, "stands alone; it cannot be combined with other entries")
	case strings.HasPrefix(lower, "gpu-"):
		s.matchID(part, lower[len("gpu-"):])
	case strings.Contains(part, ":"):
		want, ok := parseAddress(part)
		if !ok {
			s.problem(part, "is not a PCI address such as 0000:03:00.0")
			return
		}
		s.match(part, func(g GPU) bool {
			a, isAddr := parseAddress(g.PCI)
			return isAddr && a == want
		})
	case part[0] == '-' && isDigits(part[1:]):
		s.problem(part, "is negative; %s", s.have())
	case isDigits(part):
		s.span(part, part, part)
	default:
		from, to, found := strings.Cut(part, "-")
		from, to = strings.TrimSpace(from), strings.TrimSpace(to)
		if !found || !isDigits(from) || !isDigits(to) {
			s.problem(part, "is not all, an index, a range such as 0-1, a PCI address or GPU-<unique id>; %s", s.have())
			return
		}
		s.span(part, from, to)
	}
}

// matchID chooses by unique id. One that older kernels give all partitions of a GPU
// stands at the first of them alone, and names them all, as the address does.
func (s *selection) matchID(part, id string) {
	owner := slices.IndexFunc(s.gpus, func(g GPU) bool { return g.UniqueID != "" && g.UniqueID == id })
	s.match(part, func(g GPU) bool {
		return owner >= 0 && (g.UniqueID == id || g.UniqueID == "" && g.PCI == s.gpus[owner].PCI)
	})
}

// match chooses the GPUs that fit; an address fits all partitions.
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
		s.problem(part, "is not a GPU of this unit; %s", s.have())
	}
}

// span chooses the indexes from..to, which are the same for a single one.
func (s *selection) span(part, from, to string) {
	a, b := index(from), index(to)
	switch {
	case greater(from, to):
		s.problem(part, "runs backwards")
	case b >= len(s.gpus):
		what := "is not a GPU of this unit"
		if a < len(s.gpus) {
			what = "reaches beyond the GPUs of this unit"
		}
		s.problem(part, "%s; %s", what, s.have())
	default:
		for i := a; i <= b; i++ {
			if !s.choose(i, part) {
				return
			}
		}
	}
}

// choose reports a GPU that was chosen before, once for a part of the text.
func (s *selection) choose(i int, part string) bool {
	if s.by[i] != "" {
		s.problem(part, "names GPU %d, which %q named before", i, s.by[i])
		return false
	}
	s.by[i] = part
	return true
}

// have says what the unit has: "it has 0, 1".
func (s *selection) have() string {
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

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// index is the number, or one beyond every list for numbers of any length.
func index(digits string) int {
	digits = strings.TrimLeft(digits, "0")
	if len(digits) > 9 {
		return 1 << 30
	}
	n, _ := strconv.Atoi("0" + digits)
	return n
}

// greater reports whether the number a is greater than b, of any length.
func greater(a, b string) bool {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	return len(a) > len(b) || len(a) == len(b) && a > b
}
