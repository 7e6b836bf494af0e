// Package sanitize makes texts of others fit to be shown: names that a card's memory has,
// what a driver, a build or another machine writes.
package sanitize

import (
	"strings"
	"unicode"
)

// Line is text for one line of a status, a log or a terminal: without anything that moves
// a cursor, and of at most so many characters, and "..." where there were more.
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
