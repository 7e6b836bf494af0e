// Package demo plays `make demo`: the built charm on a separate machine, hook by hook, then
// its metrics and a task container. On a terminal it serves the status page at the end. It
// names every stand-in, and gives the reason for each part that can't run here. It never
// changes this machine.
package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"concourse-ci-machine/internal/testutil/sandbox"
	"concourse-ci-machine/tools/charmpack"
)

// noServer is the demo's source of apt packages: the demo uses no network, and no server
// listens there.
const noServer = "http://127.0.0.1:9"

// hosts is the folder of the fixture hosts, in the project's folder.
const hosts = "internal/testutil/hosttest/hosts"

// scenes are the parts of the demo, each with a line in its summary.
var scenes = []struct {
	name string
	run  func(*demo) (string, error)
}{
	{"a worker", (*demo).hooks},
	{"the same hook again", (*demo).secondHook},
	{"GPU metrics", (*demo).metrics},
	{"the wrong vendor", (*demo).wrongVendor},
	{"a task", (*demo).task},
}

type outcome struct {
	mark mark
	text string
}

// missing reports what this machine lacks for a scene.
type missing struct{ why string }

func (e missing) Error() string { return e.why }

type demo struct {
	ctx      context.Context // ends with a signal, or when the output is closed
	bin      string
	verbose  bool
	screen   *screen
	dir      string // the unpacked charm and the stand-in release
	world    *sandbox.World
	worlds   []*sandbox.World
	pebble   *pebble
	outcomes map[string]outcome // of scenes, by name
}

func (d *demo) close() error {
	var err error
	if d.pebble != nil {
		err = d.pebble.stop()
	}
	for _, w := range d.worlds {
		err = errors.Join(err, w.Close())
	}
	return errors.Join(err, os.RemoveAll(d.dir))
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
	d.intro()
	d.outcomes = map[string]outcome{}
	for _, s := range scenes {
		if err := context.Cause(d.ctx); err != nil {
			return err
		}
		text, err := s.run(d)
		var lacks missing
		switch {
		case errors.As(err, &lacks):
			d.outcomes[s.name] = outcome{leftOut, lacks.why}
		case err != nil:
			if context.Cause(d.ctx) == nil {
				d.screen.mark(failed, "%v", err)
				d.outcomes[s.name] = outcome{failed, "see above"}
			}
			return err
		default:
			d.outcomes[s.name] = outcome{passed, text}
		}
	}
	return context.Cause(d.ctx)
}

// intro distinguishes the demo from a real CI, then introduces the unit and the stand-ins.
func (d *demo) intro() {
	d.screen.prose("This demo runs the hooks of one Juju unit in a throwaway folder, with stand-in GPUs. " +
		"It runs no real Concourse and uses no real GPU.")
	d.screen.prose("The real CI on this machine: sudo concourse-ci-machine up (docs/tutorial/own-machine.md)")
	d.screen.line("")
	d.screen.prose(fmt.Sprintf("The unit is in an LXD container of a host with an AMD and an NVIDIA GPU. The AMD "+
		"GPU is passed through. The unit's files are below %s, copied from a fixture. dispatch is the built program.",
		d.world.Root))
	d.screen.prose("Stand-ins are marked. Juju is a model in memory behind hook tools that are real commands. " +
		"systemctl, journalctl and apt-get are recorded, not run. Concourse's release only reports its version.")
}

func (d *demo) unpackCharm() error {
	var out strings.Builder
	if charmpack.Run([]string{"tree", "-bin", d.bin, "-version", "demo", "-o", d.charm()}, &out, &out) != 0 {
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
	w, err := sandbox.New(sandbox.Options{Host: filepath.Join(hosts, host), Charm: d.charm(), Exe: exe,
		Unit: "concourse-ci-machine/0"})
	if err != nil {
		return nil, err
	}
	d.worlds = append(d.worlds, w)
	// A terminal's Ctrl-C is for the demo, which lets a hook finish.
	w.Start = func(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL} }
	w.Model.Resources = map[string]string{"concourse-release": filepath.Join(d.dir, "concourse.tgz")}
	for name, value := range map[string]any{
		"mode":          "worker",
		"rocm-base-url": noServer,
	} {
		if err := w.Model.SetConfig(name, value); err != nil {
			return nil, err
		}
	}
	return w, nil
}
