package health

// Kind is what a fault is about.
type Kind string

// The kinds, with what a fault's Value and Limit are.
const (
	Hang                Kind = "hang"                 // Signals say so
	Unreadable          Kind = "unreadable"           // File does not come back; with a Value it is one of so many that answered before and fail; "": no file gives a value
	UncorrectableErrors Kind = "uncorrectable_errors" // a number
	BadPages            Kind = "bad_pages"            // a number
	DeferredErrors      Kind = "deferred_errors"      // a number
	CorrectableErrors   Kind = "correctable_errors"   // a number
	Hot                 Kind = "hot"                  // degrees Celsius of the sensor in Component
	Throttled           Kind = "throttled"            // share of the time, 0 to 1
	Reset               Kind = "reset"                // hangs and resets in 24 h
	LinksDown           Kind = "links_down"           // XGMI links that are up, of those that were
	Narrow              Kind = "narrow_link"          // PCIe lanes
	Slow                Kind = "slow_link"            // PCIe transfers/s of a lane, while the GPU is busy
	Replays             Kind = "replays"              // PCIe packets sent again in a second
)

// Fault is one thing that is wrong with a GPU, or costs its score.
type Fault struct {
	Kind      Kind     `json:"kind"`
	Component string   `json:"component,omitempty"` // a sensor
	Value     float64  `json:"value"`
	Limit     float64  `json:"limit,omitempty"` // 0: there is none
	Signals   []string `json:"signals,omitempty"`
	File      string   `json:"file,omitempty"`
}

// Code is the number of the error that explain-error tells of, 1 to 8.
func (f Fault) Code() int {
	switch f.Kind {
	case BadPages:
		return 1
	case Hang, Unreadable, Reset:
		return 2
	case Narrow, Slow, Replays:
		return 3
	case Hot, Throttled:
		return 4
	case CorrectableErrors:
		return 6
	case LinksDown:
		return 8
	}
	return 7
}

// Signals are those that say that the GPU hangs; nil where none does.
func (j Judgement) Signals() []string {
	for _, f := range j.Faults {
		if f.Kind == Hang {
			return f.Signals
		}
	}
	return nil
}

// Codes are the numbers of the errors of a GPU that is not well, each once.
func (j Judgement) Codes() []int {
	codes := []int{}
	if j.State != Warning && j.State != Critical {
		return codes
	}
	seen := [9]bool{}
	for _, f := range j.Faults {
		seen[f.Code()] = true
	}
	for code, has := range seen {
		if has {
			codes = append(codes, code)
		}
	}
	return codes
}
