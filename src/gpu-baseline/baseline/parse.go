package baseline

import (
	"cmp"
	"fmt"
	"strings"
)

// maxName is the maximum length of a name in bytes.
const maxName = 500

// maxProblems is the maximum number of reported problems in one file.
const maxProblems = 10

// reader converts a file's JSON to a profile and collects its problems.
type reader struct {
	problems []string
	seen     map[string]bool
	out      []Example
}

func (r *reader) note(format string, a ...any) {
	r.problems = append(r.problems, fmt.Sprintf(format, a...))
}

// Parse parses a profile. The examples are a list, or a list or an object below "examples"
// or "results" of an object. Unknown fields are ignored. The error names the file, and the
// example and field of each problem.
func Parse(file string, data []byte) (Profile, error) {
	tree, err := parseTree(data)
	if err != nil {
		return Profile{}, fmt.Errorf("cannot read %s: %w", visible(file), err)
	}
	r := &reader{seen: map[string]bool{}}
	r.top(tree)
	if len(r.problems) == 0 {
		return Profile{file, r.out, doubt(tree)}, nil
	}
	shown := r.problems
	if more := len(shown) - maxProblems; more > 0 {
		shown = append(shown[:maxProblems:maxProblems], fmt.Sprintf("and %d more problems", more))
	}
	prefix := "cannot read " + visible(file) + ": "
	return Profile{}, fmt.Errorf("%s", prefix+strings.Join(shown, "\n"+prefix))
}

// doubt returns why the unit marked the measurement as invalid (GPU_FIXED_CLOCKS_RECORD), or "".
// It ignores other content.
func doubt(tree value) string {
	fixed, _ := tree.get("fixed_clocks")
	valid, n := fixed.get("valid")
	reason, _ := fixed.get("reason")
	if n != 1 || valid.kind != boolean || valid.text == "true" {
		return ""
	}
	return cmp.Or(strings.ToValidUTF8(reason.text[:min(len(reason.text), maxName)], ""), "no reason given")
}

func (r *reader) top(tree value) {
	in, where := tree, "the file"
	if tree.kind == object {
		found := false
		for _, key := range []string{"examples", "results"} {
			v, n := tree.get(key)
			switch {
			case n > 1:
				r.note("%q is duplicate", key)
				return
			case n == 1 && found:
				r.note(`it has both "examples" and "results"; want one of them`)
				return
			case n == 1:
				in, where, found = v, fmt.Sprintf("%q", key), true
			}
		}
		if !found {
			r.note(`it has no "examples" or "results", and is not a list of examples`)
			return
		}
	}
	switch in.kind {
	case object:
		for _, m := range in.members {
			r.example(m.key, m.value)
		}
	case array:
		for i, item := range in.items {
			r.listed(i+1, item)
		}
	default:
		r.note("%s is %s; want a list or an object of examples", where, in)
	}
}

// listed reads an example with its name inside.
func (r *reader) listed(number int, v value) {
	if v.kind != object {
		r.note("example number %d is %s; want an object", number, v)
		return
	}
	name, n := v.get("name")
	switch {
	case n == 0:
		r.note("example number %d has no name", number)
	case n > 1:
		r.note("example number %d has name twice", number)
	case name.kind != text:
		r.note("example number %d: name is %s; want a string", number, name)
	default:
		r.example(name.text, v)
	}
}

func (r *reader) example(name string, v value) {
	switch {
	case name == "":
		r.note("an example has an empty name")
	case len(name) > maxName:
		r.note("example %s: its name has %d bytes; %d is the limit", quoted(short(name)), len(name), maxName)
	case r.seen[name]:
		r.note("example %s is listed twice", quoted(name))
	case v.kind != object:
		r.note("example %s is %s; want an object", quoted(name), v)
	default:
		r.seen[name] = true
		r.out = append(r.out, Example{name, Measured{
			Status:   r.status(name, v),
			Duration: r.amount(name, "duration_s", v),
			Memory:   r.amount(name, "peak_memory_mb", v),
			Energy:   r.amount(name, "energy_j", v),
			Error:    failureText(v),
		}})
	}
}

func (r *reader) status(name string, v value) Status {
	s, n := v.get("status")
	known, ok := words[strings.ToLower(s.text)]
	switch {
	case n == 0:
		r.note("example %s has no status", quoted(name))
	case n > 1:
		r.note("example %s has status twice", quoted(name))
	case s.kind != text:
		r.note("example %s: status is %s; want a string", quoted(name), s)
	case !ok:
		r.note("example %s: status is %s; want ok, failed or skipped", quoted(name), s)
	}
	return known
}

// maxError bounds the shown part of an error, which may be a whole trace.
const maxError = 300

// failureText returns the end of the text in the field error, because the last line of a
// trace has the reason. An error that is not a text is ignored.
func failureText(v value) string {
	e, _ := v.get("error")
	if e.kind != text {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(e.text), "\n")
	last := []rune(strings.TrimSpace(lines[len(lines)-1]))
	return string(last[:min(len(last), maxError)])
}

// amount reads a number that may be missing or null.
func (r *reader) amount(name, field string, v value) *Amount {
	f, n := v.get(field)
	switch {
	case n == 0 || n == 1 && f.kind == null:
		return nil
	case n > 1:
		r.note("example %s has %s twice", quoted(name), field)
	case f.kind != number:
		r.note("example %s: %s is %s; want a number", quoted(name), field, f)
	default:
		a, err := parseAmount(f.text)
		if err != nil {
			r.note("example %s: %s %v", quoted(name), field, err)
		}
		return &a
	}
	return nil
}
