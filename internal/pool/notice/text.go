package notice

import (
	"slices"
	"strconv"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/sanitize"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// draft holds a Notice before its text is made. GPUs of one container with the same fault, such
// as partitions of one board, share one line.
type draft struct {
	container, words string
	gate             bool
	about            []Notified
	gpus             []int
}

// collect adds the draft of one GPU to the others.
func collect(notices []draft, n draft) []draft {
	at := slices.IndexFunc(notices, func(o draft) bool {
		return o.container == n.container && o.words == n.words && o.gate == n.gate &&
			o.about[0].Since.Equal(n.about[0].Since)
	})
	if at < 0 {
		return append(notices, n)
	}
	o := &notices[at]
	o.about, o.gpus = append(o.about, n.about...), append(o.gpus, n.gpus...)
	return notices
}

// describeFault returns why a GPU was quarantined.
func describeFault(g quarantine.GPU) string {
	words := quarantine.DescribeFaults([]health.Fault{*g.Fault})
	if g.CommonCause {
		words = quarantine.AllAtOnce + ": " + words
	}
	return words
}

// text returns the line for the build.
func (n draft) text() string {
	names := make([]string, len(n.gpus))
	for i, g := range n.gpus {
		names[i] = strconv.Itoa(g)
	}
	text := "concourse-ci-machine: GPU " + strings.Join(names, ", ") + ": " + n.words + ", seen at " +
		n.about[0].Since.UTC().Format("15:04:05 UTC") + ". Quarantined. "
	if n.gate {
		text += "What ran on it may be lost or wrong: run the build again"
	} else {
		text += "This task keeps it, and may be slow"
	}
	return sanitize.Line(text, maxText)
}

// maxText is in characters of at most 4 bytes. A pipe takes all of a text or nothing up to
// PIPE_BUF, 4096 bytes.
const maxText = 1000
