package wellknown

import (
	"strconv"
	"strings"
)

// MachineProgram names the program of a machine without Juju, see Command.
const MachineProgram = "concourse-ci-machine"

// WithoutJuju reports whether this program is MachineProgram.
func WithoutJuju() bool { return Command == MachineProgram }

// onMachine returns the command of a machine without Juju, otherwise the command of Juju.
func onMachine(machine, withJuju string) string {
	if WithoutJuju() {
		return machine
	}
	return withJuju
}

// RunAction returns the command that runs an action, with its parameters.
func RunAction(unit, action string) string {
	return onMachine("sudo "+MachineProgram+" "+action, "juju run "+unit+" "+action)
}

// ReleaseGPU returns the command that frees a GPU with a lease that cannot be judged.
func ReleaseGPU(unit, gpu string) string {
	if Command == GPUKit {
		return "sudo " + GPUKit + " gpu release " + gpu + " --force"
	}
	return RunAction(unit, "release-gpu gpu="+gpu+" force=true")
}

// GiveRelease returns the command that gives units the tarball of a Concourse release.
func GiveRelease() string {
	return onMachine("sudo "+MachineProgram+" up --release=<tarball>",
		"juju attach-resource <application> concourse-release=<tarball>")
}

// Integrate returns the command that adds a relation: app:endpoint other:endpoint. Without
// Juju the command up with these arguments provides what the relation would.
func Integrate(up, relation string) string {
	return onMachine(strings.TrimSpace("sudo "+MachineProgram+" up "+up), "juju integrate "+relation)
}

// SetOption returns the command that changes an option: name=value.
func SetOption(app, setting string) string {
	return onMachine("sudo "+MachineProgram+" set "+setting, "juju config "+app+" "+setting)
}

// OnUnit returns the command that runs a shell command on the unit's machine.
func OnUnit(unit, command string) string { return onMachine(command, "juju ssh "+unit+" "+command) }

// ResetOption returns the command that gives an option its default.
func ResetOption(app, name string) string {
	return onMachine("sudo "+MachineProgram+" reset "+name, "juju config "+app+" --reset "+name)
}

// ShowStatus returns the command that shows the status of the unit, or of all units ("").
func ShowStatus(unit string) string {
	return onMachine(MachineProgram+" status", strings.TrimSpace("juju status "+unit))
}

// Explain returns the command that explains GPU errors by their numbers, to a reader on the
// machine. For a reader of juju status use the action: RunAction(unit, "explain-error
// code=2").
func Explain(numbers ...int) string {
	texts := make([]string, len(numbers))
	for i, n := range numbers {
		texts[i] = strconv.Itoa(n)
	}
	return Command + " explain " + strings.Join(texts, " ")
}

// Purged names the reason for the steps of the command purge.
const Purged = "the machine is purged"

// WhyRemoved returns the reason for the steps of the hooks stop and remove. On a machine
// without Juju they belong to the commands down and purge.
func WhyRemoved(hook string) string {
	if hook == "stop" {
		return onMachine("the CI is stopped", "the unit is being removed")
	}
	return onMachine(Purged, "the unit is being removed")
}
