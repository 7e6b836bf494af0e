package amd

import (
	"time"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/templates"
)

// UdevRules are the rules for the nodes of AMD GPUs, under the name that AMD's
// documentation gives such a file.
const UdevRules = "/etc/udev/rules.d/70-amdgpu.rules"

// Modes of the GPUs' nodes.
const (
	modeGroup = "0660" // users in the group render
	ModeAll   = "0666" // every user
)

const udevLimit = time.Minute

// udevRules are the rules, and udev told of them.
func udevRules(mode string) (plan.Resource, error) {
	data, err := templates.Render("70-amdgpu.rules", struct{ Group, Mode string }{"render", mode})
	return udev(resource.File{Path: UdevRules, Data: data, Mode: 0o644}, ""), err
}

// udev is a file of rules. A change is applied to the nodes that are there, and
// waited for, so that the same hook sees them as they are from now on.
func udev(f resource.File, gone string) applied {
	run := func(argv ...string) host.Command {
		return host.Command{Argv: append([]string{"udevadm"}, argv...), Deadline: udevLimit}
	}
	return applied{file: f, gone: gone, stamp: "udev-rules", op: "reload udev's rules", then: []host.Command{
		run("control", "--reload-rules"),
		run("trigger", "--action=change", "--subsystem-match=drm", "--subsystem-match=kfd"),
		run("settle", "--timeout=30"),
	}}
}
