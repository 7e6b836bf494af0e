package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	jujuerrors "github.com/juju/errors"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/charm/healthcheck"
	"concourse-ci-machine/internal/charm/role"
	"concourse-ci-machine/internal/charm/status"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/pool/quarantine"
)

// Which GPUs are withheld is decided each few seconds, without Juju; see watcher.Look. A
// hook brings the tags and the status in line.

// observeService reads what was decided. A damaged record counts as none: it is made
// anew within seconds.
func (o *Observed) observeService(r host.Root) (err error) {
	if o.Service, err = quarantine.Read(r); err != nil && !errors.Is(err, quarantine.ErrDamaged) {
		return jujuerrors.Annotate(err, "cannot observe which GPUs are withheld")
	}
	data, err := r.ReadFile(tagsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return jujuerrors.Annotate(err, "cannot observe which GPUs the tags leave out")
	}
	if json.Unmarshal(data, &o.Tagged) != nil {
		o.Tagged = taggedGPUs{} // the worst that follows is a restart too early
	}
	return nil
}

// withhold says which of the chosen GPUs are withheld, and which the tags are of.
func (g *GPUs) withhold(d *Desired, o Observed) {
	g.Tagged = g.Chosen
	if g.Vendor != gpu.AMD || o.Config.GPUQuarantine == string(quarantine.Off) {
		d.Resources = append(d.Resources, resource.Absent{Path: tagsFile, Why: "no GPU is withheld"})
		return
	}
	for _, of := range g.Chosen {
		one := o.Service.Find(gpu.Slot(of.PCI, of.Partition))
		if one == nil {
			continue
		}
		if warning := one.WarningText(); warning != "" {
			g.Remarks = append(g.Remarks, status.Cause{Kind: status.Active, Text: fmt.Sprintf("GPU %d: %s", one.Index, warning)})
		}
		if one.State != quarantine.InService {
			g.Withheld = append(g.Withheld, *one)
			if one.PendingProof != nil && one.PendingProof.Stuck {
				g.Remarks = append(g.Remarks, status.Cause{Kind: status.Active, Text: fmt.Sprintf("GPU %d is well and not returned: %s", one.Index, one.PendingProof.Text)})
			}
			if one.ManualReturn {
				g.Remarks = append(g.Remarks, status.Cause{Kind: status.Active, Text: fmt.Sprintf(
					"GPU %d fell sick too often to come back by itself; once it is mended: juju run %s gpu-return gpu=%d", one.Index, o.Facts.Unit, one.Index)})
			}
		}
	}
	tagged := o.Tagged.follow(g.Chosen, g.Withheld, o.Now)
	g.Tagged = slices.DeleteFunc(slices.Clone(g.Chosen), func(of gpu.GPU) bool { return slices.Contains(tagged.Out, gpu.Slot(of.PCI, of.Partition)) })
	if tagged.At.IsZero() {
		return // none ever was
	}
	data, err := json.Marshal(tagged)
	if err != nil {
		d.Resources = append(d.Resources, role.Impossible{Err: err})
		return
	}
	d.Resources = append(d.Resources, resource.File{Path: tagsFile, Data: append(data, '\n'), Mode: 0o600})
}

// withheldText is the part of the status that tells of withheld GPUs: ", 1 withheld:
// hang".
func (g GPUs) withheldText() (text string) {
	for _, in := range []struct {
		state  quarantine.State
		format string
	}{{quarantine.Quarantined, ", %d withheld: %s"}, {quarantine.Proving, ", %d proving: %s"}} {
		n := 0
		var words []string
		for _, w := range g.Withheld {
			if w.State != in.state {
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
			text += fmt.Sprintf(in.format, n, strings.Join(words, ", "))
		}
	}
	return text
}

// leaveService is a unit whose AMD GPUs nobody watches any more. The record stays, with
// its copy for the wrapper: it has what a person withheld, and which errors are known.
func leaveService(charmDir, why string) []plan.Resource {
	return append(append([]plan.Resource{pinsBack{charmDir, why}}, resource.AllAbsent(why, quarantine.EvidenceFile)...),
		resource.Absent{Path: quarantine.NodeDir, Why: why, Tree: true}, resource.Absent{Path: healthcheck.Dir, Why: why, Tree: true}, resource.Absent{Path: healthcheck.OutputDir, Why: why, Tree: true})
}
