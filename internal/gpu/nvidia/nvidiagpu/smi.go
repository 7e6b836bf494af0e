package nvidiagpu

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/pci"
)

// Program is NVIDIA's tool, which is part of its driver's libraries.
const Program = "nvidia-smi"

// Bounds of nvidia-smi's output.
const (
	maxOutput = 1 << 20
	maxGPUs   = 512
)

// Non-numeric fields: identity and recovery action.
const (
	addressField  = "pci.bus_id"
	uuidField     = "uuid"
	recoveryField = "gpu_recovery_action" // since driver 570
)

// supportedFields returns the required fields that this nvidia-smi supports. An unknown
// field would fail the whole query.
func supportedFields(known map[string]bool) (query []string) {
	add := func(names ...string) {
		if i := slices.IndexFunc(names, func(n string) bool { return known[n] }); i >= 0 {
			query = append(query, names[i])
		}
	}
	add(addressField)
	add(uuidField)
	add(recoveryField)
	for _, f := range fields {
		add(f.name, f.old)
	}
	return query
}

// parseHelp finds the fields in nvidia-smi --help-query-gpu, which has them in quotes:
// `"clocks.current.sm" or "clocks.sm"`.
func parseHelp(text string) map[string]bool {
	known := map[string]bool{}
	for i, word := range strings.SplitN(text[:min(len(text), maxOutput)], `"`, 1<<14) {
		if i%2 == 1 && strings.Trim(word, "abcdefghijklmnopqrstuvwxyz0123456789._") == "" && word != "" {
			known[word] = true
		}
	}
	return known
}

// parseRows reads the answer to a query with --format=csv,noheader,nounits, with a line for
// each GPU. It skips other lines, such as one about a lost GPU.
func parseRows(query []string, text string) (all []Answer) {
	for line := range strings.Lines(text[:min(len(text), maxOutput)]) {
		cells := strings.Split(strings.TrimSpace(line), ", ")
		if len(cells) != len(query) || len(all) == maxGPUs {
			continue
		}
		t := Answer{Values: map[string]float64{}}
		for i, name := range query {
			t.set(name, strings.TrimSpace(cells[i]))
		}
		if t.PCI != "" {
			all = append(all, t)
		}
	}
	return all
}

// set stores one cell. A text in brackets means an unknown value; two such texts describe
// the GPU's state.
func (t *Answer) set(name, cell string) {
	switch {
	case cell == "[GPU is lost]":
		t.State = lostState
	case cell == "[GPU requires reset]" && t.State == "":
		t.State = needsReset
	case name == addressField:
		t.PCI = address(cell)
	case name == uuidField:
		if strings.HasPrefix(cell, "GPU-") && len(cell) <= 64 {
			t.UUID = cell
		}
	case name == recoveryField:
		if slices.Contains([]string{"Reset", "Reboot", "Drain and Reset"}, cell) && t.State == "" {
			t.State = needsReset
		}
	default:
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == name || f.old == name })
		if v, ok := value(cell); ok && i >= 0 {
			t.Values[fields[i].name] = v
		}
	}
}

// value reads a number, a bit field in hex, or a word for one.
func value(cell string) (v float64, ok bool) {
	switch cell {
	case "Yes":
		return 1, true
	case "No":
		return 0, true
	}
	if digits, hex := strings.CutPrefix(cell, "0x"); hex {
		bits, err := strconv.ParseUint(digits, 16, 53)
		return float64(bits), err == nil
	}
	v, err := strconv.ParseFloat(cell, 64)
	return v, err == nil && !math.IsNaN(v) && !math.IsInf(v, 0)
}

// address converts "00000000:0A:00.0" to a PCI address as in sysfs; "" for anything else.
func address(cell string) string {
	domain, rest, _ := strings.Cut(strings.ToLower(cell), ":")
	n, err := strconv.ParseUint(domain, 16, 32)
	text := "0000" + strconv.FormatUint(n, 16)
	text = text[min(4, len(text)-4):] + ":" + rest
	if err != nil || !pci.IsAddress(text) {
		return ""
	}
	return text
}
