// Package sanitize makes text from outside safe to show: names stored in a card, and output
// of a driver, a build or another machine. It never interprets the text.
package sanitize

import (
	"strings"
	"unicode"
)

// Line returns text for one line of a status, a log or a terminal. It replaces characters
// that are not printable, such as those that move a cursor, and cuts the text after most
// characters with "...".
func Line(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return '?'
		}
		return r
	}, text)
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "..."
	}
	return text
}
