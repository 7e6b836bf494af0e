package onemachine

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
)

func TestOptionIsReplacedInPlace(t *testing.T) {
	const (
		file = "mode: all\n\n# Tags of the worker.\n# tag: \"\"\n# sharing: shared\n"
		cas  = "a: |\n  -----BEGIN CERTIFICATE-----\n  one\n\n  # two\n  -----BEGIN CERTIFICATE-----\n"
	)
	for name, c := range map[string]struct{ text, option, line, want string }{
		"a set option":             {file, "mode", "mode: worker\n", "mode: worker\n\n# Tags of the worker.\n# tag: \"\"\n# sharing: shared\n"},
		"below its comment":        {file, "tag", "tag: a\n", "mode: all\n\n# Tags of the worker.\n# tag: \"\"\ntag: a\n# sharing: shared\n"},
		"without a comment":        {file, "version", "version: 8.2.5\n", file + "version: 8.2.5\n"},
		"after a last line":        {"mode: all", "tag", "tag: a\n", "mode: all\ntag: a\n"},
		"in an empty file":         {"", "tag", "tag: a\n", "tag: a\n"},
		"after comments only":      {"# b\n---\n", "tag", "tag: a\n", "# b\n---\ntag: a\n"},
		"removed":                  {file, "mode", "", file[len("mode: all\n"):]},
		"removed twice":            {"a: 1\nb: 2\na: 3\n", "a", "", "b: 2\n"},
		"set twice":                {"a: 1\nb: 2\na: 3\n", "a", "a: z\n", "a: z\nb: 2\n"},
		"several lines":            {"a: |\n  x\n  y\nb: 1\n", "a", "a: z\n", "a: z\nb: 1\n"},
		"an option that begins so": {"tags: b\n", "tag", "tag: a\n", "tags: b\ntag: a\n"},
		"an empty line in it":      {cas + "b: 1\n", "a", "a: z\n", "a: z\nb: 1\n"},
		"removed with empty lines": {cas, "a", "", ""},
		"its last empty line":      {"a: |+\n  x\n\n\n# c\nb: 1\n", "a", "a: z\n", "a: z\n# c\nb: 1\n"},
		"a comment after it":       {"a: |\n  x\n\n# c\nb: 1\n", "a", "a: z\n", "a: z\n\n# c\nb: 1\n"},
		"in quotes":                {"a: \"x\n\n# y\n  z\"\n# c\nb: 1\n", "a", "a: z\n", "a: z\n# c\nb: 1\n"},
		"plain":                    {"a: x\n\n  y\nb: 1\n", "a", "", "b: 1\n"},
		"a list":                   {"a:\n- x\n\n- y\nb: 1\n", "a", "", "b: 1\n"},
		"a quoted name":            {"\"a\" : x\nb: 1\n", "a", "a: z\n", "a: z\nb: 1\n"},
		"another program's lines":  {"a: x\r\nb: 1\r\n", "a", "a: z\n", "a: z\nb: 1\r\n"},
		"the text of another one":  {"b: |\n  a: x\n\n  a: y\na: z\n", "a", "", "b: |\n  a: x\n\n  a: y\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := replaceOption(c.text, c.option, c.line)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestFileThatIsNotUnderstoodIsNotChanged(t *testing.T) {
	for text, want := range map[string]string{
		"a: &x 1\nb: *x\n":        "its line 2 has an unusual form; change it there by hand",
		"b: &x 1\na: *x\n":        "other lines there would change, too",
		"{b: 1, a: 2}\n":          "want lines `option: value`: it has another form",
		"- b\n":                   "want lines `option: value`: it has another form",
		"b: 1\n---\na: 2\n":       "it has a second document",
		"a: 'x\n":                 "found unexpected end of stream",
		"c: 'x\n# b:\n  y'\n":     "other lines there would change, too",
		"  a: 1\n  c: 1\n":        "other lines there would change, too",
		"a: x\u2028\n# c\nb: x\n": "its line 4 has an unusual form",
	} {
		_, err := replaceOption(text, "b", "b: z\n")
		require.ErrorContains(t, err, want, text)
		require.ErrorContains(t, err, OptionsFile, text)
	}
}

func FuzzOptionValue(f *testing.F) {
	f.Add("mode: all\n", "tag", "x")
	f.Add("# tag: \"\"\ntag: |\n  a\n\n  b\nmode: all\n", "tag", "true")
	f.Add("ca-cert: \"a\n\n# b\"\n\n# tag: \"\"\n", "ca-cert", "-----BEGIN CERTIFICATE-----\n\n b\n")
	f.Add("web-port: 80\r\n", "web-port", "8080")
	f.Fuzz(func(t *testing.T, text, name, value string) {
		changed, err := setOption(text, name, config.FromText(name, value))
		if err != nil {
			return // refused: the file stays as it is
		}
		before, err := optionNodes(text)
		require.NoError(t, err)
		after, err := optionNodes(changed)
		require.NoError(t, err)
		require.True(t, slices.EqualFunc(without(before, name), without(after, name), sameNode))
		require.Len(t, after, len(without(before, name))+2)
		removed, err := replaceOption(changed, name, "")
		require.NoError(t, err)
		kept := strings.Split(text, "\n")
		for line := range strings.SplitSeq(removed, "\n") {
			require.Contains(t, append(kept, ""), line, "no line is new")
		}
	})
}
