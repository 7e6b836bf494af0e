package edits

import (
	"slices"
	"strings"

	"concourse-ci-machine/internal/base/rawjson"
)

// Environment is what is to be in the environment of a process.
type Environment struct {
	Set      []string // NAME=value, in place of what is there: CDI's rule
	Defaults []string // NAME=value, where the process has no such variable; the first of a name counts
}

func (v Environment) none() bool { return len(v.Set)+len(v.Defaults) == 0 }

func (v Environment) apply(process *rawjson.Node) error {
	own, err := process.Strings("env")
	if err != nil {
		return err
	}
	var want []string
	for i, text := range v.Set {
		if _, again := Lookup(v.Set[i+1:], nameOf(text)); !again { // the last of a name counts
			want = append(want, text)
		}
	}
	for _, text := range v.Defaults {
		_, there := Lookup(own, nameOf(text))
		if _, set := Lookup(want, nameOf(text)); !there && !set {
			want = append(want, text)
		}
	}
	// A variable with another value, or twice, goes; one that is right stays.
	want = slices.DeleteFunc(want, func(text string) bool {
		return count(own, nameOf(text)) == 1 &&
			slices.Contains(own, text)
	})
	quoted := func(s string, out []byte) []byte { return rawjson.AppendString(out, s) }
	return process.Append("env", encode(want, quoted), func(e rawjson.Value) bool {
		name := nameOf(e.Text())
		return slices.ContainsFunc(want, func(w string) bool { return nameOf(w) == name })
	})
}

func nameOf(text string) string {
	name, _, _ := strings.Cut(text, "=")
	return name
}

func count(env []string, name string) (n int) {
	for _, e := range env {
		if nameOf(e) == name {
			n++
		}
	}
	return n
}

// Lookup returns a variable's last value in a process's environment.
func Lookup(env []string, name string) (value string, set bool) {
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			value, set = v, true
		}
	}
	return value, set
}
