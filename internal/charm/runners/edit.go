package runners

import "strings"

// part holds a piece of text that was put into a file. It replaced Before, which is empty for
// added lines.
type part struct {
	Text   string `json:"text"`
	Before string `json:"before,omitempty"`
}

// changes lists the changes of one file.
type changes struct {
	Made  bool   `json:"made,omitempty"` // the file did not exist
	Parts []part `json:"parts,omitempty"`
}

// undo returns a text without the parts, and the number of parts that it does not have as
// they were put in. Other lines stay as they are.
func (c changes) undo(text string) (before string, left int) {
	for i := len(c.Parts) - 1; i >= 0; i-- {
		p := c.Parts[i]
		at := lastLine(text, p.Text)
		if at < 0 {
			left++
			continue
		}
		put := p.Before
		if strings.HasPrefix(p.Text, "\n") && len(text) > at+len(p.Text) {
			put += "\n" // a line follows now, so that the line above needs its end
		}
		text = text[:at] + put + text[at+len(p.Text):]
	}
	return text, left
}

// lastLine returns the place of the last occurrence of whole lines, -1 without one.
func lastLine(text, lines string) int {
	if lines == "" {
		return -1
	}
	for to := len(text); ; {
		at := strings.LastIndex(text[:to], lines)
		if at <= 0 || text[at-1] == '\n' || lines[0] == '\n' {
			return at
		}
		to = at + len(lines) - 1
	}
}

// lines returns the changed lines for people: the new ones and the replaced ones, each with
// its sign.
func (c changes) lines(put, replaced string) []byte {
	var b strings.Builder
	for _, p := range c.Parts {
		for line := range strings.Lines(p.Before) {
			b.WriteString(replaced + line)
		}
		for line := range strings.Lines(strings.TrimPrefix(p.Text, "\n")) {
			b.WriteString(put + line)
		}
	}
	return []byte(b.String())
}

// addLines adds lines at the end of a text.
func addLines(text, lines string) (after string, put []part) {
	if text != "" && !strings.HasSuffix(text, "\n") {
		lines = "\n" + lines
	}
	return text + lines, []part{{Text: lines}}
}

// assigns reports whether a text of NAME=VALUE lines sets a name.
func assigns(text, name string) bool {
	for line := range strings.Lines(text) {
		if key, _, ok := strings.Cut(line, "="); ok && strings.TrimSpace(strings.TrimPrefix(key, "export ")) == name {
			return true
		}
	}
	return false
}
