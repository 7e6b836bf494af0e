package amd

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Severity is how bad an error is for the work on the GPU.
type Severity string

// The severities, worst first.
const (
	SeverityCritical Severity = "Critical" // results may be wrong or lost: take the GPU out of service
	SeverityWarning  Severity = "Warning"  // slower, or about to become worse
	SeverityInfo     Severity = "Info"     // handled by the hardware; worth watching
)

// ErrorCode is one kind of fault of a GPU. The numbers are this charm's
// own (and its predecessors'), for people and alerts to refer to: AMD has none.
type ErrorCode struct {
	Code        int      `json:"code"`
	Name        string   `json:"name"`
	Severity    Severity `json:"severity"`
	Description string   `json:"description"`
	Causes      []string `json:"causes"`      // likely ones first
	Actions     []string `json:"actions"`     // in the order to try them
	Link        string   `json:"link"`        // the kernel's documentation of the subsystem
	Detected    []Signal `json:"detected_by"` // any one is enough
}

// Source is where a Signal is seen.
type Source string

// The sources.
const (
	FromMetric Source = "metric" // of rocm-exporter, on port 9401
	FromSysfs  Source = "sysfs"  // below the GPU's /sys/bus/pci/devices/ADDRESS
	FromKernel Source = "kernel" // the kernel's log: journalctl -k
)

// Signal is one way in which an error shows.
type Signal struct {
	Source Source `json:"source"`
	What   string `json:"what"`
}

// explainError finds an error by its number.
func explainError(code int) (ErrorCode, error) {
	all := ErrorCodes()
	if i := slices.IndexFunc(all, func(e ErrorCode) bool { return e.Code == code }); i >= 0 {
		return all[i], nil
	}
	return ErrorCode{}, unknownCode(strconv.Itoa(code))
}

// ParseErrorCode finds an error by its number as people type it.
func ParseErrorCode(text string) (ErrorCode, error) {
	n, err := strconv.Atoi(text)
	if err != nil {
		return ErrorCode{}, unknownCode(strconv.Quote(text))
	}
	return explainError(n)
}

func unknownCode(given string) error {
	var known []string
	for _, e := range ErrorCodes() {
		known = append(known, fmt.Sprintf("%d %s", e.Code, e.Name))
	}
	return fmt.Errorf("cannot explain error code %s: want one of %s", given, strings.Join(known, ", "))
}
