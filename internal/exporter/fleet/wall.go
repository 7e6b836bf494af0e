package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/sanitize"
	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/fleet/fleetfile"
)

const (
	maxReasons = 2  // that the wall names
	maxReason  = 60 // characters of each
)

// Wall implements jobexporter.Pages. Without a page, no text of it stays on the wall.
func (f *Fleet) Wall() (text string, known bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.wall, f.wallKnown || f.path == ""
}

// wallText returns the text for Concourse's wall, such as
// "2 of 4 GPUs quarantined: hangs; see http://10.0.0.10:9358/". It is "" if no GPU is
// quarantined, or if the option is off.
func wallText(r Report, file fleetfile.File) string {
	counts, out := map[string]int{}, 0
	for _, w := range r.Workers {
		for _, g := range w.GPUs {
			if g.Use == Quarantined || g.Use == OnProbation {
				out++
				counts[wallReason(g)]++
			}
		}
	}
	if !file.Wall || out == 0 {
		return ""
	}
	delete(counts, "")
	reasons := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	text := fmt.Sprintf("%d of %s quarantined", out, units.Count(r.Summary.GPUs, "GPU"))
	if len(reasons) > 0 {
		text += ": " + strings.Join(reasons[:min(len(reasons), maxReasons)], ", ")
	}
	if file.Page != "" {
		text += "; see " + file.Page
	}
	return text
}

// wallReason returns the reason without its details. A worker chooses this text, and must
// not lead all users of Concourse to another address.
func wallReason(g GPU) string {
	why, _, _ := strings.Cut(g.Service.Why, " (")
	if why, _, _ = strings.Cut(why, ";"); strings.Contains(why, "://") {
		return ""
	}
	return sanitize.Line(why, maxReason)
}
