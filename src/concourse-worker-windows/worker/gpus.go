package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/sanitize"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/amd/chips"
)

// GPU describes a GPU of AMD that is present.
type GPU struct {
	Device  uint16 `json:"device"`
	Name    string `json:"name"`
	Driver  string `json:"driver,omitempty"`  // version of AMD's driver, "" without one
	Release string `json:"release,omitempty"` // of AMD Software, such as 25.Q3
}

// Chip returns the chip of the GPU.
func (g GPU) Chip() chips.Chip { return chips.Of(g.Device) }

var hardwareID = regexp.MustCompile(`(?i)^PCI\\VEN_([0-9A-F]{4})&DEV_([0-9A-F]{4})(&|$)`)

// deviceOf returns the PCI device of a hardware id such as
// PCI\VEN_1002&DEV_7551&SUBSYS_04611DA2&REV_C0. ok is false for devices of others than AMD.
func deviceOf(id string) (device uint16, ok bool) {
	m := hardwareID.FindStringSubmatch(id)
	if m == nil {
		return 0, false
	}
	vendor, _ := strconv.ParseUint(m[1], 16, 16) // the expression has checked the digits
	n, _ := strconv.ParseUint(m[2], 16, 16)
	return uint16(n), vendor == chips.Vendor
}

// forTasks returns the GPUs to count for tasks. Beside a card an integrated GPU is left out,
// because HIP for Windows prefers the card, and so is one of unknown architecture.
func forTasks(all []GPU) []GPU {
	for _, families := range [][]chips.Family{{chips.Instinct, chips.Radeon}, {chips.Unknown}, {chips.APU}} {
		other := func(g GPU) bool { return !slices.Contains(families, g.Chip().Family) }
		of := slices.DeleteFunc(slices.Clone(all), other)
		if len(of) > 0 {
			return of
		}
	}
	return nil
}

// sight holds the GPUs of a machine at one time.
type sight struct {
	gpus    []GPU  // for tasks
	known   []GPU  // to remember: the GPUs for tasks, and those that are missing
	problem string // why gpus lacks some
	fix     string
	hung    bool // the problem is that HIP does not answer
}

// look lists the GPUs for tasks. If a GPU of the last time is missing, no other replaces it: tasks
// for the card would run on the GPU in the processor. hipInfo is the program that shows whether
// HIP answers; with "" that is not checked.
func look(m Machine, p paths, hipInfo string) (s sight, err error) {
	present, err := m.GPUs()
	if err != nil {
		return s, fmt.Errorf("cannot list the GPUs: %w", err)
	}
	known := readKnown(p.known())
	if lost := without(known, present); len(lost) == 0 {
		s.gpus = forTasks(present)
		s.known = s.gpus
	} else {
		s.gpus, s.known = without(known, lost), known
		names := make([]string, len(lost))
		for i, g := range lost {
			names[i] = fmt.Sprintf("%s (1002:%04x)", g.Name, g.Device)
		}
		s.problem = "Windows no longer shows " + strings.Join(names, ", ")
		s.fix = "restart the machine, or without this GPU run: " + Program + " install"
	}
	if hipInfo == "" || len(s.gpus) == 0 {
		return s, nil
	}
	if _, err := m.Output(Command{Path: hipInfo}); errors.Is(err, errNoEnd) {
		s.gpus, s.hung = nil, true
		s.problem, s.fix = hipInfo+" does not end, as a task would not", "restart the machine"
	}
	return s, nil
}

// hipInfoOf returns the path of hipInfo.exe, "" without an SDK.
func hipInfoOf(f Facts) string {
	for _, sdk := range f.HIP {
		if file := filepath.Join(sdk.Path, "bin", "hipInfo.exe"); isFile(file) {
			return file
		}
	}
	return ""
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// without returns the GPUs of all that are not in others. Each of others is one GPU.
func without(all, others []GPU) (rest []GPU) {
	others = slices.Clone(others)
	for _, g := range all {
		i := slices.IndexFunc(others, func(o GPU) bool { return o.Device == g.Device })
		if i < 0 {
			rest = append(rest, g)
			continue
		}
		others = slices.Delete(others, i, i+1)
	}
	return rest
}

// maxKnown bounds the GPUs of a machine.
const maxKnown = 64

// readKnown reads the GPUs of the last time. The service's account writes the file, so it is
// outside input. Without a valid file nothing is missing.
func readKnown(path string) []GPU {
	data, err := tail(path, maxState)
	if err != nil {
		return nil
	}
	return parseKnown(data)
}

func parseKnown(data []byte) (all []GPU) {
	if json.Unmarshal(data, &all) != nil || len(all) > maxKnown {
		return nil
	}
	for i := range all {
		all[i] = GPU{Device: all[i].Device, Name: sanitize.Line(all[i].Name, 100)}
	}
	return all
}
