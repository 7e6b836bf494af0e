package wellknown

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Program names the program that a user runs. The zero value is Dispatch.
type Program string

// Commands returns the commands that texts name, for a reader with Program. The zero value
// names a unit of Juju without its name.
type Commands struct {
	Program Program
	Unit    string // "" if unknown
}

// WithoutJuju reports whether the program runs a machine without Juju.
func (c Commands) WithoutJuju() bool { return c.Program == MachineProgram }

// Name returns the name of the program.
func (c Commands) Name() string { return cmp.Or(string(c.Program), Dispatch) }

// Of returns the same commands for another unit.
func (c Commands) Of(unit string) Commands { return Commands{c.Program, unit} }

func (c Commands) unit() string { return cmp.Or(c.Unit, "<unit>") }

func (c Commands) app() string {
	app, _, _ := strings.Cut(c.Unit, "/")
	return cmp.Or(app, "<application>")
}

// onMachine returns the command of a machine without Juju, otherwise the command of Juju.
func (c Commands) onMachine(machine, withJuju string) string {
	if c.WithoutJuju() {
		return machine
	}
	return withJuju
}

// RunAction returns the command that runs an action, with its parameters.
func (c Commands) RunAction(action string) string {
	if c.Program == GPUKit {
		return "sudo " + GPUKit + " " + gpukitCommand(action)
	}
	return c.onMachine("sudo "+MachineProgram+" "+action, "juju run "+c.unit()+" "+action)
}

// gpukitCommand returns the command of gpukit that does the same as an action on GPUs. The
// action's parameters are its arguments.
func gpukitCommand(action string) string {
	words := strings.Fields(action)
	switch verb, isVerb := strings.CutSuffix(words[0], "-gpu"); {
	case isVerb: // return-gpu
		words[0] = "gpu " + verb
	case words[0] == "explain-error":
		words[0] = "explain"
	default: // gpu-status
		words[0] = strings.Replace(words[0], "-", " ", 1)
	}
	for i, w := range words[1:] {
		if _, value, found := strings.Cut(w, "="); found {
			words[i+1] = value
		}
	}
	return strings.Join(words, " ")
}

// ReleaseGPU returns the command that frees a GPU with a lease that cannot be judged.
func (c Commands) ReleaseGPU(gpu string) string {
	if c.Program == GPUKit {
		return "sudo " + GPUKit + " gpu release " + gpu + " --force"
	}
	return c.RunAction("release-gpu gpu=" + gpu + " force=true")
}

// GiveRelease returns the command that gives units the tarball of a Concourse release.
func (c Commands) GiveRelease() string {
	return c.onMachine("sudo "+MachineProgram+" up --release=<tarball>",
		"juju attach-resource <application> concourse-release=<tarball>")
}

// Integrate returns the command that adds a relation to an endpoint of the application.
// Without Juju the command up with these arguments provides what the relation would.
func (c Commands) Integrate(up, endpoint, other string) string {
	return c.onMachine(strings.TrimSpace("sudo "+MachineProgram+" up "+up),
		"juju integrate "+c.app()+":"+endpoint+" "+other)
}

// SetOption returns the command that changes an option: name=value. gpukit reads options from
// a file.
func (c Commands) SetOption(setting string) string {
	if c.Program == GPUKit {
		name, value, _ := strings.Cut(setting, "=")
		return fmt.Sprintf("echo GPUKIT_%s=%s | sudo tee -a /etc/default/gpukit",
			strings.ToUpper(strings.ReplaceAll(name, "-", "_")), value)
	}
	return c.onMachine("sudo "+MachineProgram+" set "+setting, "juju config "+c.app()+" "+setting)
}

// OtherMachine returns the advice to use a machine with another processor.
func (c Commands) OtherMachine(arch string) string {
	advice := "use an " + arch + " machine"
	return c.onMachine(advice, advice+": juju add-unit "+c.app()+" --constraints arch="+arch)
}

// OnUnit returns the command that runs a shell command on the unit's machine.
func (c Commands) OnUnit(command string) string {
	return c.onMachine(command, "juju ssh "+c.unit()+" "+command)
}

// ResetOption returns the command that gives an option its default.
func (c Commands) ResetOption(name string) string {
	return c.onMachine("sudo "+MachineProgram+" reset "+name, "juju config "+c.app()+" --reset "+name)
}

// ShowStatus returns the command that shows the status of the unit, or of all units.
func (c Commands) ShowStatus() string {
	if c.Program == GPUKit {
		return "sudo " + GPUKit + " gpu status"
	}
	return c.onMachine(MachineProgram+" status", strings.TrimSpace("juju status "+c.Unit))
}

// Explain returns the command that explains GPU errors by their numbers, to a reader on the
// machine. For a reader of juju status use the action: RunAction("explain-error code=2").
func (c Commands) Explain(numbers ...int) string {
	texts := make([]string, len(numbers))
	for i, n := range numbers {
		texts[i] = strconv.Itoa(n)
	}
	return c.Name() + " explain " + strings.Join(texts, " ")
}

// Purged names the reason for the steps of the command purge.
const Purged = "the machine is purged"

// WhyRemoved returns the reason for the steps of the hooks stop and remove. On a machine
// without Juju they belong to the commands down and purge.
func (c Commands) WhyRemoved(hook string) string {
	if hook == "stop" {
		return c.onMachine("the CI is stopped", "the unit is being removed")
	}
	return c.onMachine(Purged, "the unit is being removed")
}
