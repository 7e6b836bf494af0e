package baseline

import "fmt"

// renames are the names that examples of the baseline have now.
type renames struct {
	to    map[string]string
	taken map[string]bool // the values of to
	stale []string        // OLD=NEW that the baseline has already
}

// now is an example's new name; empty, which is nobody's, where another example of
// the baseline was renamed to the name that it had.
func (r renames) now(old string) string {
	if to, ok := r.to[old]; ok {
		return to
	}
	if r.taken[old] {
		return ""
	}
	return old
}

// pair reads each OLD=NEW. Names may have equals signs themselves: what counts is
// where both sides are examples. One that has done its work, as the baseline was
// replaced since, must not break the pipeline that it is in.
func pair(base, now Profile, specs []string) (renames, error) {
	r := renames{to: map[string]string{}, taken: map[string]bool{}}
	for _, spec := range specs {
		from, to, stale, err := split(spec, base, now)
		switch {
		case err != nil:
			return r, err
		case stale:
			r.stale = append(r.stale, spec)
			continue
		case r.to[from] != "":
			return r, fmt.Errorf("cannot rename %s to %s: another --rename makes it %s", quoted(from), quoted(to), quoted(r.to[from]))
		case r.taken[to]:
			return r, fmt.Errorf("cannot rename %s to %s: another --rename makes that of another example", quoted(from), quoted(to))
		}
		r.to[from], r.taken[to] = to, true
	}
	return r, nil
}

func split(spec string, base, now Profile) (from, to string, stale bool, err error) {
	fits := 0
	why := "want OLD=NEW"
	for i, c := range spec {
		if c != '=' || i == 0 || i == len(spec)-1 {
			continue
		}
		left, right := spec[:i], spec[i+1:]
		_, was := base.find(left)
		_, is := now.find(right)
		_, already := base.find(right)
		switch {
		case was && is:
			fits++
			from, to = left, right
		case !is:
			why = fmt.Sprintf("no example %s in %s", quoted(right), visible(now.File))
		case already || len(base.Examples) == 0:
			stale = true
		default:
			why = fmt.Sprintf("no example %s in %s", quoted(left), visible(base.File))
		}
	}
	switch {
	case fits == 1:
		return from, to, false, nil
	case fits > 1:
		why = "more than one of its equals signs has examples on both sides"
	case stale:
		return "", "", true, nil
	}
	return "", "", false, fmt.Errorf("cannot rename with %s: %s", quoted(spec), why)
}
