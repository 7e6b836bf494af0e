package concourse

import (
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestValuesAreReadAsSystemdDoes(t *testing.T) {
	for raw, want := range map[string]string{
		"":                 "",
		"plain":            "plain",
		"  two words \t":   "two words",
		`"two  words" `:    "two  words",
		`'it is "so" \n'`:  `it is "so" \n`,
		`"a\"b\\c\$d\x"`:   `a"b\c$d\x`,
		`a\ b\\`:           `a b\`,
		`a"b"c`:            `a"b"c`,
		`"a" 'b'c`:         "abc",
		"\"one \\\nline\"": "one line",
		"one\\\nline":      "oneline",
		"\"two\nlines\"":   "two\nlines",
		`trailing\ `:       "trailing ",
		`\`:                "",
	} {
		require.Equal(t, want, envValue(raw), raw)
	}
}

// What is written is what is read, and what anyone wrote is read as the model of
// systemd in this package's tests reads it.
func FuzzEnvValue(f *testing.F) {
	f.Add("0123456789abcdef")
	f.Add(`with "quotes", \ and $VARIABLES`)
	f.Fuzz(func(t *testing.T, value string) {
		if !utf8.ValidString(value) {
			return // the model reads characters
		}
		line := "K=" + value
		if all := parseEnv([]byte(line)); len(all) == 1 && all[0].raw == line {
			require.Equal(t, systemdReads(line)["K"], envValue(value), "%q", value)
		}
		if quoted, err := quoteEnv(value); err == nil {
			require.Equal(t, value, envValue(quoted))
		}
	})
}
