package baseline

import (
	"fmt"
)

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

// Hint suggests a rename that would explain one missing and one new example.
type Hint struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Report describes the complete comparison. As JSON it is the output.
type Report struct {
	Version  int      `json:"version"`
	OK       bool     `json:"ok"` // within the limits
	Base     string   `json:"base"`
	New      string   `json:"new"`
	Limits   Limits   `json:"limits"`
	Counts   Counts   `json:"counts"`
	Rows     []Row    `json:"examples"` // in the baseline's order, then new ones
	Reasons  []string `json:"reasons"`  // of the failure, without those of examples
	Notes    []string `json:"notes"`
	Probably *Hint    `json:"rename_hint"`
	Stale    []string `json:"stale_renames"` // OLD=NEW that the baseline already has
}

// compare judges every example of both profiles. An empty baseline cannot fail; the caller
// decides whether it is allowed. Each rename is OLD=NEW. The error is a rename that does
// not match.
func compare(base, now Profile, limits Limits, renames []string) (Report, error) {
	out := Report{Version: Version, Base: base.File, New: now.File, Limits: limits, Rows: []Row{},
		Reasons: []string{}, Notes: []string{}, Stale: []string{}}
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

// finish decides about the complete comparison.
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

// renames maps names of the baseline to current names.
type renames struct {
	to    map[string]string
	taken map[string]bool // the values of to
	stale []string        // OLD=NEW that the baseline already has
}

// now returns an example's new name. It returns "" if another example of the baseline was
// renamed to this name.
func (r renames) now(old string) string {
	if to, ok := r.to[old]; ok {
		return to
	}
	if r.taken[old] {
		return ""
	}
	return old
}

// pair parses each OLD=NEW. Names may contain equals signs, so the sign with an example on
// both sides separates them. A rename that the baseline already has is not an error,
// because it must not break the pipeline that contains it.
func pair(base, now Profile, specs []string) (renames, error) {
	r := renames{to: map[string]string{}, taken: map[string]bool{}}
	for _, spec := range specs {
		one, stale, err := split(spec, base, now)
		from, to := one.from, one.to
		switch {
		case err != nil:
			return r, err
		case stale:
			r.stale = append(r.stale, spec)
			continue
		case r.to[from] != "":
			return r, fmt.Errorf("cannot rename %s to %s: another --rename makes it %s", quoted(from), quoted(to),
				quoted(r.to[from]))
		case r.taken[to]:
			return r, fmt.Errorf("cannot rename %s to %s: another --rename has the same new name",
				quoted(from), quoted(to))
		}
		r.to[from], r.taken[to] = to, true
	}
	return r, nil
}

// rename holds the former and the current name of an example.
type rename struct{ from, to string }

// split returns the rename of an OLD=NEW. stale reports that the baseline already has it.
func split(spec string, base, now Profile) (one rename, stale bool, err error) {
	fits := 0
	why := "want OLD=NEW"
	for i, c := range spec {
		if c != '=' || i == 0 || i == len(spec)-1 {
			continue
		}
		before, right := spec[:i], spec[i+1:]
		_, was := base.find(before)
		_, is := now.find(right)
		_, already := base.find(right)
		switch {
		case was && is:
			fits++
			one = rename{before, right}
		case !is:
			why = fmt.Sprintf("no example %s in %s", quoted(right), visible(now.File))
		case already || len(base.Examples) == 0:
			stale = true
		default:
			why = fmt.Sprintf("no example %s in %s", quoted(before), visible(base.File))
		}
	}
	switch {
	case fits == 1:
		return one, false, nil
	case fits > 1:
		why = "more than one of its equals signs has examples on both sides"
	case stale:
		return rename{}, true, nil
	}
	return rename{}, false, fmt.Errorf("cannot rename with %s: %s", quoted(spec), why)
}
