// Package demo is what `make demo` shows: the built charm on a machine of its
// own, hook by hook, then its metrics and a task container. Whatever is a
// stand-in is called one; what can't run here is named with the reason.
package demo

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"concourse-ci-machine/internal/charmpack"
	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/juju/jujutest"
	"concourse-ci-machine/internal/sandbox"
)

const usage = `sandbox demo   play a ROCm worker's life in a throwaway folder
Run it in the project's folder, after make build (make demo does both).
`

// hosts is where the fixture hosts are, below the project's folder.
const hosts = "internal/host/hosttest/hosts"

// TSAKey is a made-up public key of a web that does not exist.
const tsaKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHQ1Jq1s2cKQ0n3H8mDqk5m0vJqv5u0yF2n8mY6mJ2rD tsa"

// Main runs the demo. Exit status: 0 shown, 1 something went wrong, 2 usage.
func Main(args []string, stdout, stderr io.Writer) int {
	if len(args) == 1 && args[0] == taskChild {
		return runTaskChild(stdout, stderr)
	}
	if len(args) != 1 || args[0] != "demo" {
		fmt.Fprint(stderr, usage)
		return 2
	}
	d := &demo{out: stdout}
	err := d.play()
	if cerr := d.close(); err == nil {
		err = cerr
	}
	if err != nil {
		fmt.Fprintln(stderr, "sandbox:", err)
		return 1
	}
	fmt.Fprintln(stdout, "\nDone. Nothing was left behind.")
	return 0
}

type demo struct {
	out    io.Writer
	dir    string // the unpacked charm and the stand-in release
	world  *sandbox.World
	pebble *pebble
	left   []string // what was left out, with the reason
}

func (d *demo) say(format string, args ...any) { fmt.Fprintf(d.out, format+"\n", args...) }

func (d *demo) title(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	d.say("\n== %s %s", text, strings.Repeat("=", max(0, 74-len(text))))
}

func (d *demo) close() error {
	var err error
	if d.pebble != nil {
		err = d.pebble.stop()
	}
	if d.world != nil {
		if cerr := d.world.Close(); err == nil {
			err = cerr
		}
	}
	if rerr := os.RemoveAll(d.dir); err == nil {
		err = rerr
	}
	return err
}

func (d *demo) play() (err error) {
	if d.dir, err = os.MkdirTemp("", "cci-charm-"); err != nil {
		return err
	}
	if err := os.Chmod(d.dir, 0o755); err != nil {
		return err
	}
	if err := d.unpackCharm(); err != nil {
		return err
	}
	if d.world, err = d.unit("amd-nvidia"); err != nil {
		return err
	}
	d.say("A unit of concourse-ci-machine in an LXD container of a host with an AMD and an")
	d.say("NVIDIA GPU; the AMD one is passed through. Its files are below %s,", d.world.Root)
	d.say("copied from a fixture. dispatch is the built program; Juju is a model in memory")
	d.say("behind real hook-tool commands; Concourse's release is a stand-in that knows its")
	d.say("version only. systemctl, journalctl and apt-get are recorded, not run.")
	for _, scene := range []func() error{d.hooks, d.again, d.metrics, d.wrongVendor, d.task} {
		if err := scene(); err != nil {
			return err
		}
	}
	if len(d.left) > 0 {
		d.title("Left out here")
		for _, l := range d.left {
			d.say("  - %s", l)
		}
	}
	return nil
}

func (d *demo) unpackCharm() error {
	var out strings.Builder
	if charmpack.Run([]string{"tree", "-version", "demo", "-o", d.charm()}, &out, &out) != 0 {
		return fmt.Errorf("cannot unpack the charm: %s", strings.TrimSpace(out.String()))
	}
	return sandbox.StandInRelease(filepath.Join(d.dir, "concourse.tgz"), "8.2.5")
}

func (d *demo) charm() string { return filepath.Join(d.dir, "charm") }

func (d *demo) unit(host string) (*sandbox.World, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w, err := sandbox.New(sandbox.Options{Host: filepath.Join(hosts, host), Charm: d.charm(), Exe: exe, Unit: "concourse-ci-machine/0"})
	if err != nil {
		return nil, err
	}
	w.Model.Resources = map[string]string{"concourse-release": filepath.Join(d.dir, "concourse.tgz")}
	for name, value := range map[string]any{
		"mode": "worker",
		// The demo reaches no network: nothing listens there.
		"rocm-base-url": "http://127.0.0.1:9",
	} {
		if err := w.Model.SetConfig(name, value); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// show prints what a hook did. Its failure ends the demo.
func (d *demo) show(what string, r sandbox.Result, err error) error {
	if err != nil {
		return fmt.Errorf("cannot run %s: %w", what, err)
	}
	d.title("%s", what)
	if r.Code != 0 {
		return fmt.Errorf("%s exited with %d: %s", what, r.Code, r.Output)
	}
	if text := r.Plan(); text != "" {
		d.say("plan:\n  %s", strings.ReplaceAll(text, "\n", "\n  "))
	} else {
		d.say("plan: nothing to do")
	}
	for _, c := range r.Commands {
		d.say("recorded, not run: %s", c)
	}
	if s := r.Status(); s.Status != "" {
		d.say("status: %s: %s", s.Status, s.Message)
	}
	return nil
}

func (d *demo) hooks() error {
	w := d.world
	w.Machine.OnUnit = d.onUnit
	r, err := w.Hook("install")
	if err := d.show("install", r, err); err != nil {
		return err
	}
	if err := w.Model.SetConfig("compute-runtime", "rocm"); err != nil {
		return err
	}
	r, err = w.Hook("config-changed")
	if err := d.show("config-changed: juju config concourse-ci-machine compute-runtime=rocm", r, err); err != nil {
		return err
	}
	r, err = w.Hook("start")
	if err := d.show("start", r, err); err != nil {
		return err
	}
	flight := w.Model.Relate(7, "flight", "web")
	flight.Units = map[string]map[string]string{"web/0": {
		"tsa-host": "10.0.0.2:2222", "tsa-public-key": tsaKey, "concourse-version": "8.2.5"}}
	r, err = w.RelationHook(flight, "changed", "web/0")
	if err := d.show("flight-relation-changed: juju integrate concourse-ci-machine:flight web:tsa", r, err); err != nil {
		return err
	}
	d.say("published to web: worker-public-key=%.40s...", flight.Local["worker-public-key"])
	env, err := w.Root.ReadText(concourse.EnvFile)
	if err != nil {
		return err
	}
	tags := regexp.MustCompile(`(?m)^CONCOURSE_TAG=(.*)$`).FindStringSubmatch(env)
	if tags == nil || !slices.Contains(strings.Split(tags[1], ","), "gpu-count=1") {
		return fmt.Errorf("%s has no tag for one GPU", concourse.EnvFile)
	}
	d.say("registers at the web with the tags: %s", strings.ReplaceAll(tags[1], ",", ", "))
	r, err = w.Hook("update-status")
	return d.show("update-status", r, err)
}

func (d *demo) again() error {
	r, err := d.world.Hook("config-changed")
	if err := d.show("config-changed, a second time", r, err); err != nil {
		return err
	}
	if r.Plan() != "" {
		return fmt.Errorf("the second config-changed planned something")
	}
	for _, tool := range r.Calls {
		d.say("hook tool called: %s", tool)
	}
	return nil
}

func (d *demo) wrongVendor() (err error) {
	w, err := d.unit("nvidia-only")
	if err != nil {
		return err
	}
	defer func() {
		if cerr := w.Close(); err == nil {
			err = cerr
		}
	}()
	if r, err := w.Hook("install"); err != nil || r.Code != 0 {
		return fmt.Errorf("cannot install the second unit: %v %s", err, r.Output)
	}
	if err := w.Model.SetConfig("compute-runtime", "rocm"); err != nil {
		return err
	}
	r, err := w.Hook("config-changed")
	if err := d.show("another unit, only its NVIDIA GPU passed through, compute-runtime=rocm", r, err); err != nil {
		return err
	}
	if s := r.Status(); s.Status != "blocked" {
		return fmt.Errorf("the wrong vendor was not noticed: %+v", jujutest.StatusLine(s))
	}
	return nil
}
