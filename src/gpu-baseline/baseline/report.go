package baseline

// Version of the JSON output's shape. Fields may be added to it under the same
// number.
const Version = 1

// Counts says how many examples have each result.
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

// Hint is a rename that explains why one example is missing and one is new.
type Hint struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Report is the whole comparison; as JSON it is the output.
type Report struct {
	Version  int      `json:"version"`
	OK       bool     `json:"ok"` // within the limits
	Base     string   `json:"base"`
	New      string   `json:"new"`
	Limits   Limits   `json:"limits"`
	Counts   Counts   `json:"counts"`
	Rows     []Row    `json:"examples"` // in the baseline's order, then what is new
	Reasons  []string `json:"reasons"`  // why it fails, other than those of examples
	Notes    []string `json:"notes"`
	Probably *Hint    `json:"rename_hint"`
	Stale    []string `json:"stale_renames"` // OLD=NEW where the baseline has NEW already
}

// Compare judges every example of both profiles. An empty baseline has no example
// to fail; the caller decides whether that is wanted. Each rename is OLD=NEW; the
// error is one that does not fit.
func compare(base, now Profile, limits Limits, renames []string) (Report, error) {
	out := Report{Version: Version, Base: base.File, New: now.File, Limits: limits, Rows: []Row{}, Reasons: []string{}, Notes: []string{}, Stale: []string{}}
	for _, p := range []Profile{base, now} {
		if p.Doubt != "" {
			out.Notes = append(out.Notes, visible(p.File)+" counts for little: "+visible(p.Doubt))
		}
	}
	pairs, err := pair(base, now, renames)
	if err != nil {
		return out, err
	}
	out.Stale = append(out.Stale, pairs.stale...)
	news, used := map[string]*Example{}, map[string]bool{}
	for i, e := range now.Examples {
		news[e.Name] = &now.Examples[i]
	}
	for i, old := range base.Examples {
		name := pairs.now(old.Name)
		used[name] = true
		out.add(limits.row(&base.Examples[i], news[name]))
	}
	for i, e := range now.Examples {
		if !used[e.Name] {
			out.add(limits.row(nil, &now.Examples[i]))
		}
	}
	out.finish(len(base.Examples) > 0)
	return out, nil
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

// finish decides on the whole.
func (r *Report) finish(baseline bool) {
	c := r.Counts
	if baseline && c.Within+c.Beyond+c.Regressed+c.Fixed+c.Failing == 0 {
		r.Reasons = append(r.Reasons, "no example of the baseline was run: nothing was compared")
	}
	var from, to []string
	for _, row := range r.Rows {
		switch {
		case row.Result == Missing:
			from = append(from, row.Name)
		case row.Base == nil:
			to = append(to, row.Name)
		}
	}
	if len(from) == 1 && len(to) == 1 {
		r.Probably = &Hint{from[0], to[0]}
	}
	r.OK = c.Gating == 0 && len(r.Reasons) == 0
}
