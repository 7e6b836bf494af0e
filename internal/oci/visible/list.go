package visible

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"concourse-ci-machine/internal/base/wellknown"
	"concourse-ci-machine/internal/gpu/cdispec"
	"concourse-ci-machine/internal/gpu/cdispec/edits"
)

// maxVisible is the longest value of a variable like AMD_VISIBLE_DEVICES.
const maxVisible = 4096

// pickList applies the value of one variable, such as AMD_VISIBLE_DEVICES, to the
// GPUs that the unit gives, and tells which of them the task asks for. The
// value is all; none, void or nothing at all; or a list with commas of indexes
// ("0"), ranges ("0-2"), names of the CDI spec ("GPU-<unique id>"), unique ids
// in hex ("0x1a2b...", or bare with more than 8 digits) and PCI addresses
// ("0000:03:00.0", "03:00.0"; of one partition "0000:03:00.0-1"). Case does not matter, nor do spaces around
// entries and GPUs named twice.
//
// The work grows with the text and the GPUs, never with a number in the text.
func pickList(gpus []unitGPU, value string) (picked []bool, err error) {
	if len(value) > maxVisible {
		return nil, fmt.Errorf("it has %d characters, more than %d", len(value), maxVisible)
	}
	picked = make([]bool, len(gpus))
	switch strings.ToLower(strings.TrimSpace(value)) {
	case "all":
		for i := range picked {
			picked[i] = true
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

// shorten quotes a text of a user for a message.
func shorten(s string) string {
	if len(s) > 60 {
		s = strings.ToValidUTF8(s[:60], "") + "..."
	}
	return strconv.Quote(s)
}

var (
	errUnknownGPU = errors.New("is no GPU that this unit gives")
	errMalformed  = errors.New("is not an index, a range such as 0-1, GPU-<unique id>, a unique id in hex or a PCI address")
)

func pick(gpus []unitGPU, picked []bool, entry string) error {
	switch entry {
	case "":
		return errors.New("is an empty entry")
	case "all", "none", "void":
		return errors.New("can't be combined with others")
	}
	found := false
	for i, g := range gpus {
		if !g.is(entry) {
			continue
		}
		picked[i], found = true, true
		for j, other := range gpus { // an id that all partitions share names the first of them
			if g.hasID() && !other.hasID() && g.pci != "" && other.pci == g.pci && (!isDecimal(entry) || isUniqueID(entry)) {
				picked[j] = true
			}
		}
	}
	if found {
		return nil
	}
	from, to, isRange := strings.Cut(entry, "-")
	from, to = strings.TrimSpace(from), strings.TrimSpace(to)
	if id := madeDecimal(gpus, entry); id != "" {
		return fmt.Errorf("is what YAML makes of %s without quotes: write %q", id, id)
	}
	switch {
	case isRange && isDecimal(from) && isDecimal(to):
		return pickRange(gpus, picked, from, to)
	case isDecimal(entry), isUniqueID(entry), isPCI(entry), strings.HasPrefix(entry, "gpu-"), strings.HasPrefix(entry, "mig-"):
		return errUnknownGPU
	}
	return errMalformed
}

func isDecimal(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// hasID reports whether one of the names is a unique id.
func (g unitGPU) hasID() bool {
	return slices.ContainsFunc(g.names, func(n string) bool { return strings.HasPrefix(n, "GPU-") })
}

// is tells whether an entry, in small letters, names the GPU.
func (g unitGPU) is(entry string) bool {
	id, hex := strings.CutPrefix(entry, "0x")
	hex = hex || isUniqueID(entry)
	for _, name := range g.names {
		name = strings.ToLower(name)
		if name == entry || name == fullPCI(entry) {
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
	return g.pci != "" && isPCI(entry) && fullPCI(entry) == fullPCI(strings.ToLower(g.pci))
}

// isUniqueID tells hex digits of an id from an index: they begin with 0x, or
// are more than 8.
func isUniqueID(s string) bool {
	id, marked := strings.CutPrefix(s, "0x")
	return id != "" && (marked || len(id) > 8) && strings.Trim(id, "0123456789abcdef") == ""
}

// isPCI reads [domain:]bus:device.function, and the same with -partition.
func isPCI(s string) bool { return wellknown.PCIOf(fullPCI(s)) != "" }

func fullPCI(s string) string {
	if strings.Count(s, ":") == 1 {
		return "0000:" + s
	}
	return s
}

// pickRange picks the GPUs whose index is in the range, which has to be all of
// the range.
func pickRange(gpus []unitGPU, picked []bool, from, to string) error {
	a, errA := strconv.ParseUint(from, 10, 32)
	b, errB := strconv.ParseUint(to, 10, 32)
	switch {
	case errA != nil || errB != nil:
		return errors.New("names GPUs that this unit does not give")
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
		return errors.New("names GPUs that this unit does not give")
	}
	return nil
}

// narrow are the GPUs that all of the variables allow. narrowed is false where the
// task sets none of them, or all of them to all.
func narrow(specs []*cdispec.Spec, allowed []cdispec.Device, variables, env []string) (own []unitGPU, narrowed bool, err error) {
	for _, name := range variables {
		value, set := edits.Lookup(env, name)
		short := withoutKind(specs, value)
		if !set || strings.EqualFold(strings.TrimSpace(short), "all") {
			continue
		}
		gpus, err := unitGPUs(specs, allowed)
		if err != nil {
			return nil, false, err
		}
		picked, err := pickList(gpus, short)
		if err == nil {
			err = unquoted(env, name, value)
		}
		if err != nil {
			return nil, false, fmt.Errorf("cannot give the task the GPUs of %s=%s: %w; there are: %s", name, shorten(value), err, list(gpus))
		}
		var both []unitGPU
		for i, g := range gpus {
			earlier := func(o unitGPU) bool { return o.Spec == g.Spec && o.Name == g.Name }
			if picked[i] && (!narrowed || slices.ContainsFunc(own, earlier)) {
				both = append(both, g)
			}
		}
		own, narrowed = both, true
	}
	return own, narrowed, nil
}

// withoutKind makes full CDI names, amd.com/gpu=0, those that a list has.
func withoutKind(specs []*cdispec.Spec, value string) string {
	if !strings.Contains(value, "=") || len(value) > maxVisible {
		return value
	}
	entries := strings.Split(value, ",")
	for i, e := range entries {
		for _, s := range specs {
			if name, full := strings.CutPrefix(strings.ToLower(strings.TrimSpace(e)), s.Kind+"="); full {
				entries[i] = name
			}
		}
	}
	return strings.Join(entries, ",")
}

func list(gpus []unitGPU) string {
	texts := []string{}
	for _, g := range gpus {
		texts = append(texts, g.String())
	}
	if len(texts) == 0 {
		return "none"
	}
	return strings.Join(texts, ", ")
}
