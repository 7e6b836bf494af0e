package worker

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse/beacon"
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

// forTasks returns the GPUs to count for tasks. An integrated GPU beside a card is left out,
// because HIP for Windows prefers the card.
func forTasks(all []GPU) []GPU {
	integrated := func(g GPU) bool { return g.Chip().Family == chips.APU }
	if cards := slices.DeleteFunc(slices.Clone(all), integrated); len(cards) > 0 {
		return cards
	}
	return all
}

// tags returns the tags of the worker: windows, the settings' tags, and those of the GPUs as
// workers on Linux have them.
func tags(s Settings, gpus []GPU) []string {
	g := beacon.GPUTags{Runtime: "rocm"}
	for _, one := range forTasks(gpus) {
		g.Count++
		g.Archs = append(g.Archs, one.Chip().GFX)
	}
	return beacon.Tags(append([]string{beacon.Windows}, s.Tags...), g)
}

// temp and cache are the folders in the work folder for files of tasks that Concourse does
// not remove.
func temp(workDir string) string  { return filepath.Join(workDir, "tmp") }
func cache(workDir string) string { return filepath.Join(workDir, "cache") }

// environment returns the environment of Concourse's worker. Its tasks inherit it. parent is
// the environment of this process, without variables that would change the worker.
func environment(p paths, s Settings, gpus []GPU, parent []string) []string {
	own := [][2]string{
		{"CONCOURSE_NAME", s.Name},
		{"CONCOURSE_WORK_DIR", s.WorkDir},
		{"CONCOURSE_TAG", strings.Join(tags(s, gpus), ",")},
		{"CONCOURSE_TEAM", s.Team},
		{"CONCOURSE_TSA_HOST", s.TSAHost},
		{"CONCOURSE_TSA_PUBLIC_KEY", p.hostKey()},
		{"CONCOURSE_TSA_WORKER_PRIVATE_KEY", p.key()},
		// Other machines reach the worker through the web's tunnel only.
		{"CONCOURSE_BIND_IP", "127.0.0.1"},
		{"CONCOURSE_BAGGAGECLAIM_BIND_IP", "127.0.0.1"},
		{"CONCOURSE_HEALTHCHECK_BIND_IP", "127.0.0.1"},
		{"TEMP", temp(s.WorkDir)},
		{"TMP", temp(s.WorkDir)},
		{"PIP_CACHE_DIR", filepath.Join(cache(s.WorkDir), "pip")},
		{"TORCH_HOME", filepath.Join(cache(s.WorkDir), "torch")},
		{"HF_HOME", filepath.Join(cache(s.WorkDir), "huggingface")},
	}
	var env []string
	for _, v := range parent {
		name, _, _ := strings.Cut(v, "=")
		name = strings.ToUpper(name)
		set := slices.ContainsFunc(own, func(o [2]string) bool { return o[0] == name })
		if !set && !strings.HasPrefix(name, "CONCOURSE_") {
			env = append(env, v)
		}
	}
	for _, o := range own {
		if o[1] != "" {
			env = append(env, fmt.Sprintf("%s=%s", o[0], o[1]))
		}
	}
	return env
}
