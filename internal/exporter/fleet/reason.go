package fleet

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/jobexporter"
)

// covered reports whether tags, which Concourse joined with "_", are all among those of a
// worker. A tag may contain "_" itself.
func covered(joined string, tags []string) bool {
	if joined == "" {
		return true
	}
	reachable := make([]bool, len(joined)+1) // end of a tag
	reachable[0] = true
	for i := range joined {
		if !reachable[i] {
			continue
		}
		rest := joined[i:]
		if i > 0 {
			if rest[0] != '_' {
				continue
			}
			rest = rest[1:]
		}
		for _, tag := range tags {
			if tag != "" && strings.HasPrefix(rest, tag) {
				reachable[len(joined)-len(rest)+len(tag)] = true
			}
		}
	}
	return reachable[len(joined)]
}

// mayRun reports whether Concourse would choose the worker for the steps, if it runs.
func mayRun(g group, w jobexporter.Worker) bool {
	switch {
	case w.Team != "" && w.Team != g.Team:
		return false
	case w.Platform != "" && g.Platform != "" && w.Platform != g.Platform:
		return false
	case g.Tags == "":
		return len(w.Tags) == 0 // tagged workers run only steps with a tag
	}
	return covered(g.Tags, w.Tags)
}

// missingTags returns the tags that no worker has.
func missingTags(joined string, workers []jobexporter.Worker) (missing []string) {
	var all []string
	for _, w := range workers {
		all = append(all, w.Tags...)
	}
	for tag := range strings.SplitSeq(joined, "_") {
		if !slices.Contains(all, tag) {
			missing = append(missing, tag)
		}
	}
	return missing
}

// reasonOf returns why steps wait. shown are the workers of the page, with their GPUs.
func reasonOf(g group, known []jobexporter.Worker, shown []Worker) string {
	var fitting, running []string
	for _, w := range known {
		if !mayRun(g, w) {
			continue
		}
		if fitting = append(fitting, w.Name); w.State == "running" {
			running = append(running, w.Name)
		}
	}
	switch missing := missingTags(g.Tags, known); {
	case len(fitting) == 0 && g.Tags == "":
		return "no worker without tags"
	case len(fitting) == 0 && len(missing) > 0 && !covered(g.Tags, allTags(known)):
		return "no worker has " + strings.Join(missing, ", ")
	case len(fitting) == 0:
		return "no worker of the team has all of these tags"
	case len(running) == 0:
		return "not running: " + listed(fitting)
	}
	var gpus, leased, quarantined, unknown int
	out := "quarantined"
	for _, w := range shown {
		if !slices.Contains(running, w.Worker) {
			continue
		}
		for _, one := range w.GPUs {
			gpus++
			switch one.Use {
			case Leased, InUse:
				leased++
			case OnProbation:
				quarantined++
				out = "quarantined or on probation"
			case Quarantined:
				quarantined++
			case Unknown:
				unknown++
			}
		}
	}
	switch free := gpus - leased - quarantined - unknown; {
	case gpus == 0:
		return "at the limit of tasks, or about to start: " + listed(running)
	case quarantined == gpus:
		return fmt.Sprintf("all %s %s", units.Count(gpus, "GPU"), out)
	case leased == gpus:
		return fmt.Sprintf("all %s in use", units.Count(gpus, "GPU"))
	case free == 0:
		return fmt.Sprintf("no free GPU: %s", counts(leased, quarantined, unknown, out))
	default:
		return fmt.Sprintf("%d of %s free: at the limit of tasks, or about to start", free, units.Count(gpus, "GPU"))
	}
}

func allTags(workers []jobexporter.Worker) (all []string) {
	for _, w := range workers {
		all = append(all, w.Tags...)
	}
	return all
}

func counts(leased, quarantined, unknown int, out string) string {
	var parts []string
	for _, c := range []struct {
		n    int
		text string
	}{{leased, "in use"}, {quarantined, out}, {unknown, "unknown"}} {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.n, c.text))
		}
	}
	return strings.Join(parts, ", ")
}

// maxListed bounds the workers that a reason names.
const maxListed = 3

func listed(names []string) string {
	text := strings.Join(names[:min(len(names), maxListed)], ", ")
	if n := len(names) - maxListed; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}
