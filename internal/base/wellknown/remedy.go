package wellknown

import "strings"

// MachineProgram names the program of a machine without Juju, see Command.
const MachineProgram = "concourse-ci-machine"

// RunAction returns the command that runs an action, with its parameters.
func RunAction(unit, action string) string {
	if Command == MachineProgram {
		return "sudo " + MachineProgram + " " + action
	}
	return "juju run " + unit + " " + action
}

// ReleaseGPU returns the command that frees a GPU with a lease that cannot be judged.
func ReleaseGPU(unit, gpu string) string {
	if Command == GPUKit {
		return "sudo " + GPUKit + " gpu release " + gpu + " --force"
	}
	return RunAction(unit, "gpu-release gpu="+gpu+" force=true")
}

// GiveRelease returns the command that gives units the tarball of a Concourse release.
func GiveRelease() string {
	if Command == MachineProgram {
		return "sudo " + MachineProgram + " up --release=<tarball>"
	}
	return "juju attach-resource <application> concourse-release=<tarball>"
}

// SetOption returns the command that changes an option: name=value.
func SetOption(app, setting string) string {
	if Command == MachineProgram {
		return "sudo " + MachineProgram + " set " + setting
	}
	return "juju config " + app + " " + setting
}

// OnUnit returns the command that runs a shell command on the unit's machine.
func OnUnit(unit, command string) string {
	if Command == MachineProgram {
		return command
	}
	return "juju ssh " + unit + " " + command
}

// ResetOption returns the command that gives an option its default.
func ResetOption(app, name string) string {
	if Command == MachineProgram {
		return "sudo " + MachineProgram + " reset " + name
	}
	return "juju config " + app + " --reset " + name
}

// ShowStatus returns the command that shows the status of the unit, or of all units ("").
func ShowStatus(unit string) string {
	if Command == MachineProgram {
		return MachineProgram + " status"
	}
	return strings.TrimSpace("juju status " + unit)
}
