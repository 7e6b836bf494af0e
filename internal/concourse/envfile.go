package concourse

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// renderEnv writes a systemd EnvironmentFile (systemd.exec(5)): KEY=value
// lines sorted by key. Of the existing file it keeps the assignments of keys
// that are not owned, word for word; ours that are not wanted any more are gone
// (D26). Comments are not kept. A value that no single line can hold is an
// error that names the key and not the value (D28, D32).
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

// quoteEnv writes a value so that systemd reads it back as it is. In double
// quotes a backslash makes the next `"` or `\` literal in every version of
// systemd; nothing else is special there, variables are not expanded.
func quoteEnv(v string) (string, error) {
	if !utf8.ValidString(v) {
		return "", fmt.Errorf("the value is not UTF-8")
	}
	plain := true
	for _, c := range v {
		switch {
		case c < ' ' && c != '\t' || c == 0x7f || c >= 0x80 && c <= 0x9f:
			return "", fmt.Errorf("the value holds a line end or another control character")
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("_./:,@%+=-[]", c):
		default:
			plain = false
		}
	}
	if plain {
		return v, nil
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(v) + `"`, nil
}

// assignment is one KEY=value of an EnvironmentFile, raw as it stands there.
type assignment struct{ key, raw string }

// parseEnv finds the assignments as systemd does (src/basic/env-file.c):
// comments start with # or ; at the beginning of a line, a value goes to the
// end of its line, where quotes and backslashes take a line end into it. Lines
// without an assignment are dropped, and so is one whose quote is never closed:
// written again, it would swallow what follows.
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

// valueEnd is where the line ends that text starts with, line ends in quotes
// not counted, and whether every quote was closed by then. Quotes are special
// only where a value or the next part of it begins.
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

// commentEnd is the end of the line; a backslash before it goes on with the
// comment in older versions of systemd, which is the careful reading.
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
