package concourse

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// systemdReads is a reading of systemd's own parser (src/basic/env-file.c,
// version 249 and later), kept apart from the code under test: a state machine
// over characters that gives what the service would see.
func systemdReads(text string) map[string]string {
	const (
		preKey = iota
		key
		preValue
		value
		valueEscape
		single
		double
		doubleEscape
		comment
		commentEscape
	)
	env, state, k, v, spaces := map[string]string{}, preKey, "", "", 0
	push := func() {
		env[strings.TrimRight(k, " \t")] = v[:len(v)-spaces]
		k, v, spaces, state = "", "", 0, preKey
	}
	for _, c := range text {
		blank, newline := c == ' ' || c == '\t', c == '\n' || c == '\r'
		switch state {
		case preKey:
			if c == '#' || c == ';' {
				state = comment
			} else if !blank && !newline {
				state, k = key, string(c)
			}
		case key:
			if newline {
				state = preKey
			} else if c == '=' {
				state = preValue
			} else {
				k += string(c)
			}
		case preValue, value:
			switch {
			case newline:
				push()
			case c == '\'' && state == preValue:
				state, spaces = single, 0
			case c == '"' && state == preValue:
				state, spaces = double, 0
			case c == '\\':
				state, spaces = valueEscape, 0
			case blank && state == preValue:
			default:
				state = value
				v += string(c)
				if blank {
					spaces++
				} else {
					spaces = 0
				}
			}
		case valueEscape:
			state = value
			if !newline {
				v += string(c)
			}
		case single:
			if c == '\'' {
				state = preValue
			} else {
				v += string(c)
			}
		case double:
			if c == '"' {
				state = preValue
			} else if c == '\\' {
				state = doubleEscape
			} else {
				v += string(c)
			}
		case doubleEscape:
			state = double
			if strings.ContainsRune("\"\\`$", c) {
				v += string(c)
			} else if c != '\n' {
				v += "\\" + string(c)
			}
		case comment:
			if c == '\\' {
				state = commentEscape
			} else if newline {
				state = preKey
			}
		case commentEscape:
			state = comment
		}
	}
	if state >= preValue && state <= doubleEscape {
		push()
	}
	return env
}

// D28: whatever a value holds, the service sees that value and no other.
func TestValuesSurviveSystemd_D28(t *testing.T) {
	for _, v := range []string{
		"plain", "", "a b", " lead", "trail ", "#no", "a#b", ";x", `"`, `'`, `\`, `a\`, `\"`, "$HOME ${X} $$", "`id`", "%h", "tab\there",
		"naïve—日本", "gpu,compute-runtime=rocm,gfx=gfx1100", "http://u:p%40ss@proxy:3128", "[fd00::2]:2222", "=", "'a' \"b\" \\n",
	} {
		out, err := renderEnv(nil, map[string]string{"K": v, "Z": "last"}, workerVariables.owns)
		require.NoError(t, err)
		require.Equal(t, map[string]string{"K": v, "Z": "last"}, systemdReads(string(out)), "%q as %q", v, out)
	}
	letters := []rune("ab \t\"'\\$`#;=%\u00e9\u65e5")
	random := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		var v []rune
		for range random.IntN(12) {
			v = append(v, letters[random.IntN(len(letters))])
		}
		out, err := renderEnv(nil, map[string]string{"K": string(v), "Z": "last"}, workerVariables.owns)
		require.NoError(t, err)
		require.Equal(t, map[string]string{"K": string(v), "Z": "last"}, systemdReads(string(out)), "%q as %q", string(v), out)
	}
}

// D28, D32: what no line can hold is refused, and the text does not repeat it.
func TestLineEndsAreRefused_D28_D32(t *testing.T) {
	for _, v := range []string{"geheim\nCONCOURSE_NAME=x", "geheim\r", "geheim\x00", "geheim\x1b[0m", "geheim\u0085", "geheim\xff"} {
		_, err := renderEnv(nil, map[string]string{"https_proxy": v}, workerVariables.owns)
		require.ErrorContains(t, err, "cannot write https_proxy")
		require.NotContains(t, err.Error(), "geheim")
	}
}

// D26: an option that was cleared leaves nothing behind; an operator's own
// lines stay word for word.
func TestClearedOptionsLeaveNothingBehind_D26(t *testing.T) {
	existing := `# a comment
CONCOURSE_WORKER_PROCS=4
CONCOURSE_TAG=a,rocm,gpu-count=1
CONCOURSE_CONTAINERD_CONFIG=/var/lib/concourse/containerd-gpu.toml
CONCOURSE_CONTAINERD_DNS_SERVER=1.1.1.1
PATH=/opt/bin:/usr/bin
HTTPS_PROXY=http://old
https_proxy=http://old
CONCOURSE_EPHEMERAL=true
  MY_KEY = 'two
lines' # kept
CONCOURSE_TEAM="x \" y"
QUOTE_INSIDE=it's
not an assignment
; CONCOURSE_TEAM=z
`
	out, err := renderEnv([]byte(existing), map[string]string{"CONCOURSE_LOG_LEVEL": "info"}, workerVariables.owns)
	require.NoError(t, err)
	require.Equal(t, "CONCOURSE_EPHEMERAL=true\nCONCOURSE_LOG_LEVEL=info\nCONCOURSE_TEAM=\"x \\\" y\"\nMY_KEY = 'two\nlines' # kept\nQUOTE_INSIDE=it's\n", string(out))
	again, err := renderEnv(out, map[string]string{"CONCOURSE_LOG_LEVEL": "info"}, workerVariables.owns)
	require.NoError(t, err)
	require.Equal(t, string(out), string(again), "rendering its own output changes nothing")
}

// A quote that is never closed would hide every line after it.
func TestUnfinishedLinesAreDropped_D28(t *testing.T) {
	for _, line := range []string{"A='x", `A="x`, `A="x\"`, `A=x\`, "A='x'\"y"} {
		out, err := renderEnv([]byte(line), map[string]string{"Z": "z"}, workerVariables.owns)
		require.NoError(t, err)
		require.Equal(t, "Z=z\n", string(out), line)
	}
	out, err := renderEnv([]byte("A=1\rCONCOURSE_TAG=old\rB=2"), map[string]string{"Z": "z"}, workerVariables.owns)
	require.NoError(t, err)
	require.Equal(t, "A=1\nB=2\nZ=z\n", string(out), "a carriage return ends a line too")
}

func FuzzRenderEnv(f *testing.F) {
	f.Add("A=1\nCONCOURSE_TAG=x\n", "v")
	f.Add("B='\n", `a"b\`)
	f.Add("A=x\\ \n", "v")
	f.Add("# c \\\nD=\"x\ny\"", "")
	f.Fuzz(func(t *testing.T, existing, v string) {
		want := map[string]string{"CONCOURSE_NAME": v, "CONCOURSE_TAG": "t"}
		out, err := renderEnv([]byte(existing), want, workerVariables.owns)
		if err != nil {
			return
		}
		again, err := renderEnv(out, want, workerVariables.owns)
		if err != nil || string(again) != string(out) {
			t.Fatalf("%q then %q: %v", out, again, err)
		}
		if seen := systemdReads(string(out)); seen["CONCOURSE_NAME"] != v || seen["CONCOURSE_TAG"] != "t" {
			t.Fatalf("%q is read as %q", out, seen)
		}
	})
}

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

// A row is all that an option needs: it is written, changed, and taken back, and
// another's variable stays.
func TestARowOfTheTableIsWrittenChangedAndTakenBack(t *testing.T) {
	table := append(envTable[WorkerConfig]{}, workerVariables...)
	table = append(table, variable[WorkerConfig]{"CONCOURSE_NEW_OPTION", func(c WorkerConfig) string { return c.LogLevel }})
	existing := []byte("THEIRS=1\n")
	for _, c := range []struct {
		set  string
		want []string
		not  string
	}{
		{"one", []string{"CONCOURSE_NEW_OPTION=one\n", "THEIRS=1\n"}, "two"},
		{"two", []string{"CONCOURSE_NEW_OPTION=two\n", "THEIRS=1\n"}, "one"},
		{"", []string{"THEIRS=1\n"}, "CONCOURSE_NEW_OPTION"},
	} {
		out, err := renderEnv(existing, table.env(WorkerConfig{LogLevel: c.set}), table.owns)
		require.NoError(t, err)
		for _, line := range c.want {
			require.Contains(t, string(out), line)
		}
		require.NotContains(t, string(out), c.not)
		existing = out
	}
}

// Two rows of one variable would each take back what the other writes.
func TestEachVariableHasOneRow(t *testing.T) {
	seen := map[string]bool{}
	for _, v := range workerVariables {
		require.False(t, seen[v.key], v.key)
		seen[v.key] = true
	}
	seen = map[string]bool{}
	for _, v := range webVariables {
		require.False(t, seen[v.key], v.key)
		seen[v.key] = true
	}
}
