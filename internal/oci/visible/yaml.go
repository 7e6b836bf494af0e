package visible

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// madeDecimal finds the GPU whose unique id, written in hex and without quotes in a
// pipeline, YAML reads as this number; "" where there is none.
func madeDecimal(gpus []unitGPU, entry string) string {
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

// unquoted finds what YAML leaves of {AMD_VISIBLE_DEVICES: 0,1}: the value 0, and a
// variable with the name 1 and no value.
func unquoted(env []string, name, value string) error {
	var rest []string
	for _, e := range env {
		other, empty := strings.CutSuffix(e, "=")
		from, to, isRange := strings.Cut(other, "-")
		if empty && (isDecimal(other) || isRange && isDecimal(from) && isDecimal(to) || strings.HasPrefix(strings.ToLower(other), "gpu-")) {
			rest = append(rest, other)
		}
	}
	if len(rest) == 0 {
		return nil
	}
	slices.Sort(rest)
	list := shorten(strings.Join(append([]string{value}, rest...), ","))
	return fmt.Errorf("the task also has a variable %s without a value, as YAML reads {%s: %s}; write the list in quotes: %s", shorten(rest[0]), name, strings.Trim(list, `"`), list)
}
