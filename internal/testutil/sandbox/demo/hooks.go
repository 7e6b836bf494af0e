package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdi"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/jujutest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/sandbox"
)

// tsaKey is an invented public key of a web.
const tsaKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHQ1Jq1s2cKQ0n3H8mDqk5m0vJqv5u0yF2n8mY6mJ2rD tsa"

// show prints the result of a hook. Its failure ends the demo.
func (d *demo) show(hook, command string, r sandbox.Result, err error) error {
	d.screen.title(hook)
	if command != "" {
		d.screen.item("as after", "%s", command)
	}
	if err != nil {
		return fmt.Errorf("cannot run %s: %w", hook, err)
	}
	d.steps(r)
	d.standIns(r)
	if r.Code != 0 {
		return fmt.Errorf("%s exited with %d: %s", hook, r.Code, r.Output)
	}
	if s := r.Status(); s.Status != "" {
		d.screen.item("status", "%s: %s", s.Status, s.Message)
	}
	return context.Cause(d.ctx)
}

// steps shows the results of the plan's steps: failed ones, and with -v all.
func (d *demo) steps(r sandbox.Result) {
	if r.Plan() == "" {
		d.screen.mark(passed, "nothing to do")
		return
	}
	all := strings.Split(r.Plan(), "\n")
	succeeded, staged := 0, false
	var bad, skipped []string
	for _, step := range all {
		m, why := outcomeOf(step, r.Logs)
		switch m {
		case passed:
			succeeded++
		case notRun:
			number, _, _ := strings.Cut(step, " ")
			skipped = append(skipped, number)
		default:
			if strings.Contains(why, noServer) {
				step, staged = "staged: "+step, true
			}
			bad = append(bad, step+why)
		}
		if d.verbose {
			d.screen.mark(m, "%s%s", step, why)
		}
	}
	if !d.verbose {
		d.countSteps(succeeded, len(all), bad, skipped)
	}
	if staged {
		d.screen.item("staged", "this failure, to show that the unit works without an optional step: the demo sets "+
			"rocm-base-url to an address without a server")
	}
}

// countSteps shows the number of successful steps and the other steps.
func (d *demo) countSteps(succeeded, all int, bad, skipped []string) {
	if len(bad) == 0 {
		d.screen.mark(passed, "%d steps done", succeeded)
		return
	}
	d.screen.mark(passed, "%d of %d steps done", succeeded, all)
	for _, step := range bad {
		d.screen.mark(tolerated, "%s", step)
	}
	if len(skipped) > 0 {
		d.screen.mark(notRun, "%s, which need it; the worker needs none of them", strings.Join(skipped, ", "))
	}
}

// outcomeOf returns the result of a step according to the unit's log, which has the failed
// ones.
func outcomeOf(step string, logs []jujutest.LogLine) (m mark, why string) {
	_, op, _ := strings.Cut(step, " ")
	op, _, _ = strings.Cut(op, " (")
	for _, l := range logs {
		if _, reason, ok := strings.Cut(l.Message, "could not "+op+": "); ok {
			return tolerated, ": " + reason
		}
		if strings.Contains(l.Message, "did not "+op+": ") {
			return notRun, ""
		}
	}
	return passed, ""
}

// standIns lists the stand-ins of other programs.
func (d *demo) standIns(r sandbox.Result) {
	var order []string
	recorded := map[string][]string{}
	for _, c := range r.Commands {
		program, args, _ := strings.Cut(c, " ")
		if recorded[program] == nil {
			order = append(order, program)
		}
		recorded[program] = append(recorded[program], args)
	}
	if strings.Contains(r.Plan(), "Concourse release") {
		d.screen.item("stand-in", "Concourse's release, which only reports its version")
	}
	for _, program := range order {
		d.screen.item("stand-in", "%s (recorded, not run): %s", program, strings.Join(recorded[program], "; "))
	}
	if len(r.Calls) == 0 {
		return
	}
	if !d.verbose {
		d.screen.item("stand-in", "Juju (a model in memory): %d calls of hook tools", len(r.Calls))
		return
	}
	for _, call := range r.Calls {
		d.screen.item("stand-in", "Juju (a model in memory): %s", call)
	}
}

func (d *demo) hooks() (string, error) {
	w := d.world
	w.Machine.OnUnit = d.onUnit
	r, err := w.Hook("install")
	if err := d.show("install", "juju deploy ./concourse-ci-machine_amd64.charm --config mode=worker", r,
		err); err != nil {
		return "", err
	}
	if err := w.Model.SetConfig("compute-runtime", "rocm"); err != nil {
		return "", err
	}
	r, err = w.Hook("config-changed")
	if err := d.show("config-changed", "juju config concourse-ci-machine compute-runtime=rocm", r, err); err != nil {
		return "", err
	}
	if err := d.device(); err != nil {
		return "", err
	}
	r, err = w.Hook("start")
	if err := d.show("start", "", r, err); err != nil {
		return "", err
	}
	flight := w.Model.Relate(7, "flight", "web")
	flight.Units = map[string]map[string]string{"web/0": {
		"tsa-host": "10.0.0.2:2222", "tsa-public-key": tsaKey, "concourse-version": "8.2.5"}}
	r, err = w.RelationHook(flight, "changed", "web/0")
	if err := d.show("flight-relation-changed", "juju integrate concourse-ci-machine:flight web:tsa", r,
		err); err != nil {
		return "", err
	}
	d.screen.item("stand-in", "the relation data of the web; the worker's health and its journal")
	d.screen.item("to web", "worker-public-key=%.40s...", flight.Local["worker-public-key"])
	tags, err := d.tags()
	if err != nil {
		return "", err
	}
	d.screen.item("to web", "tags: %s", strings.Join(tags, ", "))
	r, err = w.Hook("update-status")
	if err := d.show("update-status", "", r, err); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s, with the tags of one AMD GPU", r.Status().Status), nil
}

// device shows the names of the GPU in container tools.
func (d *demo) device() error {
	data, err := d.world.Root.ReadFile(cdi.Path)
	if err != nil {
		return err
	}
	var spec specs.Spec
	if err := json.Unmarshal(data, &spec); err != nil {
		return fmt.Errorf("cannot read %s: %w", cdi.Path, err)
	}
	nodes := func(e specs.ContainerEdits) (paths []string) {
		for _, n := range e.DeviceNodes {
			paths = append(paths, n.Path)
		}
		return paths
	}
	for _, device := range spec.Devices {
		if device.Name == "0" {
			d.screen.item("CDI", "device %s=%s in %s: %s", spec.Kind, device.Name, cdi.Path,
				strings.Join(append(nodes(spec.ContainerEdits), nodes(device.ContainerEdits)...), ", "))
			return nil
		}
	}
	return fmt.Errorf("%s has no device 0", cdi.Path)
}

// tags returns the worker's tags, as Concourse will see them.
func (d *demo) tags() ([]string, error) {
	env, err := d.world.Root.ReadText(concourse.EnvFile)
	if err != nil {
		return nil, err
	}
	found := regexp.MustCompile(`(?m)^CONCOURSE_TAG=(.*)$`).FindStringSubmatch(env)
	if found == nil || !slices.Contains(strings.Split(found[1], ","), "gpu-count=1") {
		return nil, fmt.Errorf("%s has no tag for one GPU", concourse.EnvFile)
	}
	return strings.Split(found[1], ","), nil
}

func (d *demo) secondHook() (string, error) {
	r, err := d.world.Hook("config-changed")
	if err := d.show("config-changed, a second time", "", r, err); err != nil {
		return "", err
	}
	if r.Plan() != "" {
		return "", fmt.Errorf("the second config-changed planned something")
	}
	return "nothing to do", nil
}

func (d *demo) wrongVendor() (string, error) {
	w, err := d.unit("nvidia-only")
	if err != nil {
		return "", err
	}
	if r, err := w.Hook("install"); err != nil || r.Code != 0 {
		return "", fmt.Errorf("cannot install the second unit: %v %s", err, r.Output)
	}
	if err := w.Model.SetConfig("compute-runtime", "rocm"); err != nil {
		return "", err
	}
	r, err := w.Hook("config-changed")
	if err := d.show("another unit, with its NVIDIA GPU alone",
		"juju config concourse-ci-machine compute-runtime=rocm", r, err); err != nil {
		return "", err
	}
	if s := r.Status(); s.Status != "blocked" {
		return "", fmt.Errorf("the wrong vendor was not noticed: %+v", s)
	}
	return "blocked, with the command that helps", nil
}
