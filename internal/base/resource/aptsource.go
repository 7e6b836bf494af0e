package resource

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/lazyregexp"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
)

// AptSource describes an apt repository as a deb822 file (sources.list(5)) in
// /etc/apt/sources.list.d, mode 0644, restricted to one key. A suite that ends in "/" is
// the path of a flat repository, which has no components.
type AptSource struct {
	Name          string // file name without .sources
	URIs          []string
	Suites        []string
	Components    []string
	Architectures []string
	SignedBy      string // path of the keyring
	Tolerate      bool   // see plan.Step
}

// aptFileName matches the names that apt reads in sources.list.d. It skips others.
var aptFileName = lazyregexp.New(`^[A-Za-z0-9_-]+$`)

// Path returns the file of the source.
func (s AptSource) Path() string { return "/etc/apt/" + s.list() }

// list returns the file relative to Dir::Etc, as apt's options need it.
func (s AptSource) list() string { return "sources.list.d/" + s.Name + ".sources" }

// Diff implements plan.Resource. A value with a blank or a line end is an error, because it
// would be two words or start another field.
func (s AptSource) Diff(ctx context.Context, h host.Host) (plan.Plan, error) {
	if !aptFileName().MatchString(s.Name) {
		return nil, fmt.Errorf("cannot write apt source %q: want a name of letters, digits, _ and -", s.Name)
	}
	var b strings.Builder
	b.WriteString("Types: deb\n")
	for _, f := range []struct {
		key    string
		values []string
	}{
		{"URIs", s.URIs}, {"Suites", s.Suites}, {"Components", s.Components},
		{"Architectures", s.Architectures}, {"Signed-By", []string{s.SignedBy}},
	} {
		for _, v := range f.values {
			if v == "" || strings.ContainsFunc(v,
				func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
				return nil, fmt.Errorf("cannot write apt source %s: %s has the value %q, want one word", s.Name,
					f.key, v)
			}
		}
		if f.key == "Components" && s.flat() {
			if len(f.values) > 0 {
				return nil, fmt.Errorf("cannot write apt source %s: a flat repository has no Components", s.Name)
			}
			continue
		}
		if len(f.values) == 0 {
			return nil, fmt.Errorf("cannot write apt source %s: %s is not given", s.Name, f.key)
		}
		fmt.Fprintf(&b, "%s: %s\n", f.key, strings.Join(f.values, " "))
	}
	p, err := File{Path: s.Path(), Data: []byte(b.String()), Mode: 0o644}.Diff(ctx, h)
	for i := range p {
		p[i].Tolerate = s.Tolerate
	}
	return p, err
}

func (s AptSource) flat() bool {
	return slices.ContainsFunc(s.Suites, func(suite string) bool { return strings.HasSuffix(suite, "/") })
}

// lists reports whether a file in /var/lib/apt/lists belongs to the source. apt names it
// after the URI, with "/" and other characters replaced by "_".
func (s AptSource) lists(file string) bool {
	for _, u := range s.URIs {
		_, rest, _ := strings.Cut(u, "://")
		own := strings.ReplaceAll(strings.TrimRight(rest, "/"), "/", "_")
		if strings.HasPrefix(file, own+"_dists_") || s.flat() && strings.HasPrefix(file, own+"_") &&
			!strings.Contains(file, "_dists_") {
			return true
		}
	}
	return false
}
