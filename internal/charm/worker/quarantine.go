package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	jujuerrors "github.com/juju/errors"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/statefile"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/healthcheck"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// The watcher decides every few seconds which GPUs are quarantined, without Juju; see
// watcher.Look. A hook updates the tags and the status.

// observeQuarantine reads the quarantine record. A damaged record is ignored: the watcher
// recreates it within seconds.
func (o *Observed) observeQuarantine(r host.Root) (err error) {
	if o.Quarantine, err = quarantine.RecordFile.Read(r); err != nil && !errors.Is(err, statefile.ErrDamaged) {
		return jujuerrors.Annotate(err, "cannot observe which GPUs are quarantined")
	}
	o.TagState, err = tagsState.Read(r)
	return jujuerrors.Annotate(err, "cannot observe which GPUs the tags leave out")
}

// applyQuarantine finds the quarantined GPUs and the GPUs for the tags, and returns the
// record of the tags.
func (g *GPUs) applyQuarantine(o Observed) (p part) {
	g.Tagged = g.Chosen
	for _, chosen := range g.Chosen {
		if one := o.Quarantine.Find(chosen.Address()); one != nil && one.WarningText() != "" {
			g.Warnings = append(g.Warnings, status.Warn("GPU %d: %s", one.Index, one.WarningText()))
		}
	}
	if !g.Vendor.Has(gpu.Quarantine) || o.Config.GPU.Quarantine == quarantine.Off {
		p.add(resource.Absent{Path: tagsFile, Why: "no GPU is quarantined"})
		return p
	}
	for _, chosen := range g.Chosen {
		one := o.Quarantine.Find(chosen.Address())
		if one == nil {
			continue
		}
		if one.State != quarantine.InService {
			g.Quarantined = append(g.Quarantined, *one)
			if one.PendingHealthCheck != nil && one.PendingHealthCheck.Stuck {
				g.Warnings = append(g.Warnings, status.Warn("GPU %d is healthy but not returned: %s", one.Index,
					one.PendingHealthCheck.Text))
			}
			if one.ManualReturn {
				g.Warnings = append(g.Warnings, status.Warn("GPU %d failed too often to return by itself", one.Index).
					Fix("after the repair run: "+o.Facts.Commands().RunAction(
						fmt.Sprintf("return-gpu gpu=%d", one.Index))))
			}
		}
	}
	var taggable []gpu.GPU
	excluded := slices.Clone(g.Quarantined)
	for _, named := range g.named { // a missing GPU keeps its place, because the order of tags must not change
		if contains(g.Chosen, named) {
			taggable = append(taggable, named)
			continue
		}
		one := o.Quarantine.Find(named.Address())
		if !contains(g.Missing, named) || one == nil { // not watched: the tags exclude it at once
			continue
		}
		named.GFX = one.GFX
		taggable = append(taggable, named)
		if one.State != quarantine.InService {
			excluded = append(excluded, *one)
		}
	}
	tagged := o.TagState.update(taggable, excluded, o.Now)
	g.Tagged = slices.DeleteFunc(
		taggable,
		func(chosen gpu.GPU) bool {
			return slices.Contains(tagged.Excluded, chosen.Address())
		},
	)
	if tagged.ChangedAt.IsZero() {
		return p // the tags never excluded a GPU
	}
	data, err := json.Marshal(tagged)
	if err != nil {
		p.err = err
		return p
	}
	p.add(resource.File{Path: tagsFile, Data: data, Mode: 0o600})
	return p
}

// quarantineText returns the part of the status on quarantined GPUs: ", 1 quarantined: hang".
func (g GPUs) quarantineText() (text string) {
	for _, shown := range []struct {
		state  quarantine.State
		format string
	}{{quarantine.Quarantined, ", %d quarantined: %s"}, {quarantine.OnProbation, ", %d on probation: %s"}} {
		n := 0
		var words []string
		for _, w := range g.Quarantined {
			if w.State != shown.state {
				continue
			}
			n++
			word := w.ShortReason()
			if w.CommonCause {
				word = quarantine.AllAtOnce
			}
			if !slices.Contains(words, word) {
				words = append(words, word)
			}
		}
		if n > 0 {
			text += fmt.Sprintf(shown.format, n, strings.Join(words, ", "))
		}
	}
	return text
}

// removeWatch removes the state of the watch of AMD GPUs. The record and its copy for the
// wrapper stay: they have the GPUs that a person quarantined, and the errors that are
// already handled.
func removeWatch(charmDir, why string) []plan.Resource {
	return append(
		append([]plan.Resource{ClockReset{filepath.Join(charmDir, "dispatch"), why}},
			resource.AllAbsent(why, quarantine.EvidenceFile)...),
		resource.Absent{Path: quarantine.NodeDir, Why: why, Tree: true}, resource.Absent{
			Path: healthcheck.Dir, Why: why, Tree: true,
		}, resource.Absent{Path: healthcheck.OutputDir, Why: why, Tree: true})
}

// A change of the tags restarts the worker's process, which fails builds while Concourse
// makes their volumes. The wrapper keeps quarantined GPUs from tasks without a change of
// the tags, so the tags follow late.

// tagsFile has the GPUs that the tags exclude, and the time of the last change.
const tagsFile = wellknown.StateDir + "/gpu-tags.json"

const (
	// tagChangeInterval is the least time between two changes of the tags for quarantined
	// GPUs.
	tagChangeInterval = 5 * time.Minute
	// excludeAfter is the time in quarantine after which the tags exclude a GPU. Most GPUs
	// return earlier: the first health check runs after half of it.
	excludeAfter = 10 * time.Minute
)

// tagState holds the content of tagsFile.
type tagState struct {
	Excluded  []string  `json:"excluded"` // slots
	ChangedAt time.Time `json:"changed_at"`
}

// tagsState is disposable: at worst the worker restarts too early.
var tagsState = statefile.File[tagState]{Path: tagsFile, Mode: 0o600, Disposable: true}

// update returns the chosen GPUs to exclude from the tags. A GPU is excluded if it is
// quarantined for long. It is excluded at once if no GPU of its architecture is in service,
// because a step that requires the architecture cannot run here. An excluded GPU stays
// excluded until it returns. A change waits for tagChangeInterval, but not if all GPUs were
// excluded, because steps for a GPU error until the first is back. A clock that was set back
// does not delay changes.
func (t tagState) update(chosen []gpu.GPU, quarantined []quarantine.GPU, now time.Time) tagState {
	inService := map[string]bool{} // architectures
	bySlot := map[string]quarantine.GPU{}
	for _, g := range quarantined {
		bySlot[g.Name] = g
	}
	for _, g := range chosen {
		if _, is := bySlot[g.Address()]; !is {
			inService[g.GFX] = true
		}
	}
	var excluded []string
	none := true // the tags have no GPU
	for _, g := range chosen {
		slot := g.Address()
		none = none && slices.Contains(t.Excluded, slot)
		if w, is := bySlot[slot]; is &&
			(!inService[g.GFX] || slices.Contains(t.Excluded, slot) ||
				now.Sub(*w.QuarantinedSince).Abs() >= excludeAfter) {
			excluded = append(excluded, slot)
		}
	}
	if slices.Equal(t.Excluded, excluded) || !none && now.Sub(t.ChangedAt).Abs() < tagChangeInterval {
		return t
	}
	return tagState{excluded, now.UTC()}
}
