package worker

import (
	"cmp"
	"slices"

	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
)

// rank orders the causes of a worker: a cause comes before its consequences. The status
// sorts by kind first, and keeps this order within a kind.
type rank int

const (
	rankDriver      rank = iota // explains missing GPUs
	rankGPUs                    // the GPUs and their quarantine
	rankAuthorities             // private certificate authorities
	rankRelease                 // the release, and notes on options
	rankInstall                 // the installation of AMD's software
	rankToolkit                 // container toolkits
	rankSpec                    // the CDI description
	rankLeases                  // options without an effect
	rankWrapper                 // the environment of tasks
	rankWeb                     // the relation to the web
	rankTracing                 // the relation for traces
	rankWorker                  // the worker itself
)

// rankedCause is a cause with its place among the causes of other parts.
type rankedCause struct {
	rank rank
	status.Cause
}

// part holds what one subject adds to the desired state of a worker. Resources are applied
// in the order of the parts. Causes are sorted by rank.
type part struct {
	resources []plan.Resource
	causes    []rankedCause
	err       error // the part is impossible
}

func (p *part) add(rs ...plan.Resource) { p.resources = append(p.resources, rs...) }

// cause adds a cause unless its text is empty.
func (p *part) cause(r rank, c status.Cause) {
	if c.Text != "" {
		p.causes = append(p.causes, rankedCause{r, c})
	}
}

// addCauses adds the causes that have a text.
func (p *part) addCauses(r rank, causes []status.Cause) {
	for _, c := range causes {
		p.cause(r, c)
	}
}

// addShared adds the state that a unit of either role has.
func (p *part) addShared(r rank, d role.Desired) {
	p.add(d.Resources...)
	p.addCauses(r, d.Causes)
}

// join adds parts. The first error stays.
func (p *part) join(parts ...part) {
	for _, o := range parts {
		p.add(o.resources...)
		p.causes = append(p.causes, o.causes...)
		p.err = cmp.Or(p.err, o.err)
	}
}

// sortedCauses returns the causes by rank. Causes of equal rank keep their order.
func (p part) sortedCauses() (causes []status.Cause) {
	list := slices.Clone(p.causes)
	slices.SortStableFunc(list, func(a, b rankedCause) int { return cmp.Compare(a.rank, b.rank) })
	for _, c := range list {
		causes = append(causes, c.Cause)
	}
	return causes
}
