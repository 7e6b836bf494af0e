package concourse

import "slices"

// variable is one row of the table of a process's environment: what the charm writes
// for a C, "" for nothing. A row without a value is one that only the predecessor
// wrote: it is taken out of the file.
type variable[C any] struct {
	key   string
	value func(C) string
}

// envTable is the environment of one process. A variable is the charm's, to be
// written, changed and taken back, because it has a row, and for no other reason.
type envTable[C any] []variable[C]

// of is the environment for c. Nothing that is empty is in it.
func (t envTable[C]) of(c C) map[string]string {
	env := map[string]string{}
	for _, v := range t {
		if v.value == nil {
			continue
		}
		if value := v.value(c); value != "" {
			env[v.key] = value
		}
	}
	return env
}

// owns reports whether this charm or its predecessor ever wrote the key.
func (t envTable[C]) owns(key string) bool {
	return slices.ContainsFunc(t, func(v variable[C]) bool { return v.key == key })
}

// fixed is a value that depends on nothing.
func fixed[C any](value string) func(C) string { return func(C) string { return value } }
