package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"concourse-ci-machine/internal/base/version"
	"concourse-ci-machine/internal/base/wellknown"
	"concourse-ci-machine/internal/charm/command/actions"
	"concourse-ci-machine/internal/charm/command/term"
	"concourse-ci-machine/internal/charm/gpuhealth"
	"concourse-ci-machine/internal/charm/preflight"
	"concourse-ci-machine/internal/charm/watcher"
	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/gpu/amd"
	"concourse-ci-machine/pipelines"
)

// Commands under gpu that dispatch starts itself in separate processes.
const (
	probe = "probe" // opens a node, see actions.NewProbe
	read  = "read"  // reads all GPUs, see gpuhealth.NewReader
	open  = "open"  // opens a node for the next look, see watcher.OpenNode
	proof = "proof" // runs a health check, see watcher.RecordProof
	bench = "bench" // watches fixed clocks, see watcher.WatchBench
)

// Commands under gpu that Pebble starts. watch decides which GPUs are quarantined, see
// watcher.Look. leases writes the holders of the GPUs, see watcher.ReportLeases; earlier
// versions started only this one.
const (
	watch  = "watch"
	leases = "leases"
)

const gpuCommands = "gpu top, list, detect, verify, health, status, evidence, prove, release, withhold or return"

// caller holds what a command of a user or a script needs.
type caller struct {
	ctx            context.Context
	charm          *actions.Actions
	stdout, stderr io.Writer
	screen         *os.File // stdout, if it is a terminal
	format         term.Format
	env            func(string) string
}

func runCommand(
	ctx context.Context, c *actions.Actions, args []string, env func(string) string, stdout,
	stderr io.Writer,
) int {
	screen := term.Terminal(stdout, env)
	// See no-color.org: NO_COLOR disables colours.
	p := &caller{ctx, c, stdout, stderr, screen, term.Format{Colour: screen != nil && env("NO_COLOR") == ""}, env}
	args = normalizeHelp(args)
	if text := help(args); text != "" {
		fmt.Fprint(stdout, text)
		return 0
	}
	switch args[0] {
	case "--version", "version":
		fmt.Fprintln(stdout, "concourse-ci-machine", version.Version)
		return 0
	case "plan":
		if len(args) > 1 {
			return p.usageError("cannot plan %q: plan takes no arguments", args[1])
		}
		return p.exitStatus(c.ShowPlan(ctx, stdout))
	case "gpu":
		return p.gpu(args[1:])
	case "gpu-baseline": // its files are outside CHARM_ROOT
		return p.execBaseline(args[1:])
	case "rocm":
		return p.rocm(args[1:])
	case "preflight":
		if !p.json(args[1:]) {
			return p.usageError("cannot check with %q: only --json is known", strings.Join(args[1:], " "))
		}
		return p.exitStatus(preflight.Show(ctx, c.Host, stdout, "", p.format))
	case "cdi":
		return p.cdi(args[1:])
	case "kubernetes":
		return p.kubernetes(args[1:])
	case "completion":
		if len(args) != 2 {
			return p.usageError("cannot write a completion for %q: want bash or zsh", strings.Join(args[1:], " "))
		}
		script := completion(args[1])
		if script == "" {
			return p.usageError("cannot write a completion for %q: want bash or zsh", args[1])
		}
		fmt.Fprint(stdout, script)
		return 0
	case "runtime":
		return p.runtime(args[1:])
	case "fleet":
		if !p.json(args[1:]) {
			return p.usageError("cannot show the fleet with %q: only --json is known", strings.Join(args[1:], " "))
		}
		return p.exitStatus(c.ShowFleet(ctx, stdout, p.format))
	case "pipelines":
		if len(args) > 2 {
			return p.usageError(
				"cannot print %q: want one name of the list that pipelines prints",
				strings.Join(args[1:], " "),
			)
		}
		return p.exitStatus(pipelines.Write(stdout, strings.Join(args[1:], "")))
	case "errors":
		if !p.json(args[1:]) {
			return p.usageError("cannot list errors with %q: only --json is known", strings.Join(args[1:], " "))
		}
		return p.exitStatus(c.ListErrors(stdout, p.format))
	case "explain":
		if len(args) < 2 || strings.HasPrefix(args[1], "-") {
			return p.usageError("cannot explain without a number: want explain N; dispatch errors lists them")
		}
		if !p.json(args[2:]) {
			return p.usageError("cannot explain an error with %q: only --json is known", strings.Join(args[2:], " "))
		}
		if err := c.ExplainError(stdout, args[1], p.format); err != nil {
			fmt.Fprintln(stderr, err)
			return 2
		}
		return 0
	}
	return p.usageError("cannot run %q: no such command", args[0])
}

func (p *caller) gpu(args []string) int {
	if len(args) == 0 {
		return p.usageError("cannot run gpu without a command: want " + gpuCommands)
	}
	name, rest := args[0], args[1:]
	switch {
	case name == probe && len(rest) == 1:
		driver, err := actions.ProbeNode(p.charm.Host.Root, rest[0])
		if err == nil {
			fmt.Fprintln(p.stdout, driver)
		}
		return p.exitStatus(err)
	case name == wellknown.ReadGPUFiles && len(rest) == 0:
		return p.exitStatus(gpu.ServeFiles(p.charm.Host.Root, os.Stdin, p.stdout))
	case name == open && len(rest) == 1:
		return p.exitStatus(p.charm.GPUs().OpenNode(p.ctx, p.stdout, rest[0]))
	case name == bench && len(rest) == 1:
		return p.exitStatus(p.charm.GPUs().WatchBench(p.ctx, rest[0], watcher.BenchLooks))
	case name == bench && len(rest) == 2 && (rest[1] == "back" || rest[1] == "end"):
		return p.exitStatus(p.charm.GPUs().EndBench(p.stdout, rest[0], rest[1] == "end"))
	case name == read && len(rest) == 0:
		return p.exitStatus(gpuhealth.Write(p.stdout, gpuhealth.Read(p.charm.Host.Root)))
	case name == leases && len(rest) == 0:
		return p.exitStatus(p.charm.GPUs().ReportLeases(p.ctx, p.stdout))
	case name == "top":
		return p.top(rest)
	case name == watch && len(rest) == 0:
		return p.exitStatus(p.charm.GPUs().Look(p.ctx, p.stdout))
	case name == proof && len(rest) == 1:
		return p.exitStatus(p.charm.GPUs().RecordProof(p.ctx, p.stdout, rest[0]))
	case name == "prove":
		if len(rest) != 1 || strings.HasPrefix(rest[0], "-") {
			return p.usageError("cannot prove %q: want gpu prove GPU", strings.Join(rest, " "))
		}
		return p.exitStatus(p.charm.GPUs().Prove(p.ctx, p.stdout, rest[0]))
	case name == "withhold":
		if len(rest) < 2 || strings.HasPrefix(rest[0], "-") {
			return p.usageError("cannot withhold %q: want gpu withhold GPU REASON", strings.Join(rest, " "))
		}
		return p.exitStatus(p.charm.GPUs().Withhold(p.stdout, rest[0], strings.Join(rest[1:], " ")))
	case name == "return":
		if len(rest) != 1 || strings.HasPrefix(rest[0], "-") {
			return p.usageError("cannot return %q: want gpu return GPU", strings.Join(rest, " "))
		}
		return p.exitStatus(p.charm.GPUs().Return(p.stdout, rest[0]))
	case name == "release":
		force := len(rest) == 2 && rest[1] == "--force"
		if len(rest) != 1 && !force || strings.HasPrefix(rest[0], "-") {
			return p.usageError(
				"cannot release %q: want gpu release GPU, or gpu release GPU --force",
				strings.Join(rest, " "),
			)
		}
		return p.exitStatus(p.charm.GPUs().Release(p.stdout, rest[0], force))
	}
	do, known := map[string]func() error{
		"list":     func() error { return p.charm.ListGPUs(p.ctx, p.stdout, p.format.JSON) },
		"detect":   func() error { return p.charm.DetectGPUs(p.stdout) },
		"verify":   func() error { return p.charm.VerifyGPUs(p.ctx, p.stdout, p.format) },
		"health":   func() error { return p.charm.GPUHealth(p.ctx, p.stdout, p.format) },
		"status":   func() error { return p.charm.GPUs().Status(p.stdout, p.format) },
		"evidence": func() error { return p.charm.GPUs().Evidence(p.stdout, p.format) },
	}[name]
	switch {
	case !known:
		return p.usageError("cannot run gpu %q: want "+gpuCommands, name)
	case name == "detect" && len(rest) > 0:
		return p.usageError("cannot detect GPUs with %q: detect takes no arguments", strings.Join(rest, " "))
	case !p.json(rest):
		return p.usageError("cannot %s GPUs with %q: only --json is known", verb(name), strings.Join(rest, " "))
	}
	return p.exitStatus(do())
}

func (p *caller) rocm(args []string) int {
	switch {
	case len(args) == 1 && args[0] == "plan":
		return p.exitStatus(p.charm.ShowDriver(p.ctx, p.stdout))
	case len(args) == 1 && args[0] == "matrix":
		return p.exitStatus(amd.WriteMatrix(p.stdout))
	}
	return p.usageError("cannot run rocm %q: want rocm plan or rocm matrix", strings.Join(args, " "))
}

// verb returns the command as a verb.
func verb(name string) string {
	switch name {
	case "health":
		return "judge"
	case "status":
		return "show the leases of"
	}
	return name
}

// json parses the flag --json. It returns false for other arguments.
func (p *caller) json(args []string) bool {
	p.format.JSON = len(args) == 1 && args[0] == "--json"
	return len(args) == 0 || p.format.JSON
}

func (p *caller) usageError(format string, a ...any) int {
	fmt.Fprintf(p.stderr, format+"; see dispatch --help\n", a...)
	return 2
}

func (p *caller) exitStatus(err error) int {
	if err != nil {
		return fail(p.stderr, err)
	}
	return 0
}

// execProgram replaces this process with another program. Tests replace the variable.
var execProgram = syscall.Exec

// execBaseline replaces dispatch with the charm's program gpu-baseline, which is not linked
// into dispatch. It returns only if the program cannot be started.
func (p *caller) execBaseline(args []string) int {
	file := filepath.Join(p.charm.CharmDir, "bin", "gpu-baseline")
	err := execProgram(file, append([]string{file}, args...), os.Environ())
	fmt.Fprintf(p.stderr, "dispatch: cannot start %s: %v\n", file, err)
	return 1
}
