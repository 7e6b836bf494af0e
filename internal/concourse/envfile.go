package concourse

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// renderEnv returns a systemd EnvironmentFile (systemd.exec(5)): KEY=value lines, sorted by
// key. It keeps the existing assignments of keys that are not owned, unchanged. It removes
// owned keys that are no longer wanted (D26), and comments. A value that does not fit on
// one line is an error, which names the key and not the value (D28, D32).
func renderEnv(existing []byte, want map[string]string, owned func(key string) bool) ([]byte, error) {
	lines := map[string]string{}
	for _, a := range parseEnv(existing) {
		if !owned(a.key) {
			lines[a.key] = a.raw
		}
	}
	for key, value := range want {
		quoted, err := quoteEnv(value)
		if err != nil {
			return nil, fmt.Errorf("cannot write %s: %w", key, err)
		}
		lines[key] = key + "=" + quoted
	}
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(lines)) {
		b.WriteString(lines[key] + "\n")
	}
	return []byte(b.String()), nil
}

// quoteEnv quotes a value so that systemd reads it back unchanged. In double quotes a
// backslash makes the next `"` or `\` literal in every version of systemd. No other
// character is special there, and variables are not expanded.
func quoteEnv(v string) (string, error) {
	if !utf8.ValidString(v) {
		return "", fmt.Errorf("the value is not UTF-8")
	}
	plain := true
	for _, c := range v {
		switch {
		case c < ' ' && c != '\t' || c == 0x7f || c >= 0x80 && c <= 0x9f:
			return "", fmt.Errorf("the value holds a line end or another control character")
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
			strings.ContainsRune("_./:,@%+=-[]", c):
		default:
			plain = false
		}
	}
	if plain {
		return v, nil
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(v) + `"`, nil
}

// assignment holds one KEY=value of an EnvironmentFile. raw is its unchanged text.
type assignment struct{ key, raw string }

// parseEnv finds the assignments as systemd does (src/basic/env-file.c). Comments start
// with # or ; at the beginning of a line. A value ends with its line, unless quotes or
// backslashes include the line end. Lines without an assignment are dropped. An assignment
// with an unclosed quote is dropped too, because it would swallow the lines after it.
func parseEnv(data []byte) []assignment {
	var out []assignment
	text := string(data)
	for {
		text = strings.TrimLeft(text, " \t\r\n")
		if text == "" {
			return out
		}
		end, closed := valueEnd(text)
		if text[0] == '#' || text[0] == ';' {
			end = commentEnd(text)
		} else if key, _, ok := strings.Cut(text[:end], "="); ok && closed && envKey(strings.TrimSpace(key)) {
			out = append(out, assignment{strings.TrimSpace(key), text[:end]})
		}
		text = text[end:]
	}
}

// valueEnd returns the end of the first line of text, and whether every quote is closed
// there. Line ends in quotes do not end the line. Quotes are special only at the beginning
// of a value or of one of its parts.
func valueEnd(text string) (end int, closed bool) {
	const (
		key = iota
		begin
		plain
		single
		double
	)
	state := key
	for i := 0; i < len(text); i++ {
		c := text[i]
		newline := c == '\n' || c == '\r'
		switch {
		case newline && state < single:
			return i, true
		case state == key:
			if c == '=' {
				state = begin
			}
		case c == '\\' && state != single:
			if i++; i == len(text) {
				return i, false
			}
			if state == begin {
				state = plain
			}
		case state == single && c == '\'', state == double && c == '"':
			state = begin
		case state == begin && c == '\'':
			state = single
		case state == begin && c == '"':
			state = double
		case state == begin && c != ' ' && c != '\t':
			state = plain
		}
	}
	return len(text), state < single
}

// commentEnd returns the end of the line. Older versions of systemd continue a comment
// after a backslash, and this is the careful reading.
func commentEnd(text string) int {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '\n', '\r':
			return i
		}
	}
	return len(text)
}

func envKey(s string) bool {
	for i, c := range s {
		if !(c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || i > 0 && c >= '0' && c <= '9') {
			return false
		}
	}
	return s != ""
}

// EnvValues returns the variables of an environment file with their values, as systemd
// reads them.
func EnvValues(data []byte) map[string]string {
	env := map[string]string{}
	for _, a := range parseEnv(data) {
		_, raw, _ := strings.Cut(a.raw, "=")
		env[a.key] = envValue(raw)
	}
	return env
}

// envValue decodes a value as systemd does (src/basic/env-file.c). Blanks around it are
// dropped. Quotes may begin at the beginning of a part of the value. A backslash makes the
// next character literal, in double quotes only one of "\`$. A backslash before a line end
// removes both.
func envValue(raw string) string {
	var out strings.Builder
	length := 0 // length without trailing blanks
	text := strings.TrimLeft(raw, " \t")
	begin := true
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\\':
			if i++; i < len(text) && !lineEnd(text[i]) {
				out.WriteByte(text[i])
			}
			begin, length = false, out.Len()
		case begin && (c == '"' || c == '\''):
			i = quoted(&out, text, i)
			length = out.Len()
			for i+1 < len(text) && (text[i+1] == ' ' || text[i+1] == '\t') {
				i++ // between two parts
			}
		default:
			out.WriteByte(c)
			if c != ' ' && c != '\t' {
				length = out.Len()
			}
			begin = false
		}
	}
	return out.String()[:length]
}

// quoted writes the part that starts with the quote at i, and returns the index of its
// closing quote.
func quoted(out *strings.Builder, text string, i int) int {
	quote := text[i]
	for i++; i < len(text) && text[i] != quote; i++ {
		if text[i] != '\\' || quote == '\'' || i+1 == len(text) {
			out.WriteByte(text[i])
			continue
		}
		i++
		switch {
		case text[i] == '\n':
		case strings.IndexByte("\"\\`$", text[i]) >= 0:
			out.WriteByte(text[i])
		default:
			out.WriteString(text[i-1 : i+1])
		}
	}
	return i
}

func lineEnd(c byte) bool { return c == '\n' || c == '\r' }

// variable describes one row of the table of a process's environment. value returns the
// text for a C, or "" for no variable. A row without value is a variable that only the
// predecessor wrote; the charm removes it from the file.
type variable[C any] struct {
	key   string
	value func(C) string
}

// envTable describes the environment of one process. The charm writes, changes and removes
// exactly the variables that have a row.
type envTable[C any] []variable[C]

// env returns the environment for c, without empty values.
func (t envTable[C]) env(c C) map[string]string {
	env := map[string]string{}
	for _, v := range t {
		if v.value == nil {
			continue
		}
		if value := v.value(c); value != "" {
			env[v.key] = value
		}
	}
	return env
}

// owns reports whether this charm or its predecessor ever wrote the key.
func (t envTable[C]) owns(key string) bool {
	return slices.ContainsFunc(t, func(v variable[C]) bool { return v.key == key })
}

// fixed returns a constant value for a row.
func fixed[C any](value string) func(C) string { return func(C) string { return value } }
