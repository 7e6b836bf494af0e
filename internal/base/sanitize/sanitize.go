// Package sanitize makes text from outside safe to show: names stored in a card, and output
// of a driver, a build or another machine. It never interprets the text.
package sanitize

import (
	"strings"
	"unicode"
)

// Line returns text for one line of a status, a log or a terminal. It replaces characters
// that are not printable, such as those that move a cursor, and cuts the text after most
// characters with "...". It reads no more of a long text than it returns.
func Line(text string, most int) string {
	if len(text) <= most && !strings.ContainsFunc(text, unfit) {
		return text
	}
	var b strings.Builder
	n := 0
	for _, r := range text {
		if n == most {
			b.WriteString("...")
			break
		}
		if n++; unfit(r) {
			r = '?'
		}
		b.WriteRune(r)
	}
	return b.String()
}

func unfit(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }
