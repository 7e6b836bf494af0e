package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/nvidia"
)

// format is a text of the product with verbs for its values. Text that is joined with
// other values has a verb for each of them.
type format struct {
	text    string
	literal string         // its longest part without a verb
	whole   *regexp.Regexp // with a group for each verb
}

// formats returns the texts that the product declares: each literal, or a sum with literals.
func formats(t *testing.T) (all []format) {
	t.Helper()
	seen := map[string]bool{}
	top := filepath.Join(root, "internal")
	require.NoError(t, filepath.WalkDir(top, func(name string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") || strings.Contains(name, "/testutil/") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			e, ok := n.(ast.Expr)
			if !ok {
				return true
			}
			text, fixed := joined(e)
			if fixed && !seen[text] && utf8.ValidString(text) {
				seen[text] = true
				all = append(all, newFormat(text))
				for i := range text { // a page may leave out the end of a long text
					if i > 40 && ends.MatchString(text[i:]) || strings.HasPrefix(text[i:], "; ") {
						all = append(all, newFormat(text[:i]))
					}
				}
			}
			return true
		})
		return nil
	}))
	return all
}

// ends matches what follows the part of a long text that a page shows.
var ends = regexp.MustCompile(`^(?:, | \()`)

// joined returns a literal, or a sum with one, with %s for its other parts.
func joined(e ast.Expr) (text string, fixed bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			if text, err := strconv.Unquote(e.Value); err == nil {
				return text, true
			}
		}
	case *ast.ParenExpr:
		return joined(e.X)
	case *ast.BinaryExpr:
		if e.Op == token.ADD {
			a, inA := joined(e.X)
			b, inB := joined(e.Y)
			if inA || inB {
				return a + b, true
			}
		}
	}
	return "%s", false
}

func newFormat(text string) format {
	f := format{text: text}
	parts := verb.Split(text, -1)
	for i := range parts {
		parts[i] = strings.ReplaceAll(parts[i], "%%", "%")
		if len(parts[i]) > len(f.literal) {
			f.literal = parts[i]
		}
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	f.whole = regexp.MustCompile("^(?s:" + strings.Join(parts, "(.*?)") + ")$")
	return f
}

// texts decides which texts the product can make.
type texts struct {
	all   []format
	known map[string]bool
	names map[string]bool // of options and endpoints, which begin a text
}

func newTexts(t *testing.T) *texts {
	t.Helper()
	x := &texts{formats(t), map[string]bool{}, map[string]bool{}}
	var meta struct{ Requires, Provides, Peers, Options map[string]any }
	for _, file := range []string{"metadata.yaml", "config.yaml"} {
		require.NoError(t, yaml.Unmarshal([]byte(readFile(t, file)), &meta))
	}
	for _, group := range []map[string]any{meta.Requires, meta.Provides, meta.Peers, meta.Options} {
		for name := range group {
			x.names[name] = true
		}
	}
	x.known["no "+nvidia.Path] = true // its format fits anything
	return x
}

// one matches a value: a number with its unit, a status of HTTP, or words without white space
// and placeholders.
const one = `(?:\d[\d.:]* (?:[MG]iB|UTC|\pL+)|\d{3} [A-Z]\w+ [A-Z]\w+|of \d+|this unit's \d+|(?:<[^<>]*>|[^\s<>])+)`

var (
	// value matches what one verb may stand for.
	value = regexp.MustCompile(`^(` + one + `(?:(?:, | and | or )` + one + `)*)?$`)
	// distinct matches the part of a format that is a text by itself: others fit anything.
	distinct = regexp.MustCompile(`\pL{5}|\pL{2}.* .*\pL{2}`)
	// open matches the end of a text that a page does not name.
	open = regexp.MustCompile(`^((?:GPU )?<[^<>]*>(?: is <[^<>]*>)?|\.\.\.|\d+ \pL+ \pL+)$`)
	// own matches what a page adds to a text: a mark that it is the end of one, or an example
	// of a step, of a line or of the web's URL.
	own = regexp.MustCompile(`^\.\.\. |^\d+/\d+ |^line \d+ | https?://[\d.:]+$`)
)

// separators join the parts of a text.
var separators = []string{"; ", ": ", " — ", " (", ", and ", ", "}

// declares reports whether the product can make the text of a page.
func (x *texts) declares(text string) bool {
	text = own.ReplaceAllString(text, "")
	return open.MatchString(text) || x.has(text)
}

// has reports whether the product makes the whole text: by one format with values, which may
// be texts too, or by several that are joined.
func (x *texts) has(text string) bool {
	if known, ok := x.known[text]; ok {
		return known
	}
	x.known[text] = false
	x.known[text] = x.formatted(text) || x.joined(text)
	return x.known[text]
}

func (x *texts) formatted(text string) bool {
	text = strings.TrimPrefix(text, "GPU <GPU> ")
	for i := range x.all {
		f := &x.all[i]
		if f.text == text && text != "" {
			return true
		}
		suffix := strings.HasPrefix(text, " (") && strings.HasPrefix(f.text, " (") && letter.MatchString(f.literal)
		if !strings.Contains(text, f.literal) || !distinct.MatchString(f.literal) && !suffix {
			continue
		}
		m := f.whole.FindStringSubmatch(text)
		if m != nil && !slices.ContainsFunc(m[1:], func(v string) bool { return !value.MatchString(v) && !x.has(v) }) {
			return true
		}
	}
	return false
}

var letter = regexp.MustCompile(`\pL`)

func (x *texts) joined(text string) bool {
	for i := range text {
		for _, sep := range separators {
			tail, ok := strings.CutPrefix(text[i:], sep)
			if !ok || i == 0 || !x.begins(text[:i], sep) {
				continue
			}
			if sep == " (" {
				tail = strings.TrimSuffix(tail, ")")
			}
			if open.MatchString(tail) || x.has(tail) || x.has(text[i:]) {
				return true
			}
		}
	}
	return false
}

// begins reports whether a text may begin so: with another text, or with its subject.
func (x *texts) begins(head, sep string) bool {
	return x.has(head) || x.has(head+sep) || sep == ": " && (x.names[head] || subject.MatchString(head))
}

// subject matches a GPU, or a key of a related unit.
var subject = regexp.MustCompile(`^(GPU \d+|[a-z-]+/\d+ [a-z-]+)$`)
