// Package baseline compares profiles of the same examples and tells whether what got
// slower or bigger stays within limits: two of them (compare), those of a history, to
// find the commit (bisect), and those of two commits measured in turns (ab). It is the
// program gpu-baseline, and `dispatch gpu-baseline`. It needs nothing but Go's own library
// and what runs commands, so that the program is small enough to be fetched into a task.
// It measures nothing itself, and never changes a profile.
package baseline

// Status is what became of an example.
type Status string

const (
	StatusOK      Status = "ok"
	StatusFailed  Status = "failed"
	StatusSkipped Status = "skipped"
)

// words are the statuses that profiles may have, whatever their case. A word that
// is not here is refused: taken for a failure in both profiles it would keep an
// example from ever being compared.
var words = map[string]Status{
	"ok": StatusOK, "pass": StatusOK, "passed": StatusOK, "success": StatusOK, "succeeded": StatusOK,
	"fail": StatusFailed, "failed": StatusFailed, "failure": StatusFailed, "error": StatusFailed,
	"timeout": StatusFailed, "crashed": StatusFailed, "oom": StatusFailed,
	"skip": StatusSkipped, "skipped": StatusSkipped,
}

// Measured is what a profile says of one example. A nil number was not measured.
type Measured struct {
	Status   Status  `json:"status"`
	Duration *Amount `json:"duration_s"`     // seconds
	Memory   *Amount `json:"peak_memory_mb"` // MB of 1,000,000 bytes; nothing converts them
}

// Example is one of a profile.
type Example struct {
	Name string
	Measured
}

// Profile is the examples of one file, in its order. No name is there twice.
type Profile struct {
	File     string // as the caller named it
	Examples []Example
	Doubt    string // why what it measured does not count, as the unit told; "" where nobody did
}

// find returns the example of a name.
func (p Profile) find(name string) (Example, bool) {
	for _, e := range p.Examples {
		if e.Name == name {
			return e, true
		}
	}
	return Example{}, false
}
