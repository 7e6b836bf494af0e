package baseline

// Version of the JSON output's shape. New fields do not change it.
const Version = 1

// Counts has the number of examples with each result.
type Counts struct {
	Examples  int `json:"examples"`
	Gating    int `json:"gating"`
	Within    int `json:"within"`
	Beyond    int `json:"beyond"`
	Regressed int `json:"regressed"`
	Fixed     int `json:"fixed"`
	Failing   int `json:"failing"`
	Skipped   int `json:"skipped"`
	Missing   int `json:"missing"`
	New       int `json:"new"`
}

// Report describes the complete comparison. As JSON it is the output.
type Report struct {
	Version int      `json:"version"`
	OK      bool     `json:"ok"` // within the limits
	Base    string   `json:"base"`
	New     string   `json:"new"`
	Limits  Limits   `json:"limits"`
	Counts  Counts   `json:"counts"`
	Rows    []Row    `json:"examples"` // in the baseline's order, then new ones
	Reasons []string `json:"reasons"`  // of the failure, without those of examples
	Notes   []string `json:"notes"`
}

// compare judges every example of both profiles. An empty baseline cannot fail; the caller
// decides whether it is allowed.
func compare(base, now Profile, limits Limits) Report {
	out := Report{Version: Version, Base: base.File, New: now.File, Limits: limits, Rows: []Row{},
		Reasons: []string{}, Notes: []string{}}
	for _, p := range []Profile{base, now} {
		if p.Doubt != "" {
			out.Notes = append(out.Notes, visible(p.File)+" counts for little: "+visible(p.Doubt))
		}
	}
	news, used := map[string]*Example{}, map[string]bool{}
	for i, e := range now.Examples {
		news[e.Name] = &now.Examples[i]
	}
	for i, old := range base.Examples {
		used[old.Name] = true
		out.add(limits.row(&base.Examples[i], news[old.Name]))
	}
	for i, e := range now.Examples {
		if !used[e.Name] {
			out.add(limits.row(nil, &now.Examples[i]))
		}
	}
	out.finish(len(base.Examples) > 0)
	return out
}

func (r *Report) add(row Row) {
	r.Rows = append(r.Rows, row)
	c := &r.Counts
	c.Examples++
	if row.Gates {
		c.Gating++
	}
	*map[Result]*int{
		Within: &c.Within, Beyond: &c.Beyond, Regressed: &c.Regressed, Fixed: &c.Fixed,
		Failing: &c.Failing, Skipped: &c.Skipped, Missing: &c.Missing, New: &c.New,
	}[row.Result]++
}

// finish decides about the complete comparison.
func (r *Report) finish(baseline bool) {
	c := r.Counts
	if baseline && c.Within+c.Beyond+c.Regressed+c.Fixed+c.Failing == 0 {
		r.Reasons = append(r.Reasons, "no example of the baseline was run: nothing was compared")
	}
	r.OK = c.Gating == 0 && len(r.Reasons) == 0
}
