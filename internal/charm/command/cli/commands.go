package cli

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/fourdollars/concourse-ci-machine/internal/base/commandline"
	"github.com/fourdollars/concourse-ci-machine/internal/base/version"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/amd"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/actions"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/report"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/gpuhealth"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/preflight"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/watcher"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/pipelines"
)

// The hidden commands with which dispatch starts itself, to open one node and to read all
// GPUs. See actions.NewProbe and gpuhealth.NewReader.
const (
	probe    = "probe"
	snapshot = "snapshot"
)

// command describes one command of the command line. Help, completion and man pages are
// made from it.
type command struct {
	words    string               // its place, such as "gpu list"
	near     []string             // words that mean it
	args     string               // its arguments in the usage line, such as "GPU REASON"
	min, max int                  // number of arguments; max -1 for any number
	text     string               // one line for the list of commands
	long     string               // additional help of the command
	example  string               // lines of an example
	json     bool                 // it has the flag --json
	flags    func(*pflag.FlagSet) // its other flags
	values   func() []string      // completes its first argument
	action   string               // the charm's action that does the same under another name
	hidden   bool                 // dispatch itself calls it
	raw      bool                 // its arguments belong to another program
	helps    bool                 // but --help alone shows this program's help
	only     string               // the program that has it; "" if both have it
	run      func(args []string) error
}

// groups describes the first words that have several commands.
var groups = map[string]string{
	"gpu":        "GPUs of this machine",
	"rocm":       "AMD's driver and ROCm",
	"cdi":        "descriptions of AMD GPUs for container tools (CDI)",
	"runtime":    "other container engines",
	"kubernetes": "labels of a Kubernetes node with AMD GPUs",
	"runners":    "GPUs for CI runners: GitHub Actions, GitLab and others",
}

// commands returns all commands in the order of the help text.
func (p *caller) commands() []command {
	if !p.charm.Commands().WithoutJuju() {
		return slices.Concat(p.unitCommands(), p.ownCommands())
	}
	shared := slices.DeleteFunc(p.unitCommands(), func(c command) bool { return c.words == "plan" })
	return slices.Concat(p.machineCommands(), shared, p.ownCommands())
}

// unitCommands returns the commands on a unit of Juju, which a machine without Juju has too.
func (p *caller) unitCommands() []command {
	c := p.charm
	const unit = wellknown.Dispatch // it needs a unit of the charm, its options or its records
	all := []command{
		{words: "plan", only: unit, text: "show what the charm would change now, and why; changes nothing",
			run: func([]string) error { return c.ShowPlan(p.ctx, p.stdout) }},
		p.runCommand(), p.leaseCommand(), p.topCommand(),
		{words: "gpu list", action: "list-gpus", json: true,
			text: "list the GPUs with health and load, and why others are not used",
			run:  func([]string) error { return c.ListGPUs(p.ctx, p.stdout, p.format) }},
		{words: "gpu detect", action: "list-gpus",
			text: "print the vendors of the GPUs, in fixed words; exit 1 without a GPU",
			run: func([]string) error {
				found, err := c.DetectGPUs(p.stdout)
				if err == nil && !found {
					err = fmt.Errorf("cannot find a GPU: %s gpu list shows why", p.name())
				}
				return err
			}},
		{words: "gpu verify", action: "verify-gpu", json: true,
			text: "open each GPU's node as a task would; wakes sleeping GPUs",
			run:  func([]string) error { return c.VerifyGPUs(p.ctx, p.stdout, p.format) }},
		{words: "gpu health", action: "gpu-health", json: true, text: "show state, score and reason of each AMD GPU",
			run: func([]string) error { return c.GPUHealth(p.ctx, p.stdout, p.format) }},
		{words: "gpu status", action: "gpu-status", json: true,
			text: "show who leases each GPU, and which GPUs are quarantined",
			run:  func([]string) error { return c.GPUs().Status(p.stdout, p.format) }},
		{words: "gpu evidence", action: "gpu-evidence", json: true,
			text: "show the tasks with GPU faults, and the cause of each fault",
			run:  func([]string) error { return c.GPUs().Evidence(p.stdout, p.format) }},
		{words: "why", args: "[TASK]", max: 1, json: true,
			text:    "show why a task, run or container failed: reasons, fixes, timeline; without TASK, the last failed one",
			example: p.name() + " why 4f1c0000",
			run:     func(a []string) error { return c.Why(p.ctx, p.stdout, strings.Join(a, ""), p.format) }},
		{words: "gpu quarantine", action: "quarantine-gpu", args: "GPU REASON", min: 2, max: -1,
			values: p.gpuNames, text: "keep a GPU from new tasks and containers until it is returned",
			example: p.name() + " gpu quarantine 0 noisy fan",
			run:     func(a []string) error { return c.GPUs().Quarantine(p.stdout, a[0], strings.Join(a[1:], " ")) }},
		{
			words: "gpu return", action: "return-gpu", args: "GPU", min: 1, max: 1, values: p.gpuNames,
			text: "make a quarantined GPU available again",
			run:  func(a []string) error { return c.GPUs().Return(p.stdout, a[0]) }},
		{words: "gpu check", args: "GPU", min: 1, max: 1, values: p.gpuNames,
			text: "run the operator's health check on a quarantined GPU now, and show its output",
			run:  func(a []string) error { return c.GPUs().RunHealthCheck(p.ctx, p.stdout, a[0]) }},
		p.releaseCommand(), p.reportCommand(),
		{words: "rocm plan", only: unit, text: "show the driver of the AMD GPUs, and what the charm decides about it",
			run: func([]string) error { return c.ShowDriver(p.ctx, p.stdout) }},
		{words: "rocm matrix", action: "rocm-matrix",
			text: "list the releases of ROCm and driver that are known to work",
			run:  func([]string) error { return amd.WriteMatrix(p.stdout) }},
		{words: "preflight", only: unit, json: true, text: "check this machine, and name the fix of each problem",
			run: func([]string) error { return preflight.Show(p.ctx, c.Host, c.Program, p.stdout, "", p.format) }},
		p.cdiRefreshCommand(), p.cdiListCommand(), p.cdiGenerateCommand(), p.cdiValidateCommand(), p.runtimeCommand(),
		p.labelsCommand(), p.manifestCommand(), p.undoCommand(), p.serveRunsCommand(),
		{words: "fleet", only: unit, json: true, text: "show all workers of this web node, their GPUs and free leases",
			run: func([]string) error { return c.ShowFleet(p.ctx, p.stdout, p.format) }},
		{words: "flakes", only: unit, json: true,
			text: "show tasks and tests that fail without a change, and on which GPU",
			run:  func([]string) error { return c.ShowFlakes(p.ctx, p.stdout, p.format) }},
		{words: "pipelines", only: unit, action: "get-pipelines", args: "[FILE]", max: 1, values: pipelines.Names,
			text: "list the pipelines and tasks of the charm, or print one",
			run:  func(a []string) error { return pipelines.Write(p.stdout, strings.Join(a, "")) }},
		{words: "errors", action: "explain-error", json: true, text: "list the errors of AMD GPUs by number",
			run: func([]string) error { return c.ListErrors(p.stdout, p.format) }},
		{words: "explain", action: "explain-error", args: "N...", min: 1, max: -1, json: true, values: errorNumbers,
			text: "explain errors by number: meaning, causes, and what to do",
			run: func(a []string) error {
				if err := c.ExplainError(p.stdout, p.format, a...); err != nil {
					return &commandline.UsageError{Text: err.Error()}
				}
				return nil
			}},
		{words: "gpu-baseline", only: unit, args: "[ARGS]", max: -1, raw: true,
			text: "compare profiles of GPU programs, and find the commit that is slower",
			run:  p.execBaseline},
		{words: "version", hidden: true, text: "print the version", run: func([]string) error {
			_, err := fmt.Fprintln(p.stdout, p.productName(), version.Version())
			return err
		}},
	}
	return slices.Concat(all, p.remoteCommands(), p.runnersCommands())
}

// ownCommands returns the commands that dispatch and Pebble start.
func (p *caller) ownCommands() []command {
	c := p.charm
	all := []command{
		{words: "gpu " + probe, args: "NODE", min: 1, max: 1, run: func(a []string) error {
			driver, err := actions.ProbeNode(c.Host.Root, a[0])
			if err == nil {
				fmt.Fprintln(p.stdout, driver)
			}
			return err
		}},
		{
			words: "gpu " + wellknown.ReadGPUFiles,
			run:   func([]string) error { return gpu.ServeFiles(c.Host.Root, os.Stdin, p.stdout) },
		},
		{
			words: "gpu " + snapshot,
			run:   func([]string) error { return term.JSON(p.stdout, gpuhealth.ReadReport(p.ctx, c.Host.Root)) },
		},
		{
			words: "gpu " + reportFiles, args: "PART...", min: 1, max: -1,
			run: func(a []string) error { return report.WriteTree(c.Host.Root, a, p.stdout) },
		},
		// The watcher's loop, and what Pebble starts in its place if GPUs are only leased.
		{words: "gpu watch", run: func([]string) error { return c.GPUs().Look(p.ctx, p.stdout) }},
		{words: "gpu leases", run: func([]string) error { return c.GPUs().ReportLeases(p.ctx, p.stdout) }},
		{
			words: "gpu open", args: "GPU", min: 1, max: 1,
			run: func(a []string) error { return c.GPUs().OpenNode(p.ctx, p.stdout, a[0]) },
		},
		{
			words: "gpu reset", args: "GPU", min: 1, max: 1,
			run: func(a []string) error { return c.GPUs().ResetGPU(p.stdout, a[0]) },
		},
		{
			words: "gpu record-check", args: "GPU", min: 1, max: 1,
			run: func(a []string) error { return c.GPUs().RecordHealthCheck(p.ctx, p.stdout, a[0]) },
		},
		{words: "gpu fixed-clocks", args: "GPU [back|end|fix RUN]", min: 1, max: 3, run: func(a []string) error {
			switch {
			case len(a) == 1:
				return c.GPUs().WatchFixedClocks(p.ctx, a[0], watcher.ClockLooks)
			case len(a) == 3 && a[1] == "fix":
				return c.GPUs().FixClocks(a[0], a[2])
			case len(a) == 2 && (a[1] == "back" || a[1] == "end"):
				return c.GPUs().RestoreClocks(p.stdout, a[0], a[1] == "end")
			}
			return &commandline.UsageError{Text: fmt.Sprintf("cannot change clocks with %q: want back, end or fix RUN", a[1])}
		}},
	}
	for i := range all {
		all[i].hidden = true
	}
	return all
}

func (p *caller) releaseCommand() command {
	force := false
	return command{words: "gpu release", action: "release-gpu", args: "GPU", min: 1, max: 1, values: p.gpuNames,
		text:  "free a GPU with a lease that is damaged or in doubt",
		flags: func(fs *pflag.FlagSet) { fs.BoolVar(&force, "force", false, "free it even if its task may still run") },
		run:   func(a []string) error { return p.charm.GPUs().Release(p.stdout, a[0], force) }}
}

// gpuNames returns the indexes and PCI addresses of the unit's GPUs that can be
// quarantined.
func (p *caller) gpuNames() (names []string) {
	inv, err := gpu.Discover(p.charm.Host.Root)
	if err != nil {
		return nil
	}
	for i, g := range inv.GPUsOf(gpu.VendorWith(gpu.Quarantine)) {
		names = append(names, strconv.Itoa(i), g.Address())
	}
	return names
}

func errorNumbers() (numbers []string) {
	for _, e := range amd.ErrorCodes("") {
		numbers = append(numbers, strconv.Itoa(e.Code))
	}
	return numbers
}
