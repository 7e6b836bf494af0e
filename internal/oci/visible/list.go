package visible

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/pci"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdispec/edits"
)

// maxVisible bounds the value of a variable such as AMD_VISIBLE_DEVICES.
const maxVisible = 4096

// pickList applies the value of one variable, such as AMD_VISIBLE_DEVICES, to the GPUs that
// the unit gives, and returns which of them the task requests. The value is "all", or one
// of "none", "void" and "", or a list with commas of:
//   - indexes ("0") and ranges ("0-2")
//   - names of the CDI spec ("GPU-<unique id>")
//   - unique ids in hex ("0x1a2b...", or more than 8 digits without 0x)
//   - PCI addresses ("0000:03:00.0", "03:00.0"), also of a partition ("0000:03:00.0-1")
//
// Case, spaces around entries and repeated GPUs do not matter. The work grows with the text
// and the GPUs, never with a number in the text.
func pickList(gpus []GPU, value string) (picked []bool, err error) {
	if len(value) > maxVisible {
		return nil, fmt.Errorf("it has %d characters, more than %d", len(value), maxVisible)
	}
	picked = make([]bool, len(gpus))
	switch strings.ToLower(strings.TrimSpace(value)) {
	case "all":
		for i := range picked {
			picked[i] = !gpus[i].byName
		}
		return picked, nil
	case "", "none", "void":
		return picked, nil
	}
	for entry := range strings.SplitSeq(value, ",") {
		entry = strings.TrimSpace(entry)
		if err := pick(gpus, picked, strings.ToLower(entry)); err != nil {
			return nil, fmt.Errorf("%s %w", shorten(entry), err)
		}
	}
	return picked, nil
}

// shorten quotes a user's text for a message.
func shorten(s string) string {
	if len(s) > 60 {
		s = strings.ToValidUTF8(s[:60], "") + "..."
	}
	return strconv.Quote(s)
}

var (
	errUnknownGPU = errors.New("is not a GPU that this machine gives")
	errMalformed  = errors.New("is not an index, a range such as 0-1, GPU-<unique id>, a unique id in hex or a " +
		"PCI address")
)

func pick(gpus []GPU, picked []bool, entry string) error {
	switch entry {
	case "":
		return errors.New("is an empty entry")
	case "all", "none", "void":
		return errors.New("can't be combined with others")
	}
	found := false
	for i, g := range gpus {
		if !g.matches(entry) {
			continue
		}
		picked[i], found = true, true
		for j, other := range gpus { // an id that all partitions share is listed at the first of them
			if g.hasID() && !other.hasID() && g.pci != "" && other.pci == g.pci &&
				(!isDecimal(entry) || isUniqueID(entry)) {
				picked[j] = true
			}
		}
	}
	if found {
		return nil
	}
	from, to, isRange := strings.Cut(entry, "-")
	from, to = strings.TrimSpace(from), strings.TrimSpace(to)
	if id := unquotedHexID(gpus, entry); id != "" {
		return fmt.Errorf("is what YAML makes of %s without quotes: write %q", id, id)
	}
	switch {
	case isRange && isDecimal(from) && isDecimal(to):
		return pickRange(gpus, picked, from, to)
	case isDecimal(entry), isUniqueID(entry), isPCI(entry), strings.HasPrefix(entry,
		"gpu-"), strings.HasPrefix(entry, "mig-"):
		return errUnknownGPU
	}
	return errMalformed
}

func isDecimal(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// hasID reports whether one of the names is a unique id.
func (g GPU) hasID() bool {
	return slices.ContainsFunc(g.names, func(n string) bool { return strings.HasPrefix(n, "GPU-") })
}

// matches reports whether an entry, in small letters, names the GPU.
func (g GPU) matches(entry string) bool {
	id, hex := strings.CutPrefix(entry, "0x")
	hex = hex || isUniqueID(entry)
	for _, name := range g.names {
		name = strings.ToLower(name)
		if name == entry || name == pci.Full(entry) {
			return true
		}
		own, ok := strings.CutPrefix(name, "gpu-")
		if hex && ok && id != "" && strings.TrimLeft(id, "0") == strings.TrimLeft(own, "0") {
			return true
		}
	}
	if n, ok := g.index(); ok && isDecimal(entry) {
		want, err := strconv.ParseUint(entry, 10, 32)
		return err == nil && want == n // 00 is 0
	}
	return g.pci != "" && isPCI(entry) && pci.Full(entry) == pci.Full(strings.ToLower(g.pci))
}

// isUniqueID distinguishes the hex digits of an id from an index: they begin with 0x, or
// are more than 8.
func isUniqueID(s string) bool {
	id, marked := strings.CutPrefix(s, "0x")
	return id != "" && (marked || len(id) > 8) && strings.Trim(id, "0123456789abcdef") == ""
}

// isPCI recognizes [domain:]bus:device.function, also with -partition.
func isPCI(s string) bool { return pci.OfSlot(pci.Full(s)) != "" }

// pickRange picks the GPUs with an index in the range. All indexes of the range must exist.
func pickRange(gpus []GPU, picked []bool, from, to string) error {
	a, errA := strconv.ParseUint(from, 10, 32)
	b, errB := strconv.ParseUint(to, 10, 32)
	switch {
	case errA != nil || errB != nil:
		return errors.New("names GPUs that this machine does not give")
	case a > b:
		return errors.New("is a range that runs backwards")
	}
	var there uint64
	for i, g := range gpus {
		if n, ok := g.index(); ok && n >= a && n <= b {
			picked[i] = true
			there++
		}
	}
	if there != b-a+1 {
		return errors.New("names GPUs that this machine does not give")
	}
	return nil
}

// narrow returns, as indexes, the GPUs that all of the variables allow, and never nil if
// narrowed. narrowed is false if the task sets none of them, or all of them to all: then own
// has all GPUs but those that a container must name.
func narrow(gpus []GPU, variables, env []string) (own []int, narrowed bool, err error) {
	own = make([]int, len(gpus))
	for i := range own {
		own[i] = i
	}
	for _, name := range variables {
		value, set := edits.Lookup(env, name)
		short := withoutKind(gpus, value)
		if !set || strings.EqualFold(strings.TrimSpace(short), "all") {
			continue
		}
		if err := Describe(gpus); err != nil {
			return nil, false, err
		}
		picked, err := pickList(gpus, short)
		if err == nil {
			err = checkQuoted(env, name, value)
		}
		if err != nil {
			return nil, false, fmt.Errorf("cannot give the task the GPUs of %s=%s: %w; there are: %s", name,
				shorten(value), err, joinGPUs(gpus))
		}
		own, narrowed = slices.DeleteFunc(own, func(i int) bool { return !picked[i] }), true
	}
	if !narrowed {
		own = slices.DeleteFunc(own, func(i int) bool { return gpus[i].byName })
	}
	return own, narrowed, nil
}

// withoutKind shortens full CDI names such as amd.com/gpu=0 to the names of a list.
func withoutKind(gpus []GPU, value string) string {
	if !strings.Contains(value, "=") || len(value) > maxVisible {
		return value
	}
	entries := strings.Split(value, ",")
	for i, e := range entries {
		for _, g := range gpus {
			if name, full := strings.CutPrefix(strings.ToLower(strings.TrimSpace(e)), g.Spec.Kind+"="); full {
				entries[i] = name
			}
		}
	}
	return strings.Join(entries, ",")
}

func joinGPUs(gpus []GPU) string {
	texts := []string{}
	for _, g := range gpus {
		texts = append(texts, g.String())
	}
	if len(texts) == 0 {
		return "none"
	}
	return strings.Join(texts, ", ")
}

// unquotedHexID finds the GPU with a unique id that YAML reads as this number if a pipeline
// has it in hex without quotes. It returns "" if no GPU has such an id.
func unquotedHexID(gpus []GPU, entry string) string {
	for _, g := range gpus {
		for _, name := range g.names {
			hex, ok := strings.CutPrefix(strings.ToLower(name), "gpu-")
			id, err := strconv.ParseUint(hex, 16, 64)
			if !ok || err != nil {
				continue
			}
			if strconv.FormatUint(id, 10) == entry {
				return "0x" + hex
			}
		}
	}
	return ""
}

// checkQuoted detects how YAML reads {AMD_VISIBLE_DEVICES: 0,1}: as the value 0 and a
// variable with the name 1 and no value.
func checkQuoted(env []string, name, value string) error {
	var rest []string
	for _, e := range env {
		other, empty := strings.CutSuffix(e, "=")
		from, to, isRange := strings.Cut(other, "-")
		if empty && (isDecimal(other) || isRange && isDecimal(from) && isDecimal(to) ||
			strings.HasPrefix(strings.ToLower(other), "gpu-")) {
			rest = append(rest, other)
		}
	}
	if len(rest) == 0 {
		return nil
	}
	slices.Sort(rest)
	list := shorten(strings.Join(append([]string{value}, rest...), ","))
	return fmt.Errorf("the task also has a variable %s without a value, as YAML reads {%s: %s}; "+
		"write the list in quotes: %s",
		shorten(rest[0]), name, strings.Trim(list, `"`), list)
}
