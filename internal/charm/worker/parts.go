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

// rolePart returns what fill adds to a unit of either role.
func rolePart(r rank, fill func(*role.Desired)) part {
	var d role.Desired
	fill(&d)
	return part{resources: d.Resources, causes: ranked(r, d.Causes)}
}

func ranked(r rank, causes []status.Cause) (list []rankedCause) {
	for _, c := range causes {
		list = append(list, rankedCause{r, c})
	}
	return list
}

// join returns the parts as one, with the first error.
func join(parts ...part) (all part) {
	for _, p := range parts {
		all.resources = append(all.resources, p.resources...)
		all.causes = append(all.causes, p.causes...)
		all.err = cmp.Or(all.err, p.err)
	}
	return all
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
