package baseline

import (
	"fmt"
	"strconv"
	"strings"
)

// visible shows characters that would move the cursor, change its colour or turn
// the direction of writing as escapes. Names come from outside.
func visible(s string) string {
	var b strings.Builder
	for _, r := range s {
		if strconv.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}

// quoted is visible in quotation marks.
func quoted(s string) string { return `"` + strings.ReplaceAll(visible(s), `"`, `\"`) + `"` }

// short keeps messages readable whatever is in a file.
func short(s string) string {
	const limit = 40
	if r := []rune(s); len(r) > limit {
		return string(r[:limit]) + "..."
	}
	return s
}

// plain are the characters, beside letters and digits, that mean nothing inside a
// code span in a table.
const plain = "._/:+=,- "

func isPlain(r rune) bool {
	return r < 0x80 && (r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune(plain, r))
}

// code is s as code in a Markdown table. What is not plain goes into an element
// with character references: a pipe would end the cell, a backtick the span, and
// Markdown's own escapes do not work in spans. In code nobody is mentioned, too.
func code(s string) string {
	s = visible(s)
	if s != "" && s == strings.TrimSpace(s) && strings.IndexFunc(s, func(r rune) bool { return !isPlain(r) }) < 0 {
		return "`" + s + "`"
	}
	var b strings.Builder
	b.WriteString("<code>")
	for i, r := range s {
		switch {
		case r == ' ' && i > 0, r >= 0x80, isPlain(r) && r != ' ' && r != '_' && r != ':' && r != '.':
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, "&#%d;", r)
		}
	}
	return b.String() + "</code>"
}

// shellWord is s as one word of a shell's command line; false where s can't be
// typed.
func shellWord(s string) (string, bool) {
	if s != visible(s) {
		return "", false
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !isPlain(r) || r == ' ' }) < 0 {
		return s, true
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'", true
}
