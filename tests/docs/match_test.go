package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// matcher tells whether the code can print a text. A text matches a pattern
// when its holes are filled with single words, with <names in brackets>, with lists
// of these, or with text that some pattern prints. In the text "..." leaves
// out anything, unless the pattern has it too.
type matcher struct {
	patterns [][]rune
	longest  []string // of each pattern, the longest part without a hole
	known    map[string]bool
}

const elision = '\uE002'

var (
	letters = regexp.MustCompile(`\pL{3}`)
	value   = regexp.MustCompile(`^(?:<[^<>]*>|[^\s<>])+(?:(?:, | and )(?:<[^<>]*>|[^\s<>])+)*$`)
)

func newMatcher(patterns []string) *matcher {
	m := &matcher{known: map[string]bool{}}
	for _, p := range patterns {
		if letters.MatchString(longest(p)) { // others would fit nearly everything
			m.join(p)
		}
	}
	m.join(hole + ": " + hole)
	m.join(hole + "; " + hole)
	return m
}

// join adds a pattern of which little but holes is there.
func (m *matcher) join(p string) {
	m.patterns = append(m.patterns, []rune(p))
	m.longest = append(m.longest, longest(p))
}

func longest(p string) string {
	return slices.MaxFunc(strings.Split(p, hole), func(a, b string) int { return len(a) - len(b) })
}

// prints reports whether some pattern prints the text.
func (m *matcher) prints(text string) bool {
	if m.filled([]rune(text), false) {
		return true
	}
	cut := strings.TrimSpace(strings.ReplaceAll(text, "...", string(elision)))
	if !strings.ContainsRune(cut, elision) {
		return false
	}
	if !letters.MatchString(cut) {
		return false
	}
	for part := range strings.SplitSeq(cut, string(elision)) {
		if part != "" && (!letters.MatchString(part) || !strings.Contains(strings.TrimSpace(part), " ")) {
			return false // so little that it would match anywhere
		}
	}
	return m.filled([]rune(cut), false)
}

// filled reports whether the text may stand in a hole: as a value, or as the
// text of a pattern.
func (m *matcher) filled(text []rune, asValue bool) bool {
	s := string(text)
	if asValue && (value.MatchString(s) || s == string(elision)) {
		return true
	}
	if known, ok := m.known[s]; ok {
		return known
	}
	m.known[s] = false // a text can't be its own part
	for i, p := range m.patterns {
		if !slices.Contains(text, elision) && !strings.Contains(s, m.longest[i]) {
			continue
		}
		if m.unify(text, p) {
			m.known[s] = true
			return true
		}
	}
	return false
}

func (m *matcher) unify(text, p []rune) bool {
	switch {
	case len(p) == 0:
		return len(text) == 0 || string(text) == string(elision)
	case len(text) == 0:
		return false
	case text[0] == elision:
		return m.unify(text[1:], p) || m.unify(text, p[1:])
	case string(p[0]) == hole:
		for k := len(text); k > 0; k-- {
			if m.unify(text[k:], p[1:]) && m.filled(text[:k], true) {
				return true
			}
		}
		return false
	}
	return text[0] == p[0] && m.unify(text[1:], p[1:])
}

func TestMatcherTellsTextsFromOthers(t *testing.T) {
	m := newMatcher([]string{
		hole + " is not one of " + hole, "no /dev/kfd", hole + " — run: lxc restart " + hole,
		"Worker not ready: " + hole + "; see journalctl", "mode " + hole + " of " + hole,
	})
	for text, want := range map[string]bool{
		`runtime: "x" is not one of none, auto, rocm`:    true,
		`runtime: "x" is not some of none, auto`:         false,
		"no /dev/kfd — run: lxc restart c1":              true,
		"no /dev/kfx — run: lxc restart c1":              false,
		"no more kfd — run: lxc restart c1":              false,
		"Worker not ready: ...":                          true,
		"Worker ready: ...":                              false,
		"Worker not ready: <the reason>; see journalctl": true,
		"mode 0660 of anything at all":                   false,
		"no /dev/kfd; mode 0660 of x":                    true,
		"ready ... not ready: x":                         false,
		"...":                                            false,
	} {
		require.Equal(t, want, m.prints(text), text)
	}
}
