package tasknotice

import (
	"slices"
	"strconv"
	"strings"

	"concourse-ci-machine/internal/base/sanitize"
	"concourse-ci-machine/internal/gpu/health"
	"concourse-ci-machine/internal/pool/quarantine"
)

// note is a Note before it is put into words: GPUs of one container with the same fault,
// as partitions of one board have it, are one line.
type note struct {
	container, words string
	gate, end        bool
	about            []Told
	gpus             []int
}

// collect adds a note of one GPU to the others.
func collect(notes []note, n note) []note {
	at := slices.IndexFunc(notes, func(o note) bool {
		return o.container == n.container && o.words == n.words && o.gate == n.gate && o.about[0].Since.Equal(n.about[0].Since)
	})
	if at < 0 {
		return append(notes, n)
	}
	o := &notes[at]
	o.end, o.about, o.gpus = o.end || n.end, append(o.about, n.about...), append(o.gpus, n.gpus...)
	return notes
}

// wordsOf says what a GPU was withheld for.
func wordsOf(g quarantine.GPU) string {
	words := quarantine.Texts([]health.Fault{*g.Fault})
	if g.Together {
		words = quarantine.AllAtOnce + ": " + words
	}
	return words
}

// text is the line that a build shows.
func (n note) text() string {
	names := make([]string, len(n.gpus))
	for i, g := range n.gpus {
		names[i] = strconv.Itoa(g)
	}
	text := "concourse-ci-machine: GPU " + strings.Join(names, ", ") + ": " + n.words + ", seen at " +
		n.about[0].Since.UTC().Format("15:04:05 UTC") + ". Withheld from new tasks. "
	switch {
	case n.end:
		text += "What ran on it may be lost or wrong, so this task is ended now (gpu-hang-action=end-task): run the build again"
	case n.gate:
		text += "What ran on it may be lost or wrong: run the build again"
	default:
		text += "This task keeps it, and may be slow"
	}
	return sanitize.Line(text, maxText)
}

// maxText is in characters, of 4 bytes at most: a pipe takes all of a text or nothing up
// to PIPE_BUF, 4096 bytes.
const maxText = 1000
