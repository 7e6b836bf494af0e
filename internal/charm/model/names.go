package model

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/lazyregexp"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
)

// ownNames removes a worker's name that belongs to another unit. Root of a worker can publish
// any name, and the web prunes, drains and judges workers by their names. A name belongs to
// the unit that it is made from, otherwise to the unit that had it before. A unit of another
// model may have the same unit name, and then another id.
func ownNames(now, last map[string]Worker) {
	claims := map[string]map[string]bool{} // units by name
	for _, w := range now {
		if claims[w.Name] == nil {
			claims[w.Name] = map[string]bool{}
		}
		claims[w.Name][w.Unit] = true
	}
	made := map[string]Worker{} // by the start of the names that are made from their units
	for _, w := range now {
		made[concourse.WorkerName(w.Unit, "")] = w
	}
	before := map[string]string{}
	for _, at := range slices.Sorted(maps.Keys(last)) {
		w := last[at]
		before[w.Name] = cmp.Or(before[w.Name], w.Unit)
	}
	for at, w := range now {
		owner := ""
		if m, is := made[workerID().ReplaceAllString(w.Name, "")]; is && (m.Name == "" || m.Name == w.Name) {
			owner = m.Unit
		}
		if owner == "" && len(claims[w.Name]) > 1 {
			owner = before[w.Name]
			if !claims[w.Name][owner] {
				owner = "another unit"
			}
		}
		if w.Name == "" || owner == "" || owner == w.Unit {
			continue
		}
		problem := fmt.Sprintf("worker-name: %s is the name of %s", w.Name, owner)
		w.DataProblem = strings.TrimPrefix(w.DataProblem+", "+problem, ", ")
		w.Name = ""
		now[at] = w
	}
}

// workerID matches the id at the end of a name of concourse.WorkerName.
var workerID = lazyregexp.New(`[0-9a-f]{8}$`)
